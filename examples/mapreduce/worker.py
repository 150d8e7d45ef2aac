"""A worker: it pulls tasks of three kinds, one at a time, until it is ended.

The results of what a task depends on come with it: `split` leaves lists of files, `count` the counts of one list, and
`merge` adds those up.
"""

import argparse
import os
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import httpx
from words import count_words, list_files

NOT_OURS = {404, 409}  # another delivery has the task by now, or it has ended
WAIT = 30


def split(task: dict[str, Any]) -> list[list[str]]:
    """Deal the files out to as many lists as there are tasks that count."""
    wanted = task["payload"]
    files = list_files(Path(wanted["root"]), wanted["limit"])
    return [files[part :: wanted["parts"]] for part in range(wanted["parts"])]


def count(task: dict[str, Any]) -> Counter[str]:
    """Count the words of one list."""
    return count_words(task["dependencies"]["split"]["result"][task["payload"]["part"]])


def merge(task: dict[str, Any]) -> Counter[str]:
    """Add up what all parts have counted."""
    total: Counter[str] = Counter()
    for part in task["dependencies"].values():
        total.update(part["result"])
    return total


WORK = {"split": split, "count": count, "merge": merge}


def main() -> None:
    """Pull, work, complete; what goes wrong is reported, and tried again later."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--server", default="http://127.0.0.1:8080")
    parser.add_argument("--queue", required=True)
    parser.add_argument("--hang-in", metavar="KIND", help="stop dead in the first task of this kind, holding it")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C is for who started us
    pull = {"queue": options.queue, "worker_id": f"worker-{os.getpid()}", "wait": WAIT, "include": ["dependencies"]}
    with httpx.Client(base_url=options.server, timeout=2 * WAIT) as http:
        while True:
            for task in http.post("/v1/tasks/next", json=pull).raise_for_status().json()["tasks"]:
                if task["kind"] == options.hang_in:
                    signal.pause()
                try:
                    verb, left = "complete", {"result": WORK[task["kind"]](task)}
                except Exception as error:  # noqa: BLE001 - the task's history says what it was
                    verb, left = "fail", {"error": repr(error)}
                answer = http.post(f"/v1/tasks/{task['id']}/{verb}", json={"delivery": task["delivery"], **left})
                if answer.status_code not in NOT_OURS:
                    answer.raise_for_status()


if __name__ == "__main__":
    main()

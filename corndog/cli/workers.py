"""Commands about the fleet, by calls of a server."""

from typing import Annotated

import msgspec
import typer

from corndog.cli.http import DEFAULT_SERVER, Server, call, read
from corndog.cli.output import AsJson, Failed, say, show_json, show_table


class Hold(msgspec.Struct):
    """What people are shown of what a worker holds."""

    claim_time: str


class Worker(msgspec.Struct):
    """What people are shown of a worker."""

    worker_id: str
    last_seen: str
    active: bool
    draining: bool
    held: int
    holds: list[Hold]

    @property
    def state(self) -> str:
        """Say in a word or two how it is."""
        seen = "active" if self.active else "silent"
        return f"{seen}, draining" if self.draining else seen


class Page(msgspec.Struct):
    """A page of the listing."""

    workers: list[msgspec.Raw]
    next_cursor: str | None


class Drained(msgspec.Struct):
    """Who is marked now, and who is not known."""

    workers: list[str]
    unknown: list[str]


def workers(
    active_since: Annotated[
        str | None, typer.Option(metavar="TIME", help="Only those seen within this time: 90s, 2m, 1h30m, or seconds.")
    ] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """List the workers, and how much each holds."""
    found: list[msgspec.Raw] = []
    cursor: str | None = None
    while True:
        params = {"active_since": active_since, "cursor": cursor}
        page = read(call("GET", server, "/v1/workers", params=params, as_json=as_json), Page)
        found += page.workers
        cursor = page.next_cursor
        if cursor is None:
            break
    if as_json:
        show_json({"workers": found})
    elif found:
        show_table(
            ("WORKER", "LAST SEEN", "STATE", "HOLDS", "OLDEST CLAIM"),
            [
                (each.worker_id, each.last_seen, each.state, each.held, each.holds[0].claim_time if each.holds else "")
                for each in (read(bytes(raw), Worker) for raw in found)
            ],
        )
    else:
        say("no workers" if active_since is None else "no worker was seen within that time")


def drain(
    worker_ids: Annotated[list[str] | None, typer.Argument(metavar="WORKER…", show_default=False)] = None,
    every: Annotated[bool, typer.Option("--all", help="All workers that there are now.")] = False,
    undo: Annotated[bool, typer.Option("--undo", help="Take it back.")] = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Have workers told to take no more tasks, and to end once they hold nothing."""
    if bool(worker_ids) == every:
        raise typer.BadParameter("name workers, or give --all", param_hint="WORKER…")
    body = {"worker_ids": worker_ids or None, "all": every or None, "drain": not undo}
    answer = call("POST", server, "/v1/workers/drain", body, as_json=as_json)
    drained = read(answer, Drained)
    if as_json:
        show_json(answer)
    else:
        for worker_id in drained.workers:
            say(f"{'drains no more' if undo else 'drains'}: {worker_id}")
        if not drained.workers and not drained.unknown:
            say("no workers")
    if drained.unknown:
        raise Failed(f"unknown: {', '.join(drained.unknown)}")

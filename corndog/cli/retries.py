"""Commands about tries that failed: report one, start again, and look back."""

from typing import Annotated

import msgspec
import typer

from corndog.cli.answers import show_written
from corndog.cli.http import DEFAULT_SERVER, Server, call, read
from corndog.cli.options import Queue, Seconds, State, TaskId
from corndog.cli.output import AsJson, one_line, say, show_json, show_table
from corndog.cli.tasks import match_of, path_of


class Run(msgspec.Struct):
    """What people are shown of one delivery of a task."""

    delivery: int
    worker_id: str
    claim_time: str
    end_time: str | None
    outcome: str | None
    error: str | None


class Runs(msgspec.Struct):
    """An answer with the deliveries of a task."""

    runs: list[Run]


def fail(
    task_id: TaskId,
    delivery: Annotated[int, typer.Option(help="Number of the hold.")],
    error: Annotated[str | None, typer.Option(metavar="TEXT", help="What went wrong.")] = None,
    no_retry: Annotated[bool, typer.Option("--no-retry", help="It ends as failed, whatever is left to try.")] = False,
    retry_in: Annotated[float | None, Seconds] = None,
    queue: Queue = None,
    state: State = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Report a failed try of a held task: it is tried again later, or is a dead letter."""
    if no_retry and retry_in is not None:
        raise typer.BadParameter("give either --no-retry or --retry-in")
    body = {
        **match_of(queue, state, delivery),
        "error": error,
        "retryable": False if no_retry else None,
        "retry_in": retry_in,
    }
    answer = call("POST", server, f"{path_of(task_id)}/fail", body, as_json=as_json)
    show_written("failed", answer, as_json=as_json)


def revive(task_id: TaskId, server: Server = DEFAULT_SERVER, as_json: AsJson = False) -> None:
    """Make a failed or canceled task live again, with a full budget, and what its end has canceled."""
    answer = call("POST", server, f"{path_of(task_id)}/revive", {}, as_json=as_json)
    show_written("revived", answer, as_json=as_json)


def runs(task_id: TaskId, server: Server = DEFAULT_SERVER, as_json: AsJson = False) -> None:
    """Show who had a task, from when to when, and how that ended."""
    answer = call("GET", server, f"{path_of(task_id)}/runs", as_json=as_json)
    if as_json:
        show_json(answer)
    elif found := read(answer, Runs).runs:
        show_table(
            ("DELIVERY", "WORKER", "CLAIMED", "ENDED", "OUTCOME", "ERROR"),
            [
                (
                    run.delivery,
                    one_line(run.worker_id),
                    run.claim_time,
                    run.end_time,
                    run.outcome or "holds it",
                    one_line(run.error or ""),
                )
                for run in found
            ],
        )
    else:
        say("it was never handed out")

"""Commands about dead letters: the tasks that ended as failed."""

from collections.abc import Iterator
from itertools import islice
from typing import Annotated

import msgspec
import typer

from corndog.cli.http import DEFAULT_SERVER, Problem, Server, call, read
from corndog.cli.output import AsJson, Failed, one_line, say, show_json, show_table

AT_ONCE = 100  # tasks of one call

OfQueue = Annotated[str | None, typer.Option("--queue", help="Of this queue only.")]
OfKind = Annotated[str | None, typer.Option("--kind", help="Of this kind only.")]

app = typer.Typer(help="Look at the tasks that ended as failed, and revive them.", no_args_is_help=True)


class Letter(msgspec.Struct):
    """What people are shown of a task that ended as failed."""

    id: str
    queue: str
    home_state: str
    attempt: int
    max_attempts: int | None
    lost: int
    update_time: str
    last_error: str | None

    @property
    def tries(self) -> str:
        """How many of its tries failed, and how many of its deliveries timed out."""
        tries = str(self.attempt) if self.max_attempts is None else f"{self.attempt}/{self.max_attempts}"
        return f"{tries}, {self.lost} lost" if self.lost else tries


class Letters(msgspec.Struct):
    """An answer with a page of them."""

    tasks: list[Letter]
    next_cursor: str | None


class Named(msgspec.Struct):
    """Which task it is."""

    id: str


class Ids(msgspec.Struct):
    """The same page, for those who need to know no more than which."""

    tasks: list[Named]
    next_cursor: str | None


class Outcome(msgspec.Struct):
    """What became of one task."""

    id: str
    problem: Problem | None


class Revived(msgspec.Struct):
    """What became of several; each as the server tells it."""

    results: list[msgspec.Raw]
    failed: int
    more: bool = False


@app.command("list")
def list_letters(
    queue: OfQueue = None,
    kind: OfKind = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Show so many at most; else 100.")] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """List the tasks that ended as failed, by submit time."""
    answer = _page(server, queue, kind, None, None if limit is None else str(limit), as_json=as_json)
    if as_json:
        show_json(answer)
        return
    page = read(answer, Letters)
    if not page.tasks:
        say("no dead letters")
        return
    show_table(
        ("ID", "QUEUE", "STATE", "ATTEMPTS", "FAILED", "ERROR"),
        [
            (
                letter.id,
                letter.queue,
                letter.home_state,
                letter.tries,
                letter.update_time,
                one_line(letter.last_error or ""),
            )
            for letter in page.tasks
        ],
    )
    if page.next_cursor:
        say("… and more: see --limit")


@app.command()
def revive(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID…", help="These tasks.", show_default=False)] = None,
    every: Annotated[bool, typer.Option("--all", help="All tasks that ended as failed.")] = False,
    queue: OfQueue = None,
    kind: OfKind = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say how many that would be.")] = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Make tasks that ended live again, under their ids and with a full budget."""
    if bool(ids) == every:
        raise typer.BadParameter("give either the tasks' ids or --all")
    if ids and (queue or kind):
        raise typer.BadParameter("--queue and --kind go with --all")
    wanted = iter(ids) if ids else _all_ids(server, queue, kind, as_json=as_json)
    whole = Revived([], 0)
    while some := list(islice(wanted, AT_ONCE)):
        body = {"ids": some, "dry_run": dry_run}
        part = read(call("POST", server, "/v1/tasks/revive", body, as_json=as_json), Revived)
        whole.results += part.results
        whole.failed += part.failed
    if as_json:
        show_json(msgspec.json.encode(whole))
    else:
        _show_refusals(whole)
        say(f"{'would revive' if dry_run else 'revived'}: {len(whole.results) - whole.failed}")
    if whole.failed:
        raise Failed(f"refused: {whole.failed}")


def _all_ids(server: str, queue: str | None, kind: str | None, *, as_json: bool) -> Iterator[str]:
    """List all dead letters, each once: what can't be revived, or fails again, is not met a second time."""
    cursor = None
    while True:
        page = read(_page(server, queue, kind, cursor, str(AT_ONCE), as_json=as_json), Ids)
        yield from (task.id for task in page.tasks)
        cursor = page.next_cursor
        if cursor is None:
            return


def _page(
    server: str, queue: str | None, kind: str | None, cursor: str | None, limit: str | None, *, as_json: bool
) -> bytes:
    params = {
        "archived": "true",
        "phase": "failed",
        "queue": queue,
        "kind": kind,
        "cursor": cursor,
        "limit": limit,
    }
    return call("GET", server, "/v1/tasks", params=params, as_json=as_json)


def _show_refusals(revived: Revived) -> None:
    outcomes = [msgspec.json.decode(result, type=Outcome) for result in revived.results]
    if refused := [(outcome.id, one_line(outcome.problem.detail)) for outcome in outcomes if outcome.problem]:
        show_table(("REFUSED", "REASON"), refused)

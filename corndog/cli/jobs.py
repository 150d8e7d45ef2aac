"""Commands about jobs: graphs of tasks that wait for each other."""

from typing import Annotated
from urllib.parse import quote

import msgspec
import typer

from corndog.cli.graph import Graph, Job, Phase, Shown, counted, draw
from corndog.cli.http import DEFAULT_SERVER, Server, call, read
from corndog.cli.output import AsJson, one_line, say, show, show_json, show_table

app = typer.Typer(help="Submit jobs, look at them, end and revive them.", no_args_is_help=True)

JobId = Annotated[str, typer.Argument(metavar="ID")]


class Made(msgspec.Struct):
    """An answer to a submit."""

    job: Job


class Changed(msgspec.Struct):
    """An answer to a write."""

    job: Job
    replayed: bool


class Page(msgspec.Struct):
    """An answer with jobs."""

    jobs: list[Job]
    next_cursor: str | None


@app.command()
def submit(
    file: Annotated[typer.FileBinaryRead, typer.Argument(metavar="FILE", help="Its JSON; - is stdin.")],
    name: Annotated[str | None, typer.Option(help="Instead of the name that the file gives.")] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Submit a job; the file is the body of `POST /v1/jobs`."""
    text = file.read()
    try:
        fields = msgspec.json.decode(text, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise typer.BadParameter(f"not a JSON object: {error}", param_hint="FILE") from None
    # What is not replaced goes out as it came: large numbers, the order of keys, all of it.
    body = text if name is None else {**fields, "name": name}
    answer = call("POST", server, "/v1/jobs", body, as_json=as_json)
    if as_json:
        show_json(answer)
    else:
        say(f"submitted: {read(answer, Made).job}")


@app.command("show")
def show_job(
    job_id: JobId,
    depth: Annotated[int | None, typer.Option(min=1, help="Only so many levels.")] = None,
    phase: Annotated[
        list[Phase] | None, typer.Option(help="Only tasks in this phase, and what leads to them; may be repeated.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Only so many tasks: failed and held ones before others.")] = 100,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Show a job as a tree: each task below the last of those that it depends on."""
    answer = call("GET", server, _path(job_id), as_json=as_json)
    if as_json:
        show_json(answer)
        return
    graph = read(answer, Graph)
    show(draw(graph, Shown(depth=depth, phases=frozenset(phase or Phase), limit=limit)))
    say(f"{graph.job}: {counted(graph.phase_counts)}")


@app.command("list")
def list_jobs(
    status: Annotated[str | None, typer.Option(help="pending, running, completed, failed or canceled.")] = None,
    name: Annotated[str | None, typer.Option(help="Of this name only.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Show so many at most; else 100.")] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """List jobs, the newest first."""
    params = {"status": status, "name": name, "limit": None if limit is None else str(limit)}
    answer = call("GET", server, "/v1/jobs", params=params, as_json=as_json)
    if as_json:
        show_json(answer)
        return
    page = read(answer, Page)
    if not page.jobs:
        say("no jobs")
        return
    show_table(
        ("ID", "NAME", "STATUS", "TASKS", "SUBMITTED", "ENDED"),
        [
            (job.id, one_line(job.name or ""), job.status, job.task_count, job.submit_time, job.end_time)
            for job in page.jobs
        ],
    )
    if page.next_cursor:
        say("… and more: see --limit")


@app.command()
def cancel(job_id: JobId, server: Server = DEFAULT_SERVER, as_json: AsJson = False) -> None:
    """End all live tasks of a job, whoever holds them."""
    _write("canceled", server, f"{_path(job_id)}/cancel", as_json=as_json)


@app.command()
def revive(job_id: JobId, server: Server = DEFAULT_SERVER, as_json: AsJson = False) -> None:
    """Revive a job's failed tasks, and all that their ends, or the job's own, canceled."""
    _write("revived", server, f"{_path(job_id)}/revive", as_json=as_json)


def _path(job_id: str) -> str:
    return f"/v1/jobs/{quote(job_id, safe='')}"


def _write(done: str, server: str, path: str, *, as_json: bool) -> None:
    answer = call("POST", server, path, {}, as_json=as_json)
    if as_json:
        show_json(answer)
    else:
        changed = read(answer, Changed)
        say(f"{done}{' before' if changed.replayed else ''}: {changed.job}")

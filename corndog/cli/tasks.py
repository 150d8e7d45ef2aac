"""Commands that submit, take and move tasks, and count them, by calls of a server."""

from typing import Annotated
from urllib.parse import quote

import msgspec
import typer

from corndog.cli.answers import (
    AllCounts,
    Counts,
    Details,
    Many,
    TimedOut,
    excerpt,
    show_submitted,
    show_written,
    text_of,
)
from corndog.cli.http import DEFAULT_SERVER, Server, call, read
from corndog.cli.options import (
    ContentType,
    Delivery,
    Json,
    Payload,
    PayloadFile,
    Queue,
    Seconds,
    State,
    Target,
    TaskId,
    Time,
    Waiting,
    json_value,
)
from corndog.cli.output import AsJson, say, show_json, show_table


def submit(
    queue: str = "default",
    state: Annotated[str, typer.Option(help="The state it starts in.")] = "submitted",
    target: Target = None,
    kind: Annotated[str | None, typer.Option(help="Handler name, for workers to dispatch on.")] = None,
    priority: Annotated[int, typer.Option(help="Higher goes first.")] = 0,
    delay: Annotated[float | None, Seconds] = None,
    run_at: Annotated[str | None, Time] = None,
    timeout: Annotated[float | None, Seconds] = None,
    work_timeout: Annotated[float | None, Seconds] = None,
    max_attempts: int | None = None,
    metadata: Annotated[msgspec.Raw | None, Json] = None,
    idempotency_key: Annotated[
        str | None, typer.Option(metavar="KEY", help="Submit it once, however often this is repeated with this key.")
    ] = None,
    payload: Payload = None,
    payload_file: PayloadFile = None,
    content_type: ContentType = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Submit a task."""
    body = {
        "queue": queue,
        "current_state": state,
        "auto_target_state": target,
        "kind": kind,
        "priority": priority,
        "delay": delay,
        "run_at": run_at,
        "timeout": timeout,
        "work_timeout": work_timeout,
        "max_attempts": max_attempts,
        "metadata": metadata,
        "idempotency_key": idempotency_key,
        "content_type": content_type,
        **_content("payload", payload, payload_file),
    }
    show_submitted(call("POST", server, "/v1/tasks", body, as_json=as_json), as_json=as_json)


def take(
    queue: Annotated[list[str], typer.Option(help="May be given several times.")] = ["default"],  # noqa: B006
    state: Annotated[str, typer.Option(help="Take tasks in this state.")] = "submitted",
    count: Annotated[int, typer.Option(help="Take so many at most.")] = 1,
    wait: Annotated[float | None, Waiting] = None,
    worker_id: Annotated[str, typer.Option(help="Who holds them from now on.")] = "",
    override_current_state: str | None = None,
    override_auto_target_state: str | None = None,
    override_timeout: Annotated[float | None, Seconds] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Take the next tasks: best priority first, then the oldest."""
    body = {
        "queues": queue,
        "current_state": state,
        "count": count,
        "wait": wait,
        "worker_id": worker_id,
        "override_current_state": override_current_state,
        "override_auto_target_state": override_auto_target_state,
        "override_timeout": override_timeout,
    }
    answer = call("POST", server, "/v1/tasks/next", body, as_json=as_json, wait=wait or 0)
    if as_json:
        show_json(answer)
    elif tasks := read(answer, Many).tasks:
        show_table(
            ("ID", "QUEUE", "STATE", "DELIVERY", "PRIORITY", "DUE", "PAYLOAD"),
            [
                (task.id, task.queue, task.current_state, task.delivery, task.priority, task.due_time, excerpt(task))
                for task in tasks
            ],
        )
    else:
        say(f"no task is {state} in {', '.join(queue)}")


def update(
    task_id: TaskId,
    queue: Queue = None,
    state: State = None,
    delivery: Delivery = None,
    new_state: Annotated[
        str | None, typer.Option(help="Where it goes; without it, it stays: a progress write.")
    ] = None,
    target: Target = None,
    timeout: Annotated[float | None, Seconds] = None,
    priority: Annotated[int, typer.Option(help="Has to be given again each time.")] = 0,
    payload: Payload = None,
    payload_file: PayloadFile = None,
    content_type: ContentType = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Move a task to a new state, or write its progress."""
    body = {
        **match_of(queue, state, delivery),
        "new_state": new_state,
        "auto_target_state": target,
        "timeout": timeout,
        "priority": priority,
        "content_type": content_type,
        **_content("payload", payload, payload_file),
    }
    show_written("updated", call("PATCH", server, path_of(task_id), body, as_json=as_json), as_json=as_json)


def complete(
    task_id: TaskId,
    queue: Queue = None,
    state: State = None,
    delivery: Delivery = None,
    result: Annotated[msgspec.Raw | None, Json] = None,
    result_file: Annotated[
        typer.FileBinaryRead | None,
        typer.Option(metavar="FILE", help="Take the result's bytes from a file; - is stdin."),
    ] = None,
    result_content_type: Annotated[str | None, typer.Option(metavar="MEDIA-TYPE")] = None,
    next_task: Annotated[
        list[msgspec.Raw] | None,
        typer.Option(
            parser=json_value,
            metavar="JSON",
            help="Submit this task in the same transaction; may be given several times.",
        ),
    ] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Complete a task, and submit what comes next."""
    body = {
        **match_of(queue, state, delivery),
        "result_content_type": result_content_type,
        **_content("result", result, result_file),
        "next_tasks": next_task or None,
    }
    show_written("completed", _post(server, task_id, "complete", body, as_json=as_json), as_json=as_json)


def release(
    task_id: TaskId,
    delivery: Annotated[int, typer.Option(help="Number of the hold.")],
    queue: Queue = None,
    state: State = None,
    delay: Annotated[float | None, Seconds] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Give a held task back, as if it had not been taken."""
    body = {**match_of(queue, state, delivery), "delay": delay}
    show_written("released", _post(server, task_id, "release", body, as_json=as_json), as_json=as_json)


def cancel(
    task_id: TaskId,
    queue: Queue = None,
    state: State = None,
    delivery: Delivery = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """End a task, whoever holds it."""
    body = match_of(queue, state, delivery)
    show_written("canceled", _post(server, task_id, "cancel", body, as_json=as_json), as_json=as_json)


def show(
    task_id: TaskId,
    payload: Annotated[bool, typer.Option("--payload", help="With payload and result.")] = False,
    dependencies: Annotated[
        bool, typer.Option("--dependencies", help="With how the tasks that it depends on ended, and their results.")
    ] = False,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Show a task, live or archived."""
    wanted = ["payload", "result"] * payload + ["dependencies"] * dependencies
    include = {"include": ",".join(wanted)} if wanted else {}
    answer = call("GET", server, path_of(task_id), params=include, as_json=as_json)
    if as_json:
        show_json(answer)
    else:
        fields = read(answer, Details).task
        show_table(
            ("FIELD", "VALUE"), [(name, text_of(value)) for name, value in fields.items() if bytes(value) != b"null"]
        )


def counts(
    queue: Annotated[str | None, typer.Option(help="Of this queue only.")] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Count the live tasks of each queue in each state."""
    path = "/v1/queues/state-counts" if queue is None else "/v1/state-counts"
    answer = call("GET", server, path, params={"queue": queue}, as_json=as_json)
    if as_json:
        show_json(answer)
        return
    queues = read(answer, AllCounts).queue_and_state_counts.values() if queue is None else [read(answer, Counts)]
    rows = [(each.queue, state, count) for each in queues for state, count in each.state_counts.items()]
    if rows:
        show_table(("QUEUE", "STATE", "TASKS"), sorted(rows))
    else:
        say("no tasks")


def timeout(
    queue: Annotated[str | None, typer.Option(help="Of this queue only.")] = None,
    at_time: Annotated[
        str | None, typer.Option(metavar="RFC3339", help="Clocks that end by then; else by now.")
    ] = None,
    server: Server = DEFAULT_SERVER,
    as_json: AsJson = False,
) -> None:
    """Time out the tasks whose clocks have ended."""
    answer = call("POST", server, "/v1/cleanup-timed-out", {"queue": queue, "at_time": at_time}, as_json=as_json)
    if as_json:
        show_json(answer)
    else:
        say(f"timed out: {read(answer, TimedOut).timed_out}")


def path_of(task_id: str) -> str:
    """Give the path of a task."""
    return f"/v1/tasks/{quote(task_id, safe='')}"


def _post(server: str, task_id: str, verb: str, body: dict[str, object], *, as_json: bool) -> bytes:
    return call("POST", server, f"{path_of(task_id)}/{verb}", body, as_json=as_json)


def match_of(queue: str | None, state: str | None, delivery: int | None) -> dict[str, object]:
    """Give the fields that a task must match."""
    return {"queue": queue, "current_state": state, "delivery": delivery}


def _content(field: str, value: msgspec.Raw | None, file: typer.FileBinaryRead | None) -> dict[str, object]:
    """Give the field that carries a payload or result: JSON as JSON, a file's bytes as bytes."""
    if value is not None and file is not None:
        raise typer.BadParameter(f"give either --{field} or --{field}-file, not both")
    return {field: value, f"{field}_base64": None if file is None else file.read()}

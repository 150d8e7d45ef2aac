"""The options that several commands about tasks have in common."""

import math
from typing import Annotated

import msgspec
import typer


def json_value(text: str) -> msgspec.Raw:
    """Check that an argument is JSON, and keep it as it was typed: large numbers, the order of keys, all of it."""
    try:
        msgspec.json.decode(text)
        return msgspec.Raw(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError) as error:
        raise typer.BadParameter(f"not JSON: {error}") from None


def seconds(text: str) -> float:
    """Check that an argument is a number: what Python takes for one besides, JSON doesn't know."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise typer.BadParameter(f"{text!r} is not a number of seconds")
    return value


TaskId = Annotated[str, typer.Argument(metavar="ID")]
Queue = Annotated[str | None, typer.Option(help="Only if the task is in this queue.")]
State = Annotated[
    str | None,
    typer.Option(help="Only if the task is in this state. Required of an unheld task, unless it is canceled."),
]
Delivery = Annotated[
    int | None, typer.Option(help="Number of the hold. Required of a held task, unless it is canceled.")
]
Target = Annotated[
    str | None, typer.Option(help="State that a claim or a timeout leads to; else the state + `-working`.")
]
Seconds = typer.Option(parser=seconds, metavar="SECONDS")
Waiting = typer.Option(
    parser=seconds, metavar="SECONDS", help="Wait for the first task so long, at most 60, if none is ready."
)
Time = typer.Option(metavar="RFC3339")
Json = typer.Option(parser=json_value, metavar="JSON")
Payload = Annotated[msgspec.Raw | None, Json]
PayloadFile = Annotated[
    typer.FileBinaryRead | None, typer.Option(metavar="FILE", help="Take the payload's bytes from a file; - is stdin.")
]
ContentType = Annotated[str | None, typer.Option(metavar="MEDIA-TYPE", help="What the payload is.")]

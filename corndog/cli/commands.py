"""All commands: their names, their options, and what they are for."""

from pathlib import Path
from typing import Annotated

import typer

from corndog import __version__
from corndog.cli import dead, jobs, retries, tasks, workers
from corndog.cli.output import AsJson, say, show_json, show_table
from corndog.settings import describe

# ruff: noqa: PLC0415 - commands that only call a server need not wait until the server's own code is loaded

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

RUNNING = "Running it"
UPKEEP = "Looking after it"
TASKS = "Tasks"
FLEET = "Workers"
MANY = "Jobs and dead letters"

Host = Annotated[str, typer.Option(help="Address to listen on.")]
Port = Annotated[int, typer.Option(min=0, max=65535, help="Port to listen on; 0 chooses a free one.")]
Workers = Annotated[int, typer.Option(min=1, help="Server processes.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        say(f"corndog {__version__}")
        raise typer.Exit


@app.callback()
def corndog(
    version: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version.")
    ] = False,
) -> None:
    """A task state manager."""


@app.command(rich_help_panel=RUNNING)
def dev(
    data_dir: Annotated[
        Path | None, typer.Option(help="Where the data stay; else ~/.local/state/corndog, for root /var/lib/corndog.")
    ] = None,
    host: Host = "127.0.0.1",
    port: Port = 8080,
    workers: Workers = 1,
    as_json: AsJson = False,
) -> None:
    """Run a server with its own PostgreSQL and Valkey on this machine."""
    from corndog.cli.dev import run

    run(data_dir, host, port, workers, as_json=as_json)


@app.command(rich_help_panel=RUNNING)
def serve(
    host: Host = "127.0.0.1",
    port: Port = 8080,
    workers: Workers = 1,
    until_stdin_closes: Annotated[bool, typer.Option("--until-stdin-closes", hidden=True)] = False,
) -> None:
    """Run the server; its settings are environment variables."""
    from corndog.cli.serving import serve

    serve(host, port, workers, until_stdin_closes=until_stdin_closes)


@app.command(rich_help_panel=RUNNING)
def scheduler() -> None:
    """Run the loops of the server alone (then set CORNDOG_SCHEDULER=false for the servers)."""
    from corndog.cli.serving import run_loops

    run_loops()


@app.command(rich_help_panel=UPKEEP)
def migrate(as_json: AsJson = False) -> None:
    """Bring the database to the schema of this version."""
    from corndog.cli.upkeep import migrate

    migrate(as_json=as_json)


@app.command(rich_help_panel=UPKEEP)
def recount(as_json: AsJson = False) -> None:
    """Count all live tasks one by one, and correct the counts: needed after an upgrade, says its note."""
    from corndog.cli.upkeep import recount

    recount(as_json=as_json)


@app.command(rich_help_panel=UPKEEP)
def doctor(as_json: AsJson = False) -> None:
    """Check settings, database, schema, clocks and Redis, and say what to do."""
    from corndog.cli.doctor import run

    run(as_json=as_json)


@app.command(rich_help_panel=UPKEEP)
def settings(as_json: AsJson = False) -> None:
    """List all settings."""
    rows = describe()
    if as_json:
        show_json([{"name": name, "default": default, "meaning": meaning} for name, default, meaning in rows])
    else:
        show_table(("SETTING", "DEFAULT", "MEANING"), rows)


@app.command(rich_help_panel=UPKEEP)
def openapi(
    output: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it to this file.")] = None,
    check: Annotated[Path | None, typer.Option(metavar="FILE", help="Fail if this file differs from it.")] = None,
) -> None:
    """Print the document of the HTTP API."""
    from corndog.cli.upkeep import openapi

    if output and check:
        raise typer.BadParameter("give either --output or --check")
    openapi(output, check)


@app.command(rich_help_panel=UPKEEP)
def bench(
    url: Annotated[
        str | None, typer.Option(metavar="URL", help="Measure this server; else one is started, with its own database.")
    ] = None,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this measure or figure; may be repeated.")
    ] = None,
    scale: Annotated[float, typer.Option(min=0.0001, max=100, help="Multiply all sizes; 0.1 is a quick look.")] = 1.0,
    connections: Annotated[int, typer.Option(min=1, max=10_000, help="Connections of the load generator.")] = 32,
    rate: Annotated[
        float, typer.Option(min=0.1, max=100_000, metavar="N", help="Calls a second at which latencies are taken.")
    ] = 500.0,
    plot: Annotated[Path | None, typer.Option(metavar="DIR", help="Draw plots there, as SVG and PNG.")] = None,
    as_json: AsJson = False,
) -> None:
    """Measure how fast a server is, as ratios within one run."""
    from corndog.cli.bench import Wanted, bench

    bench(Wanted(url, only or (), scale, connections, rate, plot, as_json))


for name, command in (
    ("submit", tasks.submit),
    ("next", tasks.take),
    ("update", tasks.update),
    ("complete", tasks.complete),
    ("fail", retries.fail),
    ("release", tasks.release),
    ("cancel", tasks.cancel),
    ("revive", retries.revive),
    ("show", tasks.show),
    ("runs", retries.runs),
    ("counts", tasks.counts),
    ("timeout", tasks.timeout),
):
    app.command(name, rich_help_panel=TASKS)(command)

app.command("workers", rich_help_panel=FLEET)(workers.workers)
app.command("drain", rich_help_panel=FLEET)(workers.drain)
app.add_typer(jobs.app, name="job", rich_help_panel=MANY)
app.add_typer(dead.app, name="dead", rich_help_panel=MANY)

"""Commands around a server: its schema, its settings, its document."""

import asyncio
import sys
from pathlib import Path

import msgspec

from corndog import app
from corndog.cli.environment import read_settings, require_ready_database, schema_versions, upgrade
from corndog.cli.output import Failed, say, show_json, show_table
from corndog.domain.errors import Unavailable
from corndog.service.counts import Counts
from corndog.store.counts import Correction

PATIENCE = 3600.0  # seconds for one statement over all tasks


def migrate(*, as_json: bool) -> None:
    """Bring the database to the schema of this program."""
    url = read_settings().database_url
    before, head = schema_versions(url)
    upgrade(url)
    if as_json:
        show_json({"before": before, "now": head})
    elif before == head:
        say(f"the schema is {head} already")
    else:
        say(f"the schema was {before or 'missing'}, and is {head} now")


def recount(*, as_json: bool) -> None:
    """Compare the counts with all live tasks, and correct them."""
    settings = read_settings()
    require_ready_database(settings.database_url)
    # It reads every task: that may take longer than anything that a server does, and must not conflict with all of it.
    timeout = max(settings.statement_timeout, PATIENCE)
    patient = msgspec.structs.replace(settings, statement_timeout=timeout, isolation="read committed")

    async def run() -> list[Correction]:
        database = app.database(patient)
        try:
            return await Counts(database).recount()
        finally:
            await database.close()

    try:
        corrections = asyncio.run(run())
    except Unavailable as error:
        raise Failed(str(error)) from None
    if as_json:
        show_json(corrections)
    elif corrections:
        rows = [(each.queue, each.current_state, f"{each.tasks:+}") for each in corrections]
        show_table(("QUEUE", "STATE", "CORRECTED BY"), rows)
    else:
        say("the counts were right")


def openapi(output: Path | None, check: Path | None) -> None:
    """Print the API's document, write it to a file, or compare a file with it."""
    document = app.document()
    if check:
        if not check.exists() or check.read_bytes() != document:
            raise Failed(f"{check} is not what the program says: run `corndog openapi --output {check}`")
    elif output:
        try:
            output.write_bytes(document)
        except OSError as error:
            raise Failed(f"can't write {output}: {error.strerror}") from None
    else:
        sys.stdout.buffer.write(document)

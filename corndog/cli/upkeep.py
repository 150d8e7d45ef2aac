"""Commands around a server: its schema, its settings, its document."""

import sys
from pathlib import Path

from corndog import app
from corndog.cli.environment import read_settings, schema_versions, upgrade
from corndog.cli.output import Failed, say, show_json


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

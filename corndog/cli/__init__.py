"""The command `corndog`.

Commands about tasks call a server over HTTP and load nothing of it; commands of the server load it when they are run.
Exit codes: 0 done, 1 refused or failed, 2 wrongly called.
"""

import sys

from corndog.cli.commands import app
from corndog.cli.output import Failed, complain


def main() -> None:
    """Run the command line."""
    try:
        app()
    except Failed as failed:
        complain(str(failed))
        sys.exit(1)

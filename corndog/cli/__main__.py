"""`python -m corndog.cli`."""

from corndog.cli import main

main()

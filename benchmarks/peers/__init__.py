"""The same full life of a task on other systems: submitted, got by a worker, marked done.

    catalogue.py      what is measured, and what is particular about it
    installation.py   gets the peers into this folder; says why where it can't
    place.py          PostgreSQL, Valkey, a fresh database for each run, corndog's server
    runs.py           runs an adapter and reads what it reports
    own.py            corndog's own adapter
    adapters/         one small script for each peer, run by the peers' own Python or Node.js

An adapter submits all tasks, then lets workers take and end them, and reports the time of both. Then it counts in the
peer's own storage. Handlers do nothing but count.
"""

"""The services as a server has them, on a database of the tests; and a look at everything that the database holds."""

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any
from uuid import UUID

import asyncpg

from corndog.domain.listing import Entry
from corndog.domain.task import Claim, Content, Match, NewTask, Task
from corndog.hints.hints import Hints
from corndog.service.claims import Claims
from corndog.service.clocks import Clocks
from corndog.service.counts import Counts
from corndog.service.endings import Endings
from corndog.service.finding import ByHeads, ByHints, Find, HandOut, Scan
from corndog.service.heartbeats import Heartbeats
from corndog.service.ids import NewId, id_maker
from corndog.service.jobs import Jobs
from corndog.service.keys import Keys
from corndog.service.news import News
from corndog.service.polls import Polls
from corndog.service.reading import Reading
from corndog.service.refills import Refills
from corndog.service.revivals import Revivals
from corndog.service.statuses import Statuses
from corndog.service.submits import Submits
from corndog.service.tasks import Tasks
from corndog.service.writes import Writes
from corndog.store import schema
from corndog.store.engine import Database

DEFAULT_TIMEOUT = timedelta(seconds=300)
TTL = timedelta(days=1)
SEARCHES: Mapping[str, Callable[[HandOut], Find]] = {"scan": Scan, "by_heads": ByHeads}
STRATEGIES = [*SEARCHES, "by_hints"]
"""The ways to find tasks; the last needs hints."""

TABLES = (
    "tasks",
    "archived_tasks",
    "payloads",
    "results",
    "task_runs",
    "jobs",
    "task_dependencies",
    "idempotency_keys",
)
COUNTS = ("queue_state_counts", "count_deltas", "count_floor")
HOUR = timedelta(hours=1)
MICROSECOND = timedelta(microseconds=1)
TEXT = Content(b"text", "text/plain", is_json=False)


class House:
    """All use cases on one database; with hints, claims can also go by them."""

    def __init__(self, database: Database, new_id: NewId | None = None, hints: Hints | None = None) -> None:
        new_id = new_id or id_maker(is_cockroach=database.is_cockroach)
        self.database = database
        self.polls = Polls()
        self.statuses = Statuses(database)
        self.writes = Writes(database, News(self.polls, hints, self.statuses))
        keys = Keys(TTL)
        self.submits = Submits(self.writes, new_id, keys)
        self.tasks = Tasks(self.writes, new_id)
        self.endings = Endings(self.writes, new_id)
        hand_out = HandOut(database, new_id, DEFAULT_TIMEOUT, self.tasks.give_back)
        finds = {name: make(hand_out) for name, make in SEARCHES.items()}
        if hints:
            self.refills = Refills(database, hints.windows)
            finds["by_hints"] = ByHints(hand_out, hints.windows, self.refills, finds["scan"])
        self.reading = Reading(database)
        self.jobs = Jobs(database, self.writes, new_id, keys)
        self.claims = {
            name: Claims(find, self.tasks, self.polls, self.reading, self.statuses) for name, find in finds.items()
        }
        self.hints = hints
        self.heartbeats = Heartbeats(database, hints.leases if hints else None)
        self.clocks = Clocks(database, self.writes)
        self.revivals = Revivals(self.writes, self.reading, new_id)
        self.counts = Counts(database)

    async def submit(self, number: int = 1, **asked: Any) -> list[Task]:  # noqa: ANN401
        return await self.submits.submit_all([NewTask(**asked)] * number)

    async def claim(self, queue: str | Sequence[str], *, strategy: str = "scan", **asked: Any) -> list[Entry]:  # noqa: ANN401
        queues = (queue,) if isinstance(queue, str) else tuple(queue)
        return await self.claims[strategy].claim(Claim(queues=queues, **asked))

    async def held(self, queue: str, **asked: Any) -> Task:  # noqa: ANN401
        """Submit a task and claim it."""
        await self.submit(queue=queue, **asked)
        [entry] = await self.claim(queue, worker_id="w", current_state=asked.get("current_state", "submitted"))
        return entry.task

    async def rows(self, statement: str, *args: object) -> list[asyncpg.Record]:
        return await self.database.run(lambda connection: connection.fetch(statement, *args))

    async def everything(self) -> dict[str, list[dict[str, Any]]]:
        """Read all that is known of tasks, table by table."""
        return {
            table: [dict(row) for row in await self.rows(f"SELECT * FROM {table} ORDER BY 1, 2")] for table in TABLES
        }

    async def block(self, task: Task) -> None:
        """Make a task wait for another, as a job will."""
        await self.rows(
            "WITH blocked AS ("
            "UPDATE tasks SET phase = 'parked', current_state = home_state || '-blocked',"
            " auto_target_state = home_state, due_time = NULL, waiting_on = 1 WHERE id = $1"
            " RETURNING queue, current_state)"
            " INSERT INTO count_deltas (queue, current_state, tasks)"
            " SELECT queue, current_state, 1 FROM blocked UNION ALL SELECT queue, $2, -1 FROM blocked",
            task.id,
            task.current_state,
        )

    async def true_counts(self) -> list[tuple[str, str, int]]:
        """Count the live tasks one by one."""
        counted = "SELECT queue, current_state, count(*) FROM tasks GROUP BY 1, 2 ORDER BY 1, 2"
        return [(row[0], row[1], row[2]) for row in await self.rows(counted)]


def held_match(task: Task) -> Match:
    return Match(delivery=task.delivery)


def unheld_match(task: Task) -> Match:
    return Match(current_state=task.current_state)


def ids(tasks: Sequence[Task] | Sequence[Entry]) -> list[UUID]:
    return [task.task.id if isinstance(task, Entry) else task.id for task in tasks]


assert set(TABLES) | set(COUNTS) | {"leader_leases", "workers"} == set(schema.metadata.tables)

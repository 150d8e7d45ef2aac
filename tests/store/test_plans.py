"""Each hot statement goes by its index, and what it costs doesn't grow with what it has nothing to do with."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import msgspec
import pytest

from corndog.domain.keys import Key, Made, Remains, Renewal
from corndog.domain.listing import Filter, Include, Place
from corndog.domain.task import Candidate, Change, Claim, Failure, Hold, Match, NewTask, Outcome, Phase
from corndog.domain.workers import WorkerFilter
from corndog.store import claims as claim_store
from corndog.store import counts, reading, retention, workers
from corndog.store import keys as key_store
from corndog.store import tasks as store
from corndog.store.engine import Connection, Database
from tests.store.house import DEFAULT_TIMEOUT, HOUR, TEXT
from tests.store.plans import Call, Plan, explain, load

EVERYTHING = Include(payload=True, result=True)
ONE = Claim(queues=("queue 1",), current_state="a", worker_id="w")
SEVERAL = Claim(queues=("queue 1", "queue 2", "none"), current_state="a", worker_id="w")
NOW = datetime.now(UTC)
SWEEP: dict[str, Any] = {"at_time": NOW, "began": NOW, "batch": 500}
DUE = key_store.Due("key 1", NOW - HOUR, Remains(is_live=False, end_time=None, was_gone=False), NOW)
FIRST = {
    "ready": 4000, "held": 1000, "overdue": 20, "dead": 20, "parked": 1000, "due": 40, "completed": 2000, "failed": 20,
    "of_jobs": 2000,
}  # fmt: skip
GROWTH = {"held": 10_000, "parked": 10_000, "completed": 20_000, "of_other_jobs": 20_000}
KNOWABLE = {
    "ready": "tasks WHERE phase = 'ready' AND queue = 'queue 1'",
    "held": "tasks WHERE phase = 'held' AND due_time > now()",
    "completed": "archived_tasks WHERE phase = 'completed'",
    "failed": "archived_tasks WHERE phase = 'failed'",
    "job": "jobs",
}
AGES = timedelta(days=3650)
COUNTED = {"queue_state_counts_pkey", "count_deltas_pkey", "count_floor_pkey"}
PURGED = {"archived_tasks_pkey", "payloads_pkey", "results_pkey", "task_runs_pkey"}


WORKERS = """
    INSERT INTO workers
    SELECT 'worker ' || n, now(), now() - n * interval '1 minute', false, NULL FROM generate_series(1, 5000) AS n
"""


COUNTS = """
    INSERT INTO queue_state_counts SELECT 'queue ' || n % 5, 'state ' || n, n % 3 FROM generate_series(1, 200) AS n;
    INSERT INTO count_deltas (write_time, queue, current_state, tasks)
    SELECT now() - n * interval '1 second', 'queue ' || n % 5, 'state ' || n % 10, 1
    FROM generate_series(1, 1000) AS n;
    INSERT INTO count_floor VALUES (0, now() - interval '5 minutes')
"""


def known(kind: str) -> UUID:
    """Name a task that is there; set by the fixture."""
    return KNOWN[kind]


KNOWN: dict[str, UUID] = {}


def update(task_id: UUID, change: Change) -> store.Update:
    match = Match(delivery=1) if task_id == KNOWN["held"] else Match(current_state="a")
    return store.Update(id=task_id, match=match, change=change, request=b"r", token=uuid4())


def failing(task_id: UUID) -> store.Failing:
    failure = Failure(error="e", chance=0.5)
    return store.Failing(id=task_id, match=Match(delivery=1), failure=failure, request=b"r", token=uuid4())


def release(task_id: UUID) -> store.Release:
    return store.Release(id=task_id, match=Match(delivery=1), delay=None, request=b"r", token=uuid4())


def end(c: Connection, kind: str) -> Any:  # noqa: ANN401
    match = Match(delivery=1) if kind == "held" else Match(current_state="a")
    ending = store.Ending(id=known(kind), match=match, request=b"r", result=TEXT, next_task_ids=[uuid4()])
    return store.end(c, [ending], phase=Phase.COMPLETED, outcome=Outcome.SUCCEEDED)


def claim_by_key(c: Connection) -> Any:  # noqa: ANN401
    ask = claim_store.Ask(ONE, 2, uuid4())
    return claim_store.claim_by_key(c, [(ask, candidate) for candidate in candidates()], DEFAULT_TIMEOUT)


def asks(claim: Claim) -> list[claim_store.Ask]:
    return [claim_store.Ask(claim, 5, uuid4()) for _ in range(2)]


def candidates() -> list[Candidate]:
    [window] = ONE.windows
    return [Candidate(window, (0, datetime.now(UTC), task_id)) for task_id in (known("ready"), uuid4())]


def get(c: Connection) -> Any:  # noqa: ANN401
    return reading.get(c, [known("ready"), known("completed"), uuid4()], EVERYTHING)


HOT: dict[str, tuple[Call, set[str]]] = {
    "submit": (lambda c: store.submit(c, [store.Submission(uuid4(), NewTask(payload=TEXT))] * 1), set()),
    "claim_scan": (
        lambda c: claim_store.claim_scan(c, asks(ONE), DEFAULT_TIMEOUT),
        {"tasks_ready", "tasks_pkey", "payloads_pkey"},
    ),
    "claim_merge": (
        lambda c: claim_store.claim_scan(c, asks(SEVERAL), DEFAULT_TIMEOUT),
        {"tasks_ready", "tasks_pkey", "payloads_pkey"},
    ),
    "ready_heads": (lambda c: claim_store.ready_heads(c, dict.fromkeys(SEVERAL.windows), 74, 74), {"tasks_ready"}),
    "ready_windows": (lambda c: claim_store.ready_windows(c, None, 40), {"tasks_ready"}),
    "still_ready": (lambda c: claim_store.still_ready(c, candidates()), {"tasks_pkey"}),
    "heartbeat": (lambda c: claim_store.heartbeat(c, [Hold(known("held"), 1), Hold(uuid4(), 1)]), {"tasks_pkey"}),
    "claim_by_key": (claim_by_key, {"tasks_pkey", "payloads_pkey"}),
    "claimed_by": (lambda c: claim_store.claimed_by(c, asks(ONE)), {"tasks_held", "payloads_pkey"}),
    "end a hold": (lambda c: end(c, "held"), {"tasks_pkey", "task_dependencies_of_parents"}),
    "end an unheld one": (lambda c: end(c, "ready"), {"tasks_pkey", "task_dependencies_of_parents"}),
    "move": (lambda c: store.update(c, [update(known("held"), Change(new_state="n", payload=TEXT))]), {"tasks_pkey"}),
    "progress": (lambda c: store.update(c, [update(known("ready"), Change(payload=TEXT))]), {"tasks_pkey"}),
    "release": (lambda c: store.release(c, [release(known("held"))]), {"tasks_pkey"}),
    "fail": (lambda c: store.fail(c, [failing(known("held"))]), {"tasks_pkey"}),
    "revive": (lambda c: store.revive(c, {known("failed"): 0}, uuid4()), {"archived_tasks_pkey"}),
    "runs": (
        lambda c: reading.runs(c, known("completed")),
        {"tasks_pkey", "archived_tasks_pkey", "task_runs_pkey"},
    ),
    "look_up": (
        lambda c: store.look_up(c, [store.Sought(known("completed"), 1), store.Sought(uuid4(), None)]),
        {"tasks_pkey", "archived_tasks_pkey", "task_runs_pkey"},
    ),
    "get": (get, {"tasks_pkey", "archived_tasks_pkey", "payloads_pkey", "results_pkey"}),
    "payload": (
        lambda c: reading.content(c, known("ready"), "payloads"),
        {"tasks_pkey", "archived_tasks_pkey", "payloads_pkey"},
    ),
    "keep_key": (lambda c: key_store.keep(c, Key("new", b"r"), Made(task_ids=(uuid4(),)), HOUR), set()),
    "find_keys": (lambda c: key_store.find(c, ["key 1"]), {"idempotency_keys_pkey"}),
    "due_keys": (
        lambda c: key_store.due(c, 100),
        {"idempotency_keys_checked", "tasks_pkey", "archived_tasks_pkey", "jobs_pkey"},
    ),
    "renew_keys": (
        lambda c: key_store.renew(c, {DUE: Renewal(NOW, is_gone=False)}),
        {"idempotency_keys_pkey"},
    ),
    "drop_keys": (lambda c: key_store.drop(c, [DUE]), {"idempotency_keys_pkey", "tasks_pkey", "jobs_pkey"}),
    "sweep": (lambda c: store.sweep(c, queue=None, **SWEEP), {"tasks_timed", "tasks_pkey"}),
    "sweep one queue": (lambda c: store.sweep(c, queue="queue 1", **SWEEP), {"tasks_timed", "tasks_pkey"}),
    "sweep_dead": (lambda c: store.sweep_dead(c, queue=None, **SWEEP), {"tasks_timed", "tasks_pkey"}),
    "unpark": (lambda c: store.unpark(c, 500), {"tasks_parked", "tasks_pkey"}),
    "oldest_overdue": (reading.oldest_overdue, {"tasks_timed"}),
    "purge_tasks": (
        lambda c: retention.tasks(c, Phase.COMPLETED, timedelta(0), retention.START, 100),
        {"archived_tasks_ended"} | PURGED,
    ),
    "purge no tasks": (
        lambda c: retention.tasks(c, Phase.COMPLETED, AGES, retention.START, 100),
        {"archived_tasks_ended"} | PURGED,
    ),
    "purge_find_jobs": (
        lambda c: retention.find_jobs(c, Phase.COMPLETED, timedelta(0), retention.START, 100),
        {"jobs_ended"},
    ),
    "purge no jobs": (lambda c: retention.find_jobs(c, Phase.COMPLETED, AGES, retention.START, 100), {"jobs_ended"}),
    "purge_lock_jobs": (
        lambda c: retention.lock_jobs(c, [known("job"), uuid4()], Phase.COMPLETED, timedelta(0)),
        {"jobs_pkey"},
    ),
    "purge_check_jobs": (
        lambda c: retention.check_jobs(c, [known("job"), uuid4()]),
        {"jobs_pkey", "tasks_of_jobs", "archived_tasks_of_jobs"},
    ),
    "purge_job_tasks": (
        lambda c: retention.job_tasks(c, [known("job"), uuid4()], 500),
        {"archived_tasks_of_jobs", "task_dependencies_pkey"} | PURGED,
    ),
    "purge_jobs": (lambda c: retention.jobs(c, [known("job"), uuid4()]), {"jobs_pkey"}),
    "counts": (reading.counts, COUNTED),
    "queue_counts": (lambda c: reading.counts(c, "queue 1"), COUNTED),
    "fold_counts": (lambda c: counts.fold(c, 100), COUNTED - {"queue_state_counts_pkey"}),
    "raise_count_floor": (lambda c: counts.raise_floor(c, HOUR), COUNTED - {"queue_state_counts_pkey"}),
    "drop_zero_counts": (counts.drop_zeros, {"queue_state_counts_pkey"}),
    "keep_workers": (lambda c: workers.keep(c, {"worker 1": None, "new": "{}"}), set()),
    "drain_workers": (
        lambda c: workers.drain(c, ["worker 1", "new"], drains=True),
        {"workers_pkey", "tasks_held"},
    ),
    "purge_workers": (lambda c: workers.purge(c, HOUR, 100), {"workers_seen", "workers_pkey", "tasks_held"}),
}
COSTED: dict[str, Call] = (
    {
        name: call
        for name, (call, _) in HOT.items()
        if name not in {"submit", "end an unheld one", "payload", "sweep one queue"}
        and name != "drain_workers"  # it counts what a worker holds
    }
    | {
        "worker_names": lambda c: workers.names(c, "worker 1", 500),
    }
    | {
        name: partial(reading.page, wanted=wanted, after=Place(), limit=101, include=EVERYTHING)
        for name, wanted in {
            "list a queue and a state": Filter(queue="queue 1", current_state="a"),
            "list the dead letters": Filter(archived=True, phase=Phase.FAILED),
            "list the ended ones": Filter(archived=True),
        }.items()
    }
)
FILTERS: dict[str, Filter] = {
    "all": Filter(),
    "a queue": Filter(queue="queue 1"),
    "a state": Filter(current_state="a"),
    "a queue and a state": Filter(queue="queue 1", current_state="a"),
    "a phase": Filter(phase=Phase.PARKED),
    "a kind": Filter(kind="kind 1"),
    "a worker": Filter(worker_id="worker 1"),
    "a job": Filter(job_id=UUID(int=1)),
    "times": Filter(submitted_after=NOW - HOUR, submitted_before=NOW - timedelta(minutes=1)),
    "all of it": Filter(
        queue="queue 1",
        current_state="a",
        kind="kind 1",
        worker_id="worker 1",
        submitted_after=NOW - HOUR,
        submitted_before=NOW,
    ),
}


class Filled(msgspec.Struct):
    """A well-filled database, and what each statement cost before and after it was filled."""

    connection: Connection
    costs: dict[str, tuple[int, int]]


@pytest.fixture(scope="module", params=["fresh", "old"])
async def filled(request: pytest.FixtureRequest, database_url: str) -> AsyncIterator[Filled]:
    """Fill a database: with fresh statistics, or such as were made when there was something else in it."""
    database = Database(database_url, statement_timeout=100)
    async with database._connection() as connection:
        await connection.execute(
            "TRUNCATE tasks, archived_tasks, payloads, results, task_runs, jobs, task_dependencies, workers,"
            " queue_state_counts, count_deltas, count_floor"
        )
        for table in ("tasks", "archived_tasks", "jobs"):
            await connection.execute(f"ALTER TABLE {table} SET (autovacuum_enabled = off)")
        is_fresh = request.param == "fresh"
        if not is_fresh:
            await load(connection, held=300, parked=300, failed=300)
        await load(connection, is_fresh, **FIRST)
        for kind, where in KNOWABLE.items():
            KNOWN[kind] = await connection.fetchval(f"SELECT id FROM {where} ORDER BY submit_time LIMIT 1")
        await connection.execute(WORKERS)
        await connection.execute(COUNTS)
        small = await measure(connection)
        await load(connection, is_fresh, **GROWTH)
        large = await measure(connection)
        yield Filled(connection, {name: (small[name], large[name]) for name in small})
    await database.close()


async def measure(connection: Connection) -> dict[str, int]:
    cost = {}
    for name in sorted(COSTED):
        await explain(connection, COSTED[name], is_generic=True)  # the first run reads the catalogue, too
        cost[name] = (await explain(connection, COSTED[name], is_generic=True)).buffers
    return cost


@pytest.fixture(params=[False, True], ids=["custom", "generic"])
def is_generic(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def assert_indexed(plan: Plan, indexes: set[str]) -> None:
    assert plan.scanned_whole == set()
    assert plan.indexes == indexes


@pytest.mark.parametrize("name", HOT)
async def test_a_hot_statement_goes_by_its_index(filled: Filled, name: str, is_generic: bool) -> None:
    call, indexes = HOT[name]
    plan = await explain(filled.connection, call, is_generic=is_generic)
    assert_indexed(plan, indexes)


@pytest.mark.parametrize("archived", [False, True], ids=["live", "archived"])
@pytest.mark.parametrize("place", [Place(), Place(NOW - HOUR, UUID(int=0))], ids=["first", "next"])
@pytest.mark.parametrize("name", FILTERS)
async def test_a_listing_goes_by_its_index(
    filled: Filled,
    name: str,
    place: Place,
    archived: bool,
    is_generic: bool,
) -> None:
    wanted = msgspec.structs.replace(FILTERS[name], archived=archived)
    page: Call = partial(reading.page, wanted=wanted, after=place, limit=101, include=EVERYTHING)
    plan = await explain(filled.connection, page, is_generic=is_generic)
    index = "of_jobs" if wanted.job_id else "listed"
    assert_indexed(plan, {f"{'archived_tasks' if archived else 'tasks'}_{index}", "payloads_pkey", "results_pkey"})


@pytest.mark.parametrize("active_since", [None, HOUR], ids=["all", "active"])
async def test_the_fleet_is_listed_by_its_indexes(
    filled: Filled, active_since: timedelta | None, is_generic: bool
) -> None:
    page: Call = partial(workers.page, wanted=WorkerFilter(active_since=active_since), after="", limit=101)
    plan = await explain(filled.connection, page, is_generic=is_generic)
    assert plan.scanned_whole == set()
    assert plan.indexes <= {"workers_pkey", "workers_seen", "tasks_held"}
    registry = [node for node in plan.nodes() if node.get("Relation Name") == "workers"]
    assert all(node["Actual Rows"] <= 101 for node in registry)


ORDERED = {"tasks_ready", "tasks_timed", "tasks_parked"}
ORDERED = {"tasks_ready", "tasks_timed", "tasks_parked", "archived_tasks_ended", "jobs_ended"}
FIRST_READ = [
    "claim_scan", "ready_heads", "ready_windows", "claim_merge", "sweep", "unpark", "purge_tasks", "purge_find_jobs",
]  # fmt: skip


@pytest.mark.parametrize("name", FIRST_READ)
async def test_what_comes_first_is_read_first(filled: Filled, name: str, is_generic: bool) -> None:
    """No statement reads all that it might take in order to find what comes first."""
    plan = await explain(filled.connection, HOT[name][0], is_generic=is_generic)
    reading_order = [node for node in plan.nodes() if node.get("Index Name") in ORDERED]
    assert reading_order
    assert all(node["Actual Rows"] <= 100 for node in reading_order)


@pytest.mark.parametrize("name", sorted(COSTED))
async def test_costs_do_not_grow_with_tasks_that_wait_or_have_ended(filled: Filled, name: str) -> None:
    small, large = filled.costs[name]
    # A tree that is a level higher costs a page more for each row that is looked up.
    assert large <= small * 1.5 + 8

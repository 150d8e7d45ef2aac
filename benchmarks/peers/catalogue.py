"""What is measured: each peer at its best documented settings, with one task in a call and with many, where it can."""

import msgspec

SINGLE = "corndog-single"
BATCH = "corndog-batch"


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A peer in one of its ways to work."""

    name: str
    adapter: str
    """The adapter's file, without its suffix."""
    variant: str = "single"
    """The adapter's word for this way."""
    needs: tuple[str, ...] = ("python",)
    """What must be there to run it, by the names of `installation`."""
    slow: int = 1
    """It runs one in so many of the tasks, to end in time."""
    synced: bool = False
    """Whether Valkey syncs every change to the disk before it answers."""
    how: str
    keeps: str
    """What is left in its storage when a task is done."""
    durable: str
    """What a crash can take."""

    @property
    def peer(self) -> str:
        """Whose entry it is."""
        return self.adapter.removesuffix("_peer").replace("_", "-")

    @property
    def against(self) -> str:
        """Which of corndog's entries works in the same way."""
        return BATCH if self.variant == "batch" else SINGLE


COMMITTED = "each call is a synced commit"
ARCHIVED = "payload, states and history"
IN_MEMORY = "nothing is: memory only"
SYNCED = "synced log (appendfsync always)"

CORNDOG = (
    Entry(
        name=SINGLE,
        adapter="corndog",
        needs=(),
        how="HTTP, 32 connections; submit, claim, complete: one task a call",
        keeps=ARCHIVED,
        durable=COMMITTED,
    ),
    Entry(
        name="corndog-carry",
        adapter="corndog",
        variant="carry",
        needs=(),
        how="HTTP, 32 connections; each completion carries the next claim",
        keeps=ARCHIVED,
        durable=COMMITTED,
    ),
    Entry(
        name=BATCH,
        adapter="corndog",
        variant="batch",
        needs=(),
        how="HTTP, 4 connections; 100 tasks a submit; 100 completions carry a claim of 100; answers in brief",
        keeps=ARCHIVED,
        durable=COMMITTED,
    ),
)

ON_POSTGRESQL = (
    Entry(
        name="pgqueuer-single",
        adapter="pgqueuer_peer",
        how="in process, asyncpg, uvloop; 8 enqueue, 8 queue managers with batch_size 1",
        keeps="a log line without the payload",
        durable=COMMITTED,
    ),
    Entry(
        name="pgqueuer-batch",
        adapter="pgqueuer_peer",
        variant="batch",
        how="in process, asyncpg, uvloop; 100 an enqueue, one queue manager with batch_size 100",
        keeps="a log line without the payload",
        durable="commits are synced; ends are written up to 100 or 0.1 s late",
    ),
    Entry(
        name="procrastinate-single",
        adapter="procrastinate_peer",
        how="in process, psycopg, uvloop; 16 defer; 8 async workers, concurrency 2",
        keeps="the job and its events",
        durable=COMMITTED,
    ),
    Entry(
        name="procrastinate-batch",
        adapter="procrastinate_peer",
        variant="batch",
        how="the same with 100 a batch_defer; its worker gets and ends jobs one by one",
        keeps="the job and its events",
        durable=COMMITTED,
    ),
    Entry(
        name="pg-boss-single",
        adapter="pg_boss_peer",
        needs=("node",),
        how="in process, Node.js; send; 32 loops of fetch and complete",
        keeps="the job",
        durable=COMMITTED,
    ),
    Entry(
        name="pg-boss-batch",
        adapter="pg_boss_peer",
        variant="batch",
        needs=("node",),
        how="in process, Node.js; insert of 100; 8 loops of fetch and complete of 100",
        keeps="the job",
        durable=COMMITTED,
    ),
    Entry(
        name="graphile-worker-single",
        adapter="graphile_worker_peer",
        needs=("node",),
        how="in process, Node.js; 8 addJob; one worker, concurrency 24",
        keeps="nothing",
        durable=COMMITTED,
    ),
    Entry(
        name="graphile-worker-batch",
        adapter="graphile_worker_peer",
        variant="batch",
        needs=("node",),
        how="addJobs of 100; the same worker with localQueue 500 and completeJobBatchDelay 0",
        keeps="nothing",
        durable="commits are synced; ends are written in batches, 500 jobs are locked ahead",
    ),
)

ELSEWHERE = (
    Entry(
        name="celery",
        adapter="celery_peer",
        how="Valkey; 2 prefork processes, prefetch 128, acknowledged before they run",
        keeps="the result, for a day",
        durable=IN_MEMORY,
    ),
    Entry(
        name="celery-durable",
        adapter="celery_peer",
        variant="durable",
        slow=5,
        synced=True,
        how="the same, acknowledged after they have run",
        keeps="the result, for a day",
        durable=SYNCED,
    ),
    Entry(
        name="rq-fork",
        adapter="rq_peer",
        variant="fork",
        slow=10,
        how="Valkey; enqueue_many of 100; 2 workers that fork for each job (default)",
        keeps="the job and its result, for 500 s",
        durable=IN_MEMORY,
    ),
    Entry(
        name="rq-simple",
        adapter="rq_peer",
        variant="simple",
        how="the same with 2 workers that don't fork",
        keeps="the job and its result, for 500 s",
        durable=IN_MEMORY,
    ),
    Entry(
        name="rq-durable",
        adapter="rq_peer",
        variant="durable",
        slow=10,
        synced=True,
        how="the same with 2 workers that don't fork",
        keeps="the job and its result, for 500 s",
        durable=SYNCED,
    ),
    Entry(
        name="beanstalkd",
        adapter="beanstalkd_peer",
        variant="memory",
        needs=("python", "beanstalkd"),
        how="one connection puts, one reserves and deletes",
        keeps="nothing",
        durable=IN_MEMORY,
    ),
    Entry(
        name="beanstalkd-durable",
        adapter="beanstalkd_peer",
        variant="durable",
        needs=("python", "beanstalkd"),
        how="the same",
        keeps="nothing",
        durable="synced log (-b, -f 0)",
    ),
)

ENTRIES = (*CORNDOG, *ON_POSTGRESQL, *ELSEWHERE)

"""What the end of a task does to the tasks that wait for it, in the same transaction."""

from collections.abc import Iterable

from corndog.domain.task import Phase, Task, Window
from corndog.store import tasks as store
from corndog.store.engine import Connection


async def settle(connection: Connection, ended: Iterable[Task], touching: set[Window]) -> list[Task]:
    """Open or cancel what waits for tasks that have just ended, and answer all tasks that were written by that.

    The windows in which tasks become ready are added to `touching`. Rows are locked in order of their ids, in which
    parents come before their children: transactions over the same job don't deadlock.
    """
    of_jobs = [task for task in ended if task.job_id]
    completed = [task.id for task in of_jobs if task.phase is Phase.COMPLETED]
    stopped = [task.id for task in of_jobs if task.phase is not Phase.COMPLETED]
    written: list[Task] = []
    if stopped:
        canceled = await store.cascade(connection, stopped)
        written += canceled
        stopped += [task.id for task in canceled]
        written += await store.settle(connection, stopped, completed=False)
    if completed:
        written += await store.settle(connection, completed, completed=True)
    touching.update(task.window for task in written if task.phase is Phase.READY)
    return written

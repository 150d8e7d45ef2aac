"""The backoff as SQL computes it is the one of the rules, to the microsecond, whatever the policy."""

from datetime import timedelta

import msgspec
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from corndog.domain import transitions
from corndog.domain.limits import BACKOFF_MULTIPLIER_MAX, COUNT_MAX, DURATION_MAX
from corndog.domain.task import Failure, Jitter, Match, NewTask, RetryPolicy
from corndog.store import tasks as store
from corndog.store.engine import Connection
from tests.store.house import House

MICROSECOND = timedelta(microseconds=1)
pauses = st.one_of(
    st.sampled_from([timedelta(0), MICROSECOND, timedelta(seconds=5), DURATION_MAX]),
    st.timedeltas(timedelta(0), DURATION_MAX),
    st.timedeltas(timedelta(0), timedelta(minutes=1)),
)
policies = st.builds(
    RetryPolicy,
    max_attempts=st.none() | st.integers(1, 50) | st.just(COUNT_MAX),
    backoff=pauses,
    backoff_max=pauses,
    backoff_multiplier=st.sampled_from([1.0, 2.0, 1.5, 3.0, 10.0]) | st.floats(1, BACKOFF_MULTIPLIER_MAX),
    jitter=st.sampled_from(Jitter),
)
LARGEST = RetryPolicy(
    max_attempts=None, backoff=DURATION_MAX, backoff_max=DURATION_MAX, backoff_multiplier=BACKOFF_MULTIPLIER_MAX
)


@settings(max_examples=300, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    policy=policies,
    attempt=st.integers(0, 60) | st.just(COUNT_MAX - 1),
    chance=st.floats(0, 1, exclude_max=True),
    retry_in=st.none() | pauses,
)
@example(policy=LARGEST, attempt=COUNT_MAX - 1, chance=1 - 2**-53, retry_in=None)
async def test_sql_and_rules_pause_alike(
    house: House, policy: RetryPolicy, attempt: int, chance: float, retry_in: timedelta | None
) -> None:
    failure = Failure(error="e", retry_in=retry_in, chance=chance)

    async def work(connection: Connection) -> None:
        async with connection.transaction():
            task_id = house.jobs._new_id()
            await store.submit(connection, [store.Submission(task_id, NewTask(queue="q", policy=policy))])
            await connection.execute(
                "UPDATE tasks SET phase = 'held', delivery = 1, held_by = 'w', claim_time = now(), attempt = $2"
                " WHERE id = $1",
                task_id,
                attempt,
            )
            [found] = await store.look_up(connection, [store.Sought(task_id, None)])
            assert found
            item = store.Failing(
                id=task_id, match=Match(delivery=1), failure=failure, request=b"r", token=house.jobs._new_id()
            )
            written = await store.fail(connection, [item])
            await connection.execute("DELETE FROM tasks WHERE id = $1", task_id)
            await connection.execute("DELETE FROM task_runs WHERE task_id = $1", task_id)
        if policy.max_attempts is not None and attempt + 1 >= policy.max_attempts:
            assert written == {}
            return
        [task] = written.values()
        expected = transitions.fail(found.task, failure, task.update_time)
        if task.due_time and expected.due_time and abs(task.due_time - expected.due_time) <= MICROSECOND:
            # Two libraries' powers may differ in their last bit.
            expected = msgspec.structs.replace(expected, due_time=task.due_time)
        assert task == expected

    await house.database.run(work)

"""What a delivery carries of its parents stays within one limit, errors included."""

from corndog.domain.jobs import Member, NewJob, OnParentFailure
from corndog.domain.limits import ERROR_MAX
from corndog.domain.listing import DEPENDENCIES_MAX
from corndog.domain.task import Failure, Match, NewTask
from tests.store.house import House

WITHIN = DEPENDENCIES_MAX // ERROR_MAX


async def test_long_errors_are_cut_beyond_the_limit(house: House) -> None:
    names = [f"parent {place}" for place in range(WITHIN + 20)]
    child = Member(name="child", new=NewTask(queue="c"), depends_on=names, on_parent_failure=OnParentFailure.RUN)
    made = await house.jobs.submit(
        NewJob(members=[*(Member(name=name, new=NewTask(queue="q")) for name in names), child])
    )
    await house.claim("q", count=len(names))
    errors = [f"{name}: {'é' * ERROR_MAX}".encode()[:ERROR_MAX].decode(errors="ignore") for name in names]
    errors[-1] = "short"
    for name, error in zip(names, errors, strict=True):
        await house.endings.fail(made.task_ids[name], Match(delivery=1), Failure(error=error, retryable=False))

    [entry] = await house.reading.with_dependencies(await house.claim("c"))

    assert entry.dependencies
    told = [entry.dependencies[name].last_error or "" for name in names]
    assert told[:WITHIN] == errors[:WITHIN]
    assert told[-1] == "short"
    for cut, error in zip(told[WITHIN:-1], errors[WITHIN:-1], strict=True):
        assert len(cut) == 200
        assert cut.endswith(" … (cut)")
        assert error.startswith(cut.removesuffix(" … (cut)"))
    assert sum(len(text.encode()) for text in told) < DEPENDENCIES_MAX + 20 * 400
    assert not any(parent.is_omitted for parent in entry.dependencies.values())

"""The statement `end`, as complete and as cancel."""

from uuid import uuid4

import pytest

from corndog.domain import transitions
from corndog.domain.task import CanceledBy, Content, Match, NewTask, Outcome, Phase
from corndog.store.tasks import Ending
from tests.store.conformance.bench import Bench, in_different_ways
from tests.store.house import HOUR, TEXT, held_match, unheld_match

OTHER = Content(b"\x00other", "a/b", is_json=False)


async def test_a_held_task_completes(bench: Bench) -> None:
    task = await bench.put_held(payload=TEXT)
    next_ids = [uuid4(), uuid4()]
    ending = Ending(id=task.id, match=held_match(task), request=b"r", next_task_ids=next_ids, result=OTHER)
    [ended] = (await bench.end(ending)).values()
    assert ended == transitions.end(task, Phase.COMPLETED, ended.update_time)
    entry = await bench.entry(task.id)
    assert (entry.task, entry.payload, entry.result) == (ended, TEXT, OTHER)
    found = await bench.found(task.id, task.delivery)
    assert (found.task, found.end_request, found.next_task_ids) == (ended, b"r", tuple(next_ids))
    assert (found.write_token, found.run_outcome, found.run_request) == (None, None, None)
    assert (await bench.everything())["archived_tasks"][0]["outcome"] == Outcome.SUCCEEDED


@pytest.mark.parametrize("delay", [None, HOUR])
async def test_an_unheld_task_completes(bench: Bench, delay: object) -> None:
    task = await bench.put_one(delay=delay)
    [ended] = (await bench.end(Ending(id=task.id, match=unheld_match(task)))).values()
    assert ended == transitions.end(task, Phase.COMPLETED, ended.update_time)
    assert (await bench.found(task.id)).next_task_ids == ()


async def test_a_rerun_writes_nothing(bench: Bench) -> None:
    tasks = [await bench.put_held(payload=TEXT), await bench.put_one(queue="p")]
    endings = [
        Ending(id=tasks[0].id, match=held_match(tasks[0]), request=b"r", result=OTHER),
        Ending(id=tasks[1].id, match=unheld_match(tasks[1]), request=b"r"),
    ]
    assert len(await bench.end(*endings)) == 2
    before = await bench.everything()
    assert await bench.end(*endings) == {}
    assert await bench.cancel(*endings) == {}
    assert await bench.everything() == before


@pytest.mark.parametrize(("_how", "match"), in_different_ways())
async def test_what_does_not_match_is_left_alone(bench: Bench, _how: str, match: Match) -> None:
    task = await bench.put_one(queue="q", payload=TEXT)
    before = await bench.everything()
    ending = Ending(id=task.id, match=match, result=OTHER)
    assert await bench.end(ending) == {}
    assert await bench.cancel(ending) == {}
    assert await bench.everything() == before


@pytest.mark.parametrize(
    "match",
    [
        Match(),
        Match(queue="default"),
        Match(current_state="submitted-working"),
        Match(delivery=2),
        Match(delivery=1, queue="p"),
        Match(delivery=1, current_state="submitted"),
    ],
)
async def test_only_its_holder_completes_a_held_task(bench: Bench, match: Match) -> None:
    task = await bench.put_held()
    before = await bench.everything()
    assert await bench.end(Ending(id=task.id, match=match, result=OTHER)) == {}
    assert await bench.everything() == before


async def test_a_blocked_task_takes_cancel_only(bench: Bench) -> None:
    task = await bench.put_blocked()
    for match in (Match(), unheld_match(task), Match(delivery=1)):
        assert await bench.end(Ending(id=task.id, match=match)) == {}
    [ended] = (await bench.cancel(Ending(id=task.id, match=unheld_match(task)))).values()
    assert ended == transitions.end(task, Phase.CANCELED, ended.update_time, CanceledBy.REQUEST)
    assert ended.waiting_on == 1


@pytest.mark.parametrize("put", ["put_one", "put_held", "put_blocked"])
async def test_a_cancel_needs_to_know_nothing(bench: Bench, put: str) -> None:
    task = await getattr(bench, put)(payload=TEXT)
    [ended] = (await bench.cancel(Ending(id=task.id, match=Match()))).values()
    assert ended == transitions.end(task, Phase.CANCELED, ended.update_time, CanceledBy.REQUEST)
    assert (await bench.everything())["archived_tasks"][0]["outcome"] == Outcome.CANCELED


async def test_a_cancel_with_a_delivery_needs_that_one(bench: Bench) -> None:
    task = await bench.put_held()
    assert await bench.cancel(Ending(id=task.id, match=Match(delivery=2))) == {}
    assert len(await bench.cancel(Ending(id=task.id, match=Match(delivery=1)))) == 1


async def test_a_bad_item_does_not_fail_its_neighbours(bench: Bench) -> None:
    good, bad, other = await bench.put(*[NewTask(payload=TEXT)] * 3)
    before = await bench.entry(bad.id)
    ended = await bench.end(
        Ending(id=good.id, match=unheld_match(good), result=TEXT, next_task_ids=[uuid4()]),
        Ending(id=bad.id, match=Match(current_state="elsewhere"), result=TEXT, next_task_ids=[uuid4(), uuid4()]),
        Ending(id=uuid4(), match=Match(current_state="submitted"), result=TEXT),
        Ending(id=other.id, match=unheld_match(other), result=OTHER),
    )
    assert set(ended) == {good.id, other.id}
    assert await bench.entry(bad.id) == before
    assert ((await bench.entry(good.id)).result, (await bench.entry(other.id)).result) == (TEXT, OTHER)
    assert len((await bench.everything())["results"]) == 2

"""The calls that submit and end many tasks at once."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from corndog.api import examples
from corndog.api.answers.batches import (
    BatchSubmitted,
    ManyCompleted,
    ManyFailed,
    view_batch,
    view_completed,
    view_failed,
)
from corndog.api.claims import check_claim, claim_next
from corndog.api.exchanges import Answer, Call
from corndog.api.keys import read_key
from corndog.api.problems import Problem, problem_of
from corndog.api.queries import BatchQuery
from corndog.api.reading import answer, answered, media_of_answer, prefers_minimal, read_body, read_query
from corndog.api.requests.base import at_most
from corndog.api.requests.batches import (
    Batch,
    CompleteItem,
    CompleteMany,
    FailItem,
    FailMany,
    read_item,
    read_items,
    refuse_all,
)
from corndog.api.routing import ONCE, WRITE, Endpoint, route
from corndog.domain.errors import Invalid, Unavailable
from corndog.domain.keys import Key
from corndog.domain.task import NewTask
from corndog.service.requests import hash_of
from corndog.service.submits import Submits, Submitted
from corndog.service.writes import Written

_Asked = TypeVar("_Asked")


@route(
    "POST",
    "/v1/tasks/batch",
    operation_id="submit_tasks",
    tag="Tasks",
    summary="Submit many tasks",
    takes=Batch,
    takes_key=True,
    takes_preference=True,
    query=BatchQuery,
    gives=BatchSubmitted,
    refuses=ONCE,
    examples=examples.BATCH,
)
async def submit_tasks(call: Call) -> Answer:
    """Make many tasks at once, in the order given; one that is wrong is refused in its own result, and stops no other.

    With `atomic` one that is wrong refuses all. An idempotency key covers the whole batch: its repeat gives each item's
    original result.
    """
    is_atomic = read_query(call, BatchQuery).atomic
    media, wanted = read_body(call, Batch)
    text = read_key(call, wanted.idempotency_key)
    terms = call.services.terms
    at_most(len(wanted.tasks), terms.items, "tasks")
    items = [read_item(media, terms, raw) for raw in wanted.tasks]
    refused = {place: item for place, item in enumerate(items) if isinstance(item, Invalid)}
    if refused and is_atomic:
        raise refuse_all(refused)
    problems = {place: problem_of(error) for place, error in refused.items()}
    news = [item.new for item in items if not isinstance(item, Invalid)]
    key = None
    if text is not None:
        # What is wrong has no form but the one that it was sent in.
        compared = [
            bytes(raw) if isinstance(item, Invalid) else item.compared
            for raw, item in zip(wanted.tasks, items, strict=True)
        ]
        key = Key(text, hash_of("batch", is_atomic, compared))
    submitted = await _submit(call.services.submits, news, key, problems)
    if submitted.replayed:
        problems = msgspec.msgpack.decode(submitted.answer, type=dict[int, Problem]) if submitted.answer else {}
    reply = media_of_answer(call)
    minimal = prefers_minimal(call)
    return answered(answer(reply, view_batch(reply, submitted, problems, minimal=minimal)), minimal=minimal)


async def _submit(
    submits: Submits, news: Sequence[NewTask], key: Key | None, problems: Mapping[int, Problem]
) -> Submitted:
    """Submit what is right; where nothing is, a key is not kept."""
    if not news:
        earlier = await submits.find_once(key) if key else None
        return earlier or Submitted(ids=(), tasks=())
    if key:
        return await submits.submit_all_once(news, key, msgspec.msgpack.encode(problems) if problems else None)
    tasks = await submits.submit_all(news)
    return Submitted(ids=[task.id for task in tasks], tasks=tasks)


@route(
    "POST",
    "/v1/tasks/complete",
    operation_id="complete_tasks",
    tag="Tasks",
    summary="Complete many tasks",
    takes=CompleteMany,
    takes_preference=True,
    query=BatchQuery,
    gives=ManyCompleted,
    refuses=WRITE,
    examples=examples.COMPLETE_MANY,
)
async def complete_tasks(call: Call) -> Answer:
    """Complete many tasks, each as a single completion does; one that is refused stops no other.

    With `atomic` one that is refused refuses all. What `claim` asks for is handed out once they are committed.
    """
    media, wanted = read_body(call, CompleteMany)
    check_claim(call, wanted.claim)
    endings = call.services.endings
    done = await _each(
        call,
        read_items(media, call.services.terms, wanted.tasks, CompleteItem),
        endings.complete_many,
        endings.complete_all_or_none,
    )
    claimed = await claim_next(call, wanted.claim)
    reply, minimal = media_of_answer(call), prefers_minimal(call)
    results = [view_completed(reply, one, minimal=minimal) for one in done]
    return answered(
        answer(reply, ManyCompleted(results=results, failed=_refused(done), claimed=claimed)), minimal=minimal
    )


@route(
    "POST",
    "/v1/tasks/fail",
    operation_id="fail_tasks",
    tag="Tasks",
    summary="Report many failed tries",
    takes=FailMany,
    takes_preference=True,
    query=BatchQuery,
    gives=ManyFailed,
    refuses=WRITE,
    examples=examples.FAIL_MANY,
)
async def fail_tasks(call: Call) -> Answer:
    """Report failed tries of many tasks, each as a single report does; one that is refused stops no other.

    With `atomic` one that is refused refuses all.
    """
    media, wanted = read_body(call, FailMany)
    endings = call.services.endings
    done = await _each(
        call,
        read_items(media, call.services.terms, wanted.tasks, FailItem),
        endings.fail_many,
        endings.fail_all_or_none,
    )
    reply, minimal = media_of_answer(call), prefers_minimal(call)
    results = [view_failed(reply, one, minimal=minimal) for one in done]
    return answered(answer(reply, ManyFailed(results, _refused(done))), minimal=minimal)


async def _each(
    call: Call,
    items: Sequence[_Asked | Invalid],
    write_many: Callable[[Sequence[_Asked]], Awaitable[Sequence[Written | Exception]]],
    write_all_or_none: Callable[[Sequence[_Asked]], Awaitable[Sequence[Written]]],
) -> Sequence[Written | Exception]:
    """Write the items that are right, and tell for all what became of them.

    Raises:
        CorndogError: with `atomic`, what the first item was refused for; or nothing could be written at all.

    """
    is_atomic = read_query(call, BatchQuery).atomic
    wrong = {place: item for place, item in enumerate(items) if isinstance(item, Invalid)}
    if wrong and is_atomic:
        raise refuse_all(wrong)
    right = [item for item in items if not isinstance(item, Invalid)]
    if is_atomic:
        return await write_all_or_none(right)
    written = await write_many(right)
    if written and all(isinstance(one, Unavailable) for one in written):
        raise next(one for one in written if isinstance(one, Unavailable))
    outcomes = iter(written)
    return [item if isinstance(item, Invalid) else next(outcomes) for item in items]


def _refused(done: Iterable[Written | Exception]) -> int:
    return sum(isinstance(one, Exception) for one in done)


HANDLERS: list[Endpoint] = [submit_tasks, complete_tasks, fail_tasks]

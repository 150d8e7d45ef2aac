"""The call that submits many tasks."""

from collections.abc import Mapping, Sequence

import msgspec

from corndog.api import examples
from corndog.api.answers.batches import BatchSubmitted, view_batch
from corndog.api.exchanges import Answer, Call
from corndog.api.keys import read_key
from corndog.api.problems import Problem, problem_of
from corndog.api.queries import BatchQuery
from corndog.api.reading import answer, media_of_answer, read_body, read_query
from corndog.api.requests.base import at_most
from corndog.api.requests.batches import Batch, read_item, refuse_all
from corndog.api.routing import ONCE, Endpoint, route
from corndog.domain.errors import Invalid
from corndog.domain.keys import Key
from corndog.domain.task import NewTask
from corndog.service.requests import hash_of
from corndog.service.submits import Submits, Submitted


@route(
    "POST",
    "/v1/tasks/batch",
    operation_id="submit_tasks",
    tag="Tasks",
    summary="Submit many tasks",
    takes=Batch,
    takes_key=True,
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
    return answer(reply, view_batch(reply, submitted, problems))


async def _submit(
    submits: Submits, news: Sequence[NewTask], key: Key | None, problems: Mapping[int, Problem]
) -> Submitted:
    """Submit what is right; where nothing is, a key is not kept."""
    if not news:
        earlier = await submits.find_once(key) if key else None
        return earlier or Submitted(ids=(), tasks=())
    if key:
        return await submits.submit_once(news, key, msgspec.msgpack.encode(problems) if problems else None)
    tasks = await submits.submit_all(news)
    return Submitted(ids=[task.id for task in tasks], tasks=tasks)


HANDLERS: list[Endpoint] = [submit_tasks]

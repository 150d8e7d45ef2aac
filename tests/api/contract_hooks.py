"""What schemathesis must know about this API beside its document: MessagePack, and what no document can say.

Loaded by `schemathesis run` (see `test_contract.py`). No check is turned off; each reason for which a finding is
dropped stands with it.
"""

import base64
import json
import re
from functools import cache
from typing import Any, TypeAlias

import httpx
import jsonschema_rs
import msgspec
import schemathesis
from schemathesis.core.failures import AcceptedNegativeData, Failure, MalformedJson
from schemathesis.openapi.checks import (
    ContentDeserializationError,
    EnsureResourceAvailability,
    RejectedPositiveData,
)

from corndog.domain.limits import WAIT_MAX

Case: TypeAlias = schemathesis.Case[Any]
Operation: TypeAlias = schemathesis.APIOperation[Any, Any, Any, Any]

MSGPACK = "application/msgpack"
SHORT = 0.01
AS_JSON = {"payload", "result"}
AS_BYTES = {"payload_base64", "result_base64"}
NESTED = {"claimed", "next_task", "next_tasks", "results", "task", "tasks"}
MANY = {"submit_tasks", "complete_tasks", "fail_tasks"}


# MessagePack ------------------------------------------------------------------


def to_msgpack(value: Any) -> Any:  # noqa: ANN401 - anything at all is sent
    """Give a generated body the form that MessagePack's has: payloads and results are bytes."""
    if isinstance(value, list):
        return [to_msgpack(item) for item in value]
    if not isinstance(value, dict):
        # MessagePack has no larger integers.
        return float(value) if isinstance(value, int) and not -(2**63) <= value < 2**64 else value
    return {name: _field_to_msgpack(name, part) for name, part in value.items()}


def _field_to_msgpack(name: str, part: Any) -> Any:  # noqa: ANN401
    if name in AS_JSON:
        return json.dumps(part).encode()
    if name in AS_BYTES and isinstance(part, str):
        try:
            return base64.b64decode(part, validate=True)
        except ValueError:
            return part
    return to_msgpack(part)


def from_msgpack(value: Any) -> Any:  # noqa: ANN401
    """Give an answer in MessagePack the form that the document describes, which is JSON's."""
    if isinstance(value, list):
        return [from_msgpack(item) for item in value]
    if not isinstance(value, dict):
        return value
    answer = {}
    for name, part in value.items():
        if name in AS_JSON:
            answer[name] = json.loads(part)
        elif name in AS_BYTES:
            answer[name] = base64.b64encode(part).decode()
        else:
            answer[name] = from_msgpack(part) if name in NESTED else part
    return answer


@schemathesis.serializer(MSGPACK)
def serialize(_context: schemathesis.SerializationContext, value: Any) -> bytes:  # noqa: ANN401
    return value if isinstance(value, bytes) else msgspec.msgpack.encode(to_msgpack(value))


@schemathesis.deserializer(MSGPACK)
def deserialize(context: schemathesis.DeserializationContext, response: schemathesis.Response) -> Any:  # noqa: ANN401
    if _is_opaque(context.operation):
        return response.content
    return from_msgpack(msgspec.msgpack.decode(response.content))


@schemathesis.hook
def before_call(_context: schemathesis.HookContext, case: Case, _kwargs: dict[str, Any]) -> None:
    """Ask for MessagePack where it is sent: the document can't describe the header Accept."""
    if case.media_type == MSGPACK:
        case.headers["Accept"] = MSGPACK


@schemathesis.hook
def map_case(_context: schemathesis.HookContext, case: Case) -> Case:
    """Have the writes that are meant to be right say what they match: the generator overlooks the document's `not`.

    And have nothing wait for long.
    """
    is_write = case.operation.definition.raw["operationId"] in {"update_task", "complete_task"}
    is_positive = case.meta is not None and case.meta.generation.mode is schemathesis.GenerationMode.POSITIVE
    if is_write and is_positive and isinstance(case.body, dict) and not case.body.get("delivery"):
        case.body["current_state"] = case.body.get("current_state") or "submitted"
    # A wait that is allowed is allowed as well when it is short, and the run ends some day.
    if isinstance(case.body, dict):
        for claim in (case.body, case.body.get("claim")):
            if isinstance(claim, dict) and isinstance(wait := claim.get("wait"), int | float) and 0 < wait <= WAIT_MAX:
                claim["wait"] = SHORT
    return case


# What is no fault -------------------------------------------------------------


@schemathesis.hook
def filter_failure(
    _context: schemathesis.HookContext, failure: Failure, case: Case, response: schemathesis.Response
) -> bool:
    """Tell the faults from what only looks like one."""
    match failure:
        case AcceptedNegativeData() if case.operation.definition.raw["operationId"] in MANY:
            # What is wrong with an item is told in its own result.
            return not _answer(response)["failed"]
        case AcceptedNegativeData() if "in body" in failure.message:
            # What the generator takes for a violation of the document's `not` may be none.
            return not _is_valid(case)
        case RejectedPositiveData():
            return not _is_rightly_refused(case, response.json())
        case EnsureResourceAvailability():
            # A task may have been submitted without a payload, and has no result before it is completed.
            return response.json()["code"] not in {"payload_not_found", "result_not_found"}
        case MalformedJson() | ContentDeserializationError():
            # Whatever was submitted as bytes comes back as it was, called JSON or not.
            return not _is_opaque(case.operation)
    return True


def _answer(response: schemathesis.Response) -> Any:  # noqa: ANN401
    is_packed = MSGPACK in response.headers["content-type"]
    return msgspec.msgpack.decode(response.content) if is_packed else response.json()


def _is_opaque(operation: Operation) -> bool:
    return operation.definition.raw["operationId"] in {"get_payload", "get_result"}


def _is_rightly_refused(case: Case, problem: dict[str, Any]) -> bool:
    operation = case.operation.definition.raw["operationId"]
    field = problem.get("field")
    if operation == "list_workers" and field == "active_since":
        return True  # A pattern can't say that the sum of its numbers is neither zero nor over ten years.
    if operation in {"list_tasks", "list_jobs", "list_workers"} and problem["code"] == "invalid_cursor":
        return True  # A cursor is opaque; those that the server gives are followed through the document's links.
    if operation == "submit_job" and problem["code"] == "invalid_job":
        # JSON Schema knows no graphs, and can't say that a clock needs a target where both may be the job's defaults.
        told = [error for error in problem["errors"] if not re.search(r"(depends_on\[|name|timeout)", error["field"])]
        return not told or any("serialize ints" in error["detail"] for error in told) or not _is_valid(case)
    if field in {"Idempotency-Key", "idempotency_key"}:
        return True  # OpenAPI can't say that a header and a field exclude one another, or how a header is encoded.
    if operation == "submit_raw_task" and field in {"run_at", "timeout"}:
        return True  # OpenAPI can't say which parameters exclude or need one another.
    if field is not None and field.endswith("metadata") and "serialize ints" in problem["detail"]:
        return True  # JSON Schema can't say of what size the integers are, at any depth of an object of any form.
    if operation == "update_task" and field == "timeout":
        return True  # Whether the clock needs a target depends on the task: only a new state does.
    if problem["detail"].endswith("got `float`"):
        return True  # JSON Schema takes 1.0 for an integer, and has no way to say that this API doesn't.
    return not _is_valid(case)  # The generator overlooks the document's `not`.


def _is_valid(case: Case) -> bool:
    """Whether the body is valid by the document."""
    body = case.operation.definition.raw.get("requestBody")
    if body is None or case.media_type not in body["content"]:
        return True
    return _validator(case.operation.base_url, case.operation.definition.raw["operationId"]).is_valid(case.body)


@cache
def _validator(base_url: str, operation: str) -> jsonschema_rs.Validator:
    document = httpx.get(f"{base_url}/openapi.json").json()
    for path in document["paths"].values():
        for found in path.values():
            if found["operationId"] == operation:
                schema = found["requestBody"]["content"]["application/json"]["schema"]
                return jsonschema_rs.validator_for({**schema, "components": document["components"]})
    raise KeyError(operation)

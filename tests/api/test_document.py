"""The API's document: valid, complete, and what it shows as an example is one."""

from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import msgspec
import pytest
from schemathesis.specs.openapi.definitions import OPENAPI_31

from corndog.api import openapi
from corndog.app import document
from corndog.domain.limits import Terms
from tests.api.calls import JSON, MSGPACK, PROBLEM, Api
from tests.servers import ROOT

Json = dict[str, Any]
DOCUMENT: Json = msgspec.json.decode(document())
OPERATIONS: dict[str, tuple[str, str, Json]] = {
    operation["operationId"]: (method, path, operation)
    for path, methods in DOCUMENT["paths"].items()
    for method, operation in methods.items()
}
KEYED = {"/v1/jobs", "/v1/tasks", "/v1/tasks/raw", "/v1/tasks/batch"}
"""The paths whose POST takes an idempotency key."""
EVERY = pytest.mark.parametrize("operation", OPERATIONS)


def validator(schema: Json) -> jsonschema_rs.Validator:
    return jsonschema_rs.validator_for(schema | {"components": DOCUMENT["components"]}, validate_formats=True)


def contents(operation: Json) -> Iterator[tuple[str, str, Json]]:
    """List all that is said of bodies: (where, media type, what)."""
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        yield "request", media_type, content
    for status, response in operation["responses"].items():
        for media_type, content in response["content"].items():
            yield status, media_type, content


async def test_the_committed_document_is_what_the_server_gives(api: Api) -> None:
    committed = (ROOT / "openapi.json").read_bytes()

    response = await api.client.get("/openapi.json")

    assert response.headers["content-type"] == JSON
    assert committed == document(), "run `make generate`"
    assert response.content == committed


def test_it_is_valid_openapi() -> None:
    assert list(jsonschema_rs.validator_for(OPENAPI_31).iter_errors(DOCUMENT)) == []


def test_all_schemas_are_valid_json_schemas() -> None:
    schemas = list(DOCUMENT["components"]["schemas"].values())
    for _, _, operation in OPERATIONS.values():
        schemas += [parameter["schema"] for parameter in operation["parameters"]]
        schemas += [content["schema"] for _, _, content in contents(operation)]

    for schema in schemas:
        jsonschema_rs.meta.validate(schema | {"$schema": "https://json-schema.org/draft/2020-12/schema"})


def test_all_schemas_are_used() -> None:
    text = document().decode()

    assert [name for name in DOCUMENT["components"]["schemas"] if f'"#/components/schemas/{name}"' not in text] == []


def test_every_route_of_the_api_is_described() -> None:
    described = {(method.upper(), path) for method, path, _ in OPERATIONS.values()}

    assert described == {
        ("POST", "/v1/tasks"),
        ("GET", "/v1/tasks"),
        ("POST", "/v1/tasks/raw"),
        ("POST", "/v1/tasks/batch"),
        ("POST", "/v1/tasks/complete"),
        ("POST", "/v1/tasks/fail"),
        ("POST", "/v1/tasks/next"),
        ("POST", "/v1/tasks/heartbeat"),
        ("POST", "/v1/tasks/revive"),
        ("POST", "/v1/jobs"),
        ("GET", "/v1/jobs"),
        ("GET", "/v1/jobs/{id}"),
        ("POST", "/v1/jobs/{id}/cancel"),
        ("POST", "/v1/jobs/{id}/revive"),
        ("POST", "/v1/tasks/{id}/fail"),
        ("POST", "/v1/tasks/{id}/revive"),
        ("GET", "/v1/tasks/{id}/runs"),
        ("GET", "/v1/tasks/{id}"),
        ("PATCH", "/v1/tasks/{id}"),
        ("GET", "/v1/tasks/{id}/payload"),
        ("GET", "/v1/tasks/{id}/result"),
        ("POST", "/v1/tasks/{id}/complete"),
        ("POST", "/v1/tasks/{id}/release"),
        ("POST", "/v1/tasks/{id}/cancel"),
        ("POST", "/v1/cleanup-timed-out"),
        ("GET", "/v1/queues"),
        ("GET", "/v1/queues/task-counts"),
        ("GET", "/v1/queues/state-counts"),
        ("GET", "/v1/state-counts"),
        ("GET", "/v1/workers"),
        ("POST", "/v1/workers/drain"),
        ("GET", "/healthz"),
        ("GET", "/readyz"),
        ("GET", "/metrics"),
    }


@EVERY
def test_every_operation_says_what_it_does(operation: str) -> None:
    _, path, described = OPERATIONS[operation]

    assert described["summary"]
    assert described["description"].endswith(".")
    assert set(described["tags"]) <= {tag["name"] for tag in DOCUMENT["tags"]}
    in_path = [parameter for parameter in described["parameters"] if parameter["in"] == "path"]
    assert [parameter["name"] for parameter in in_path] == (["id"] if "{id}" in path else [])


def errors_of(method: str, path: str) -> set[str]:
    """Tell which refusals a call can give."""
    if not path.startswith("/v1"):
        return {"503"} if path == "/readyz" else set()
    errors = {"400", "503"}
    if method != "get":
        errors |= {"413", "415"}
    if path in KEYED and method == "post":
        errors |= {"409"}
    if path in {"/v1/tasks/complete", "/v1/tasks/fail"}:
        errors |= {"404", "409"}
    if "{id}" in path:
        errors |= {"404"} if method == "get" else {"404", "409"}
    return errors


@EVERY
def test_every_operation_names_its_errors(operation: str) -> None:
    method, path, described = OPERATIONS[operation]
    responses = described["responses"]

    refusals = {status for status in responses if not status.startswith("2")}

    assert refusals == errors_of(method, path)
    for status in refusals - ({"503"} if path == "/readyz" else set()):
        assert responses[status]["content"].keys() == {PROBLEM}
        assert responses[status]["description"]
        assert ("Retry-After" in responses[status].get("headers", {})) == (status == "503")


@EVERY
def test_every_operation_speaks_both_encodings(operation: str) -> None:
    _, path, described = OPERATIONS[operation]
    media_types: dict[str, set[str]] = {}
    for where, media_type, _ in contents(described):
        media_types.setdefault(where, set()).add(media_type)

    bodies = {where: types for where, types in media_types.items() if where == "request" or where.startswith("2")}

    opaque = {"*/*"}
    if path.endswith(("/payload", "/result", "/metrics")):
        assert bodies == {"200": opaque}
    else:
        assert bodies.pop("request", {JSON, MSGPACK}) == (opaque if path.endswith("/raw") else {JSON, MSGPACK})
        assert list(bodies.values()) == [{JSON, MSGPACK}]


@EVERY
def test_every_body_has_an_example_that_its_schema_allows(operation: str) -> None:
    for where, media_type, content in contents(OPERATIONS[operation][2]):
        if media_type in {JSON, PROBLEM}:
            assert "example" in content, where
            validator(content["schema"]).validate(content["example"])
            if media_type == PROBLEM:
                assert str(content["example"]["status"]) == where


@EVERY
def test_every_example_of_a_parameter_is_allowed(operation: str) -> None:
    for parameter in OPERATIONS[operation][2]["parameters"]:
        if parameter["required"]:
            assert "example" in parameter
        if "example" in parameter:
            validator(parameter["schema"]).validate(parameter["example"])
        if "default" in parameter["schema"]:
            validator(parameter["schema"]).validate(parameter["schema"]["default"])


@EVERY
async def test_the_server_takes_every_example(api: Api, operation: str) -> None:
    method, path, described = OPERATIONS[operation]
    query = {
        parameter["name"]: parameter["example"]
        for parameter in described["parameters"]
        if parameter["in"] == "query" and "example" in parameter
    }
    body = described.get("requestBody", {}).get("content", {}).get(JSON, {}).get("example")
    task = await api.submit(queue="email", payload=1)
    [held] = await api.claim(queue="email", current_state="submitted")
    known_id = held["id"]
    if path.startswith("/v1/jobs/"):
        made = await api.post("/v1/jobs", tasks=[{"name": "a", "queue": "email"}])
        known_id = made.json()["job"]["id"]

    response = await api.client.request(method, path.replace("{id}", known_id), params=query, json=body)

    expected = 404 if operation == "get_result" else min(map(int, described["responses"]))
    assert response.status_code == expected, response.text
    for left in await api.list(queue="email"):
        await api.cancel(left["id"])
    assert task["id"] == held["id"]


@EVERY
def test_every_link_leads_somewhere(operation: str) -> None:
    for response in OPERATIONS[operation][2]["responses"].values():
        for link in response.get("links", {}).values():
            _, _, target = OPERATIONS[link["operationId"]]
            names = {parameter["name"] for parameter in target["parameters"]}
            assert link.get("parameters", {}).keys() <= names
            answer = response["content"][JSON]["example"]
            values = resolved_within(link.get("requestBody", {}), answer)
            for text in link.get("parameters", {}).values():
                resolved(text, answer)
            if values:
                validator(target["requestBody"]["content"][JSON]["schema"]).validate(values)


def resolved_within(body: Any, answer: Any) -> Any:  # noqa: ANN401
    """Evaluate the runtime expressions of a link's body."""
    if isinstance(body, dict):
        return {name: resolved_within(part, answer) for name, part in body.items()}
    if isinstance(body, list):
        return [resolved_within(part, answer) for part in body]
    return resolved(body, answer)


def resolved(expression: str | None, answer: Any) -> Any:  # noqa: ANN401
    """Evaluate a runtime expression on the example of an answer."""
    if expression is None or expression.startswith("$request.query."):
        return None
    value = answer
    for part in expression.removeprefix("$response.body#/").split("/"):
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def test_it_says_the_limits_of_its_server() -> None:
    other: Json = msgspec.json.decode(openapi.document(Terms(payload=1, metadata=2, items=3, page=4)))

    schemas = other["components"]["schemas"]
    assert schemas["Batch"]["properties"]["tasks"]["maxItems"] == 3
    assert schemas["Next"]["properties"]["count"]["maximum"] == 3
    assert schemas["Next"]["properties"]["queues"]["anyOf"][0]["maxItems"] == 3
    assert schemas["CompleteAndClaim"]["properties"]["next_tasks"]["anyOf"][0]["maxItems"] == 3
    assert schemas["CompleteMany"]["properties"]["tasks"]["maxItems"] == 3
    assert schemas["FailMany"]["properties"]["tasks"]["maxItems"] == 3
    assert schemas["Drain"]["properties"]["worker_ids"]["anyOf"][0]["maxItems"] == 3
    for path in ("/v1/tasks", "/v1/workers"):
        parameters = {parameter["name"]: parameter for parameter in other["paths"][path]["get"]["parameters"]}
        assert parameters["limit"]["schema"]["maximum"] == 4


FORBIDDEN: dict[str, list[Json]] = {
    "Submit": [
        {"payload": None, "payload_base64": ""},
        {"delay": 0, "run_at": "2030-01-01T00:00:00Z"},
        {"timeout": 1},
        {"timeout": 1, "auto_target_state": None},
        {"content_type": "a/b"},
        {"queue": "a\n"},
        {"priority": 2**31},
        {"unknown": 1},
    ],
    "Next": [{"queue": "a", "queues": ["b"]}, {"queues": []}, {"count": 1001}],
    "Update": [{}, {"delivery": None}, {"queue": "a"}, {"delivery": 1, "content_type": "a/b"}],
    "CompleteAndClaim": [
        {},
        {"delivery": 1, "claim": {"count": 0}},
        {"delivery": 1, "claim": {"queue": "a", "queues": ["b"]}},
        {"delivery": 1, "next_task": {}, "next_tasks": []},
        {"delivery": 1, "result": 1, "result_base64": ""},
        {"delivery": 1, "next_task": {"timeout": 1}},
    ],
    "Release": [{}, {"delivery": None}, {"current_state": "a"}],
    "Drain": [{}, {"all": False}, {"worker_ids": None}, {"worker_ids": ["a"], "all": True}, {"worker_ids": [""]}],
}
FORBIDDEN["SubmitOnce"] = [*FORBIDDEN["Submit"], {"idempotency_key": ""}, {"idempotency_key": "a\n"}]
FORBIDDEN["Submit"].append({"idempotency_key": "a"})
FORBIDDEN["Batch"] = [{}, {"tasks": []}, {"tasks": None}, {"tasks": [{}] * 1001}, {"tasks": [{}], "atomic": True}]
_ID = "0198f3c2-6e0a-7b34-9c1d-2f4e5a6b7c8d"
FORBIDDEN["CompleteMany"] = [
    {},
    {"tasks": []},
    {"tasks": [{"id": _ID}]},
    {"tasks": [{"delivery": 1}]},
    {"tasks": [{"id": _ID, "delivery": 1, "claim": {}}]},
    {"tasks": [{"id": _ID, "delivery": 1}] * 1001},
    {"tasks": [{"id": _ID, "delivery": 1}], "claim": []},
]
FORBIDDEN["FailMany"] = [{}, {"tasks": []}, {"tasks": [{"id": _ID}]}, {"tasks": [{"id": _ID, "delivery": 1}] * 1001}]
ALLOWED: dict[str, list[Json]] = {
    "Submit": [
        {},
        {"payload": None, "content_type": "a/b; c=d"},
        {"delay": None, "run_at": "2030-01-01T00:00:00Z"},
        {"timeout": 0},
        {"timeout": 1, "auto_target_state": "t"},
        {"content_type": None},
    ],
    "Next": [{}, {"queue": None, "queues": ["b"]}, {"queue": "a", "queues": None}],
    "Update": [{"delivery": 1}, {"current_state": "a", "delivery": None}],
    "CompleteAndClaim": [
        {"delivery": 1, "next_task": None, "next_tasks": []},
        {"current_state": "s", "result": None, "claim": {}},
    ],
    "Cancel": [{}],
    "Drain": [{"all": True}, {"worker_ids": []}, {"worker_ids": ["a"], "all": False}, {"all": True, "drain": False}],
}
ALLOWED["Batch"] = [{"tasks": [{}] * 1000}, {"tasks": [{"queue": "a"}], "idempotency_key": "k"}]
ALLOWED["CompleteMany"] = [{"tasks": [{"id": _ID, "delivery": 1}], "claim": None}]
ALLOWED["FailMany"] = [{"tasks": [{"id": _ID, "delivery": 1, "retry_in": 1.5}]}]
ALLOWED["SubmitOnce"] = [*ALLOWED["Submit"], {"idempotency_key": "é"}, {"idempotency_key": None}]


@pytest.mark.parametrize("name", FORBIDDEN)
def test_it_forbids_what_the_server_refuses(name: str) -> None:
    check = validator({"$ref": f"#/components/schemas/{name}"})

    assert [body for body in FORBIDDEN[name] if check.is_valid(body)] == []


@pytest.mark.parametrize("name", ALLOWED)
def test_it_allows_what_the_server_takes(name: str) -> None:
    check = validator({"$ref": f"#/components/schemas/{name}"})

    assert [body for body in ALLOWED[name] if not check.is_valid(body)] == []


async def test_a_real_task_is_as_described(api: Api) -> None:
    task = await api.submit_held(payload=1, metadata={"a": 1}, kind="k", auto_target_state="t", timeout=5)

    validator({"$ref": "#/components/schemas/Task"}).validate(task)


async def test_a_real_problem_is_as_described(api: Api) -> None:
    held = await api.submit_held()
    refusals = [
        await api.try_submit(queue=""),
        await api.try_get("x"),
        await api.try_complete(held["id"], delivery=9),
        await api.client.put("/v1/tasks"),
    ]

    for refusal in refusals:
        validator({"$ref": "#/components/schemas/Problem"}).validate(refusal.json())

"""The API's document (OpenAPI 3.1), made from the routes and the wire structs by msgspec's schema generator."""

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

import msgspec

from corndog import __version__
from corndog.api import examples
from corndog.api.calls import HANDLERS
from corndog.api.keys import FIELD, HEADER
from corndog.api.links import LINKS
from corndog.api.media import Media
from corndog.api.problems import PROBLEM_JSON, Problem
from corndog.api.reading import PREFER
from corndog.api.requests.base import Body
from corndog.api.requests.batches import CompleteItem, FailItem
from corndog.api.routing import Operation
from corndog.domain.limits import CONTROL_PATTERN, NAME_MAX, Terms

Json = dict[str, Any]

_REF = "#/components/schemas/{name}"
_OPERATIONS: list[Operation] = [endpoint.operation for endpoint in HANDLERS if endpoint.operation]
_DESCRIPTION = (
    "A task state manager: it remembers which task is in which state, hands tasks to whoever pulls them, and moves "
    "them between states atomically. A held task is written with its `delivery`, any other with its `current_state`. "
    "Every refusal is a problem with a stable `code`."
)
_MEANINGS = {
    HTTPStatus.BAD_REQUEST: "Malformed or out of range; `field` says where.",
    HTTPStatus.NOT_FOUND: "There is no such task, or it has no such content.",
    HTTPStatus.CONFLICT: "The task is not what the request takes it to be; `task` says what is there.",
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: "A body, payload, result or metadata beyond its limit.",
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: "Neither JSON nor MessagePack, or compressed.",
    HTTPStatus.SERVICE_UNAVAILABLE: "The database can't take this now; try again after `Retry-After` seconds.",
}

_KEY_IN_USE = "The idempotency key was used for another request; nothing has changed."


def document(terms: Terms) -> bytes:
    """Write the document of a server with these limits."""
    schemas = _schemas(terms)
    paths: dict[str, Json] = {}
    for operation in _OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation, schemas)
    whole = {
        "openapi": "3.1.0",
        "info": {
            "title": "corndog",
            "version": __version__,
            "description": _DESCRIPTION,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": [{"name": name} for name in dict.fromkeys(operation.tag for operation in _OPERATIONS)],
        "paths": paths,
        "components": {"schemas": {name: schemas[name] for name in sorted(schemas) if name not in _queries()}},
    }
    return msgspec.json.format(msgspec.json.encode(whole), indent=2) + b"\n"


def _schemas(terms: Terms) -> dict[str, Json]:
    structs: list[type] = [Problem, CompleteItem, FailItem]
    for operation in _OPERATIONS:
        structs += [struct for struct in (operation.takes, operation.gives, operation.query) if struct]
    _, schemas = msgspec.json.schema_components(dict.fromkeys(structs), ref_template=_REF)
    for body in _bodies(Body):
        if body.FORBIDDEN and body.__name__ in schemas:
            schemas[body.__name__]["not"] = {"anyOf": body.FORBIDDEN}
    # Items of a batch are decoded one by one, each as a body of its own.
    for batch, item in {"Batch": "Submit", "CompleteMany": "CompleteItem", "FailMany": "FailItem"}.items():
        schemas[batch]["properties"]["tasks"]["items"] = {"$ref": _REF.format(name=item)}
        # Limits that an operator sets are not part of the types.
        schemas[batch]["properties"]["tasks"]["maxItems"] = terms.items
    schemas["Next"]["properties"]["count"]["maximum"] = terms.items
    schemas["Next"]["properties"]["queues"]["anyOf"][0]["maxItems"] = terms.items
    for complete in ("CompleteAndClaim", "CompleteItem"):
        schemas[complete]["properties"]["next_tasks"]["anyOf"][0]["maxItems"] = terms.items
    schemas["ReviveMany"]["properties"]["ids"]["anyOf"][0]["maxItems"] = terms.items
    schemas["ReviveMany"]["properties"]["limit"]["maximum"] = terms.items
    schemas["Drain"]["properties"]["worker_ids"]["anyOf"][0]["maxItems"] = terms.items
    for query in ("ListQuery", "JobListQuery", "WorkersQuery"):
        limit = schemas[query]["properties"]["limit"]
        limit["maximum"] = min(terms.page, limit.get("maximum", terms.page))
    return schemas


def _bodies(base: type[Body]) -> Iterable[type[Body]]:
    """Give all bodies and what stands in them."""
    for body in base.__subclasses__():
        yield body
        yield from _bodies(body)


def _queries() -> set[str]:
    """Name the structs that are shown as parameters rather than as schemas."""
    return {operation.query.__name__ for operation in _OPERATIONS if operation.query}


def _operation(operation: Operation, schemas: dict[str, Json]) -> Json:
    described: Json = {
        "operationId": operation.id,
        "tags": [operation.tag],
        "summary": operation.summary,
        "description": operation.description,
        "parameters": [
            *_path_parameters(operation),
            *_query_parameters(operation, schemas),
            *_header_parameters(operation),
        ],
        "responses": {str(int(operation.status)): _success(operation)}
        | {str(int(status)): _refusal(status, operation) for status in sorted(operation.refuses)},
    }
    if operation.takes:
        described["requestBody"] = {
            "required": operation.needs_body,
            "content": _content(operation.takes, operation.examples.get("request")),
        }
    elif operation.takes_raw:
        described["requestBody"] = {"required": False, "content": {"*/*": {"schema": {}}}}
    if operation.id == "get_readiness":
        described["responses"]["503"] = {
            "description": "The database does not answer.",
            "content": _content(operation.gives, examples.UNREADY) if operation.gives else {},
        }
    return described


def _path_parameters(operation: Operation) -> Iterable[Json]:
    if "{id}" in operation.path:
        schema = {"type": "string", "format": "uuid"}
        yield {"name": "id", "in": "path", "required": True, "schema": schema, "example": examples.ID}


def _query_parameters(operation: Operation, schemas: dict[str, Json]) -> Iterable[Json]:
    if operation.query is None:
        return
    schema = schemas[operation.query.__name__]
    given = operation.examples.get("query", {})
    for name in operation.query.__struct_fields__:
        # An absent parameter is what null is in a body; the text says it where a value is the default.
        written = schema["properties"][name]
        field = {key: value for key, value in written.items() if value is not None}
        none = None if written.get("default", "") is None else {"const": "null"}
        choices = [none if choice == {"type": "null"} else choice for choice in field.pop("anyOf", [])]
        match [choice for choice in choices if choice]:
            case []:
                pass
            case [choice]:
                field = choice | field
            case several:
                field["anyOf"] = several
        description = field.pop("description", None)
        parameter = {"name": name, "in": "query", "required": name in schema["required"], "schema": field}
        yield (
            parameter
            | ({"description": description} if description else {})
            | ({"example": given[name]} if name in given else {})
        )


def _header_parameters(operation: Operation) -> Iterable[Json]:
    if operation.takes_key:
        schema = {"type": "string", "minLength": 1, "maxLength": NAME_MAX, "pattern": CONTROL_PATTERN}
        description = f"The same request under the same key is done once; instead of `{FIELD}`."
        yield {"name": HEADER, "in": "header", "required": False, "schema": schema, "description": description}
    if operation.takes_preference:
        schema = {"type": "string", "examples": ["return=minimal"]}
        description = "`return=minimal` leaves the tasks out of the results; other preferences are ignored (RFC 7240)."
        yield {"name": PREFER, "in": "header", "required": False, "schema": schema, "description": description}


def _success(operation: Operation) -> Json:
    if operation.gives is None:
        content: Json = {"*/*": {"schema": {}}}
    else:
        content = _content(operation.gives, operation.examples.get("answer"))
    success = {"description": HTTPStatus(operation.status).phrase, "content": content}
    return success | ({"links": LINKS[operation.id]} if operation.id in LINKS else {})


def _refusal(status: HTTPStatus, operation: Operation) -> Json:
    meaning, example = _MEANINGS[status], examples.PROBLEMS[status]
    if operation.takes_key and status is HTTPStatus.CONFLICT:
        meaning, example = _KEY_IN_USE, examples.KEY_IN_USE
    content = {"schema": {"$ref": _REF.format(name=Problem.__name__)}, "example": example}
    refusal: Json = {"description": meaning, "content": {PROBLEM_JSON: content}}
    if status is HTTPStatus.SERVICE_UNAVAILABLE:
        refusal["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}
    return refusal


def _content(struct: type, example: Any) -> Json:  # noqa: ANN401
    schema = {"schema": {"$ref": _REF.format(name=struct.__name__)}}
    return {Media.JSON: schema | ({} if example is None else {"example": example}), Media.MSGPACK: schema}

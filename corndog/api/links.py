"""What leads from one call to the next: the links of the API's document, by the operation that they start at."""

from typing import Any

Link = dict[str, Any]

_TASK = "$response.body#/task"
_FIRST = "$response.body#/tasks/0"
_FIRST_RESULT = "$response.body#/results/0"
_FILTERS = (
    "queue",
    "current_state",
    "phase",
    "kind",
    "worker_id",
    "job_id",
    "submitted_after",
    "submitted_before",
    "archived",
)


def _reads(task: str, *operations: str) -> dict[str, Link]:
    return {operation: {"operationId": operation, "parameters": {"id": f"{task}/id"}} for operation in operations}


def _writes(task: str, delivery: str | None, *operations: str) -> dict[str, Link]:
    """Lead to writes of a task, which say what they take it to be."""
    match = {"queue": f"{task}/queue", "current_state": f"{task}/current_state", "delivery": delivery}
    return {operation: link | {"requestBody": match} for operation, link in _reads(task, *operations).items()}


def _ends(task: str, *operations: str, **match: str) -> dict[str, Link]:
    """Lead to calls that end several tasks, with this one."""
    body = {"tasks": [{"id": f"{task}/id"} | match]}
    return {operation: {"operationId": operation, "requestBody": body} for operation in operations}


_OF_UNHELD = _reads(_TASK, "get_task") | _writes(_TASK, None, "update_task", "complete_task", "cancel_task")
_CLAIM: dict[str, Link] = {
    "claim_tasks": {
        "operationId": "claim_tasks",
        "requestBody": {"queue": f"{_TASK}/queue", "current_state": f"{_TASK}/current_state"},
    },
    "get_task_state_counts": {"operationId": "get_task_state_counts", "parameters": {"queue": f"{_TASK}/queue"}},
}
_PAYLOAD = _reads(_TASK, "get_payload")

LINKS: dict[str, dict[str, Link]] = {
    "submit_task": _OF_UNHELD | _CLAIM,
    "submit_raw_task": _OF_UNHELD | _CLAIM | _PAYLOAD,
    "submit_tasks": _reads(_FIRST_RESULT, "get_task")
    | _ends(_FIRST_RESULT, "complete_tasks", current_state=f"{_FIRST_RESULT}/task/current_state"),
    "claim_tasks": _reads(_FIRST, "get_task", "get_payload")
    | _writes(_FIRST, f"{_FIRST}/delivery", "update_task", "complete_task", "release_task", "fail_task", "cancel_task")
    | _ends(_FIRST, "complete_tasks", "fail_tasks", delivery=f"{_FIRST}/delivery")
    | {
        "clean_up_timed_out": {"operationId": "clean_up_timed_out", "requestBody": {"queue": f"{_FIRST}/queue"}},
        "heartbeat_tasks": {
            "operationId": "heartbeat_tasks",
            "requestBody": {"deliveries": [{"id": f"{_FIRST}/id", "delivery": f"{_FIRST}/delivery"}]},
        },
    },
    "get_task": _PAYLOAD | _reads(_TASK, "get_result"),
    "list_tasks": _reads(_FIRST, "get_task")
    | {
        "next_page": {
            "operationId": "list_tasks",
            "parameters": {name: f"$request.query.{name}" for name in _FILTERS}
            | {"cursor": "$response.body#/next_cursor"},
        }
    },
    "list_workers": {
        "next_page": {
            "operationId": "list_workers",
            "parameters": {"active_since": "$request.query.active_since", "cursor": "$response.body#/next_cursor"},
        },
        "drain_workers": {
            "operationId": "drain_workers",
            "requestBody": {"worker_ids": ["$response.body#/workers/0/worker_id"]},
        },
    },
    "update_task": _OF_UNHELD | _CLAIM,
    "complete_task": _reads(_TASK, "get_task", "get_result")
    | {"get_next_task": {"operationId": "get_task", "parameters": {"id": "$response.body#/next_tasks/0"}}},
    "complete_tasks": _reads(_FIRST_RESULT, "get_task", "get_result"),
    "fail_tasks": _reads(_FIRST_RESULT, "get_task", "get_runs", "revive_task"),
    "release_task": _OF_UNHELD | _CLAIM,
    "fail_task": _reads(_TASK, "get_runs", "revive_task"),
    "cancel_task": _reads(_TASK, "get_task", "revive_task"),
    "revive_task": _OF_UNHELD | _CLAIM | _reads(_TASK, "get_runs"),
    "revive_tasks": _reads(_FIRST_RESULT, "get_task"),
}

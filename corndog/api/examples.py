"""The examples of the API's document: for each call a body, or a query, and an answer."""

from http import HTTPStatus
from typing import Any

from corndog.api.problems import title

ID = "0198f3c2-6e0a-7b34-9c1d-2f4e5a6b7c8d"
_NEXT_ID = "0198f3c2-7b21-7d05-8e4f-1a2b3c4d5e6f"

_READY: dict[str, Any] = {
    "id": ID,
    "queue": "email",
    "kind": None,
    "current_state": "submitted",
    "auto_target_state": "submitted-working",
    "phase": "ready",
    "home_state": "submitted",
    "home_target": "submitted-working",
    "priority": 0,
    "submit_time": "2030-01-31T08:00:00.000000Z",
    "update_time": "2030-01-31T08:00:00.000000Z",
    "timeout": None,
    "work_timeout": 60.0,
    "due_time": None,
    "delivery": 0,
    "held_by": None,
    "claim_time": None,
    "attempt": 0,
    "max_attempts": 3,
    "backoff": 5.0,
    "backoff_max": 3600.0,
    "backoff_multiplier": 2.0,
    "jitter": "full",
    "lost": 0,
    "max_lost": None,
    "job_id": None,
    "name": None,
    "waiting_on": 0,
    "last_error": None,
    "metadata": None,
    "canceled_by": None,
}
_HELD = _READY | {
    "current_state": "submitted-working",
    "auto_target_state": "submitted",
    "phase": "held",
    "timeout": 60.0,
    "due_time": "2030-01-31T08:01:30.000000Z",
    "delivery": 1,
    "held_by": "mailer-1",
    "claim_time": "2030-01-31T08:00:30.000000Z",
}
_PAYLOAD = {"payload": {"to": "ada@example.com"}, "content_type": "application/json"}
_MOVED = _READY | {
    "current_state": "sent",
    "auto_target_state": "sent-working",
    "home_state": "sent",
    "home_target": "sent-working",
    "delivery": 1,
}


def _ended(phase: str) -> dict[str, Any]:
    ended = _HELD if phase == "completed" else _READY
    return ended | {
        "current_state": phase,
        "auto_target_state": phase,
        "phase": phase,
        "timeout": None,
        "due_time": None,
        "canceled_by": "request" if phase == "canceled" else None,
    }


_RETRYING = _READY | {
    "current_state": "submitted-retrying",
    "auto_target_state": "submitted",
    "phase": "parked",
    "due_time": "2030-01-31T08:01:33.000000Z",
    "delivery": 1,
    "attempt": 1,
    "last_error": "no route to host",
}
_REVIVED = _READY | {"delivery": 3}

SUBMIT = {
    "request": {"queue": "email", "work_timeout": 60, "payload": {"to": "ada@example.com"}},
    "answer": {"id": ID, "task": _READY, "replayed": False},
}
SUBMIT_RAW = {"query": {"queue": "email"}, "answer": SUBMIT["answer"]}
BATCH = {
    "request": {"tasks": [SUBMIT["request"], {"queue": "email", "work_timeout": 60}]},
    "query": {"atomic": True},
    "answer": {
        "results": [
            {"status": 201, "id": ID, "task": _READY},
            {"status": 201, "id": _NEXT_ID, "task": _READY | {"id": _NEXT_ID}},
        ],
        "failed": 0,
        "replayed": False,
    },
}
NEXT = {
    "request": {"queue": "email", "current_state": "submitted", "worker_id": "mailer-1"},
    "answer": {"tasks": [_HELD | _PAYLOAD]},
}
HEARTBEAT = {
    "request": {
        "worker_id": "mailer-1",
        "deliveries": [{"id": _HELD["id"], "delivery": 1}],
        "metadata": {"version": "1.4.2"},
    },
    "answer": {
        "deliveries": [
            {"id": _HELD["id"], "delivery": 1, "status": "held", "lease_expires": _HELD["due_time"]},
        ],
        "drain": False,
    },
}
WORKERS = {
    "query": {"active_since": "2m"},
    "answer": {
        "workers": [
            {
                "worker_id": "mailer-1",
                "first_seen": "2030-01-31T07:00:00.000000Z",
                "last_seen": "2030-01-31T08:00:40.000000Z",
                "active": True,
                "draining": False,
                "metadata": {"version": "1.4.2"},
                "held": 1,
                "holds": [
                    {name: _HELD[name] for name in ("id", "queue", "current_state", "kind", "delivery")}
                    | {"claim_time": _HELD["claim_time"], "due_time": _HELD["due_time"], "overdue": False}
                ],
            }
        ],
        "next_cursor": None,
    },
}
DRAIN = {"request": {"worker_ids": ["mailer-1"]}, "answer": {"workers": ["mailer-1"], "unknown": []}}
GET = {"query": {"include": "payload"}, "answer": {"task": _READY | _PAYLOAD}}
LIST = {"query": {"queue": "email", "limit": 1}, "answer": {"tasks": [_READY], "next_cursor": None}}
UPDATE = {"request": {"delivery": 1, "new_state": "sent"}, "answer": {"task": _MOVED, "replayed": False}}
COMPLETE = {
    "request": {"delivery": 1, "result": {"sent": True}, "next_task": {"queue": "report"}},
    "answer": {"task": _ended("completed"), "next_tasks": [_NEXT_ID], "replayed": False},
}
FAIL = {
    "request": {"delivery": 1, "error": "no route to host"},
    "answer": {"task": _RETRYING, "replayed": False},
}
COMPLETE_MANY = {
    "request": {
        "tasks": [{"id": ID, "delivery": 1}, {"id": _NEXT_ID, "delivery": 1, "result": {"sent": True}}],
        "claim": {"queue": "email", "count": 2},
    },
    "query": {"atomic": False},
    "answer": {
        "results": [
            {"status": 200, "id": ID, "task": _ended("completed"), "replayed": False, "next_tasks": []},
            {
                "status": 200,
                "id": _NEXT_ID,
                "task": _ended("completed") | {"id": _NEXT_ID},
                "replayed": False,
                "next_tasks": [],
            },
        ],
        "failed": 0,
        "claimed": {"tasks": [_HELD | _PAYLOAD]},
    },
}
FAIL_MANY = {
    "request": {"tasks": [{"id": ID, "delivery": 1, "error": "no route to host"}]},
    "query": {"atomic": False},
    "answer": {"results": [{"status": 200, "id": ID, "task": _RETRYING, "replayed": False}], "failed": 0},
}
REVIVE: dict[str, Any] = {"request": {}, "answer": {"task": _REVIVED, "replayed": False}}
REVIVE_MANY = {
    "request": {"filter": {"queue": "email"}},
    "answer": {
        "results": [{"id": ID, "status": 200, "task": _REVIVED, "problem": None}],
        "failed": 0,
        "more": False,
    },
}
RUNS = {
    "answer": {
        "runs": [
            {
                "delivery": 1,
                "worker_id": "mailer-1",
                "claim_time": _HELD["claim_time"],
                "end_time": "2030-01-31T08:00:33.000000Z",
                "outcome": "failed",
                "error": "no route to host",
            }
        ]
    }
}
RELEASE = {"request": {"delivery": 1}, "answer": {"task": _READY | {"delivery": 1}, "replayed": False}}
CANCEL = {"request": {"queue": "email"}, "answer": {"task": _ended("canceled"), "replayed": False}}
CLEAN_UP = {"request": {"queue": "email"}, "answer": {"timed_out": 2}}
QUEUES = {"answer": {"queues": ["email", "report"], "total_task_count": 12}}
QUEUE_COUNTS = {"answer": {"queue_counts": {"email": 9, "report": 3}, "total_task_count": 12}}
STATE_COUNTS = {
    "query": {"queue": "email"},
    "answer": {"queue": "email", "count": 9, "state_counts": {"submitted": 7, "submitted-working": 2}},
}
QUEUE_AND_STATE_COUNTS = {"answer": {"queue_and_state_counts": {"email": STATE_COUNTS["answer"]}}}
HEALTH = {"answer": {"status": "ok"}}
READINESS = {"answer": {"status": "ok", "checks": {"database": "ok", "redis": "ok"}, "warnings": []}}
UNREADY = {"status": "unavailable", "checks": {"database": "unavailable", "redis": "ok"}, "warnings": []}


_JOB_ID = "0198f3c2-6dff-7c11-8a2b-3c4d5e6f7a8b"
_JOB = {
    "id": _JOB_ID,
    "name": "report",
    "status": "pending",
    "submit_time": _READY["submit_time"],
    "update_time": _READY["submit_time"],
    "end_time": None,
    "task_count": 2,
    "metadata": None,
}
_SPLIT = _READY | {"job_id": _JOB_ID, "name": "split", "depends_on": [], "on_parent_failure": "cancel"}
_MERGE = _SPLIT | {
    "id": _NEXT_ID,
    "name": "merge",
    "current_state": "submitted-blocked",
    "auto_target_state": "submitted",
    "phase": "parked",
    "waiting_on": 1,
    "depends_on": [{"name": "split", "done": False}],
}
_CANCELED_JOB = _JOB | {"status": "canceled", "end_time": "2030-01-31T08:05:00.000000Z"}
SUBMIT_JOB = {
    "request": {
        "name": "report",
        "defaults": {"queue": "email"},
        "tasks": [{"name": "split", "payload": {"parts": 2}}, {"name": "merge", "depends_on": ["split"]}],
    },
    "answer": {"id": _JOB_ID, "job": _JOB, "tasks": {"split": ID, "merge": _NEXT_ID}, "replayed": False},
}
LIST_JOBS = {"query": {"status": "pending", "limit": 1}, "answer": {"jobs": [_JOB], "next_cursor": None}}
GET_JOB = {"answer": {"job": _JOB, "phase_counts": {"ready": 1, "parked": 1}, "tasks": [_SPLIT, _MERGE]}}
CANCEL_JOB: dict[str, Any] = {"request": {}, "answer": {"job": _CANCELED_JOB, "replayed": False}}
REVIVE_JOB: dict[str, Any] = {"request": {}, "answer": {"job": _JOB, "replayed": False}}


def _problem(status: HTTPStatus, code: str, detail: str, **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {
        "type": f"urn:corndog:problem:{code}",
        "title": title(status),
        "status": int(status),
        "code": code,
        "detail": detail,
        **more,
    }


_PRESENT = {name: _READY[name] for name in ("id", "queue", "current_state", "phase")} | {"delivery": 1}

PROBLEMS = {
    problem["status"]: problem
    for problem in (
        _problem(HTTPStatus.BAD_REQUEST, "invalid", "Expected `int` <= 2147483647", field="priority"),
        _problem(HTTPStatus.NOT_FOUND, "task_not_found", f"there is no task {ID}"),
        _problem(HTTPStatus.CONFLICT, "stale_delivery", "delivery 1 does not hold the task", task=_PRESENT),
        _problem(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
            "too_large",
            "16777217 bytes, at most 16777216 are allowed",
            field="payload",
        ),
        _problem(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            "unsupported_media_type",
            "Content-Type 'text/plain' is not supported: use application/json or application/msgpack",
            field="Content-Type",
        ),
        _problem(HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", "the database can't take this now; try again"),
    )
}
KEY_IN_USE = _problem(HTTPStatus.CONFLICT, "key_in_use", "this idempotency key was used for another request")

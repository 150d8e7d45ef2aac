"""The few corndog calls that the pipeline needs, over httpx."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
from tenacity import retry, retry_if_exception_type, stop_after_delay, wait_random_exponential

Task = dict[str, Any]

CONFLICT = 409
NOT_FOUND = 404
TOO_MANY_REQUESTS = 429
SERVER_ERROR = 500


class RefusedError(Exception):
    """The server answered with a problem; the message is its explanation."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        try:
            problem = response.json()
            super().__init__(f"{problem['status']} {problem['code']}: {problem['detail']}")
        except (ValueError, KeyError, TypeError):
            super().__init__(f"{self.status}: {response.text[:200]!r}")

    @property
    def no_longer_ours(self) -> bool:
        """Whether another delivery, or the end of the task, has overtaken this one."""
        return self.status in {CONFLICT, NOT_FOUND}


class AwayError(Exception):
    """The server can't answer at present."""


class Corndog:
    """A corndog server; a call without an answer is repeated for up to a minute.

    Repeating a write of a held task is safe: the server recognises its delivery. A repeated submit may
    leave a second task behind, so a submitter should go by the ids it was given.
    """

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    async def submit(self, queue: str, state: str, payload: object, work_timeout: float) -> str:
        """Submit a task and return its id."""
        body = {"queue": queue, "current_state": state, "payload": payload, "work_timeout": work_timeout}
        answer = await self._call("POST", "/v1/tasks", body)
        return str(answer["task"]["id"])

    async def claim(self, queue: str, state: str, worker_id: str) -> Task | None:
        """Take the next task, if there is one."""
        body = {"queue": queue, "current_state": state, "worker_id": worker_id}
        tasks: list[Task] = (await self._call("POST", "/v1/tasks/next", body))["tasks"]
        return tasks[0] if tasks else None

    async def move(self, task: Task, new_state: str, payload: object) -> None:
        """Hand a held task on to a new state with a new payload."""
        body = {
            "delivery": task["delivery"],
            "new_state": new_state,
            "priority": task["priority"],  # an update that leaves it out sets it to 0
            "payload": payload,
        }
        await self._call("PATCH", f"/v1/tasks/{task['id']}", body)

    async def complete(self, task: Task, result: object) -> None:
        """Complete a held task."""
        body = {"delivery": task["delivery"], "result": result}
        await self._call("POST", f"/v1/tasks/{task['id']}/complete", body)

    async def clean_up(self, queue: str) -> None:
        """Bring back the queue's tasks whose holders have run out of time."""
        await self._call("POST", "/v1/cleanup-timed-out", {"queue": queue})

    async def state_counts(self, queue: str) -> dict[str, int]:
        """Count the queue's live tasks by state."""
        answer = await self._call("GET", "/v1/state-counts", params={"queue": queue})
        counts: dict[str, int] = answer["state_counts"]
        return counts

    async def archived(self, queue: str, page_size: int = 500) -> AsyncIterator[Task]:
        """Walk through the queue's finished tasks with their results, page by page."""
        params = {"queue": queue, "archived": "true", "include": "result", "limit": str(page_size)}
        while True:
            page = await self._call("GET", "/v1/tasks", params=params)
            for task in page["tasks"]:
                yield task
            if page["next_cursor"] is None:
                return
            params["cursor"] = page["next_cursor"]

    @retry(
        retry=retry_if_exception_type((httpx.TransportError, AwayError)),
        wait=wait_random_exponential(multiplier=0.2, max=5),
        stop=stop_after_delay(60),
        reraise=True,
    )
    async def _call(
        self, method: str, path: str, body: object = None, params: dict[str, str] | None = None
    ) -> dict[str, Any]:
        response = await self._http.request(method, path, json=body, params=params)
        if response.status_code >= SERVER_ERROR or response.status_code == TOO_MANY_REQUESTS:
            raise AwayError(str(RefusedError(response)))
        if response.is_error:
            raise RefusedError(response)
        answer: dict[str, Any] = response.json()
        return answer

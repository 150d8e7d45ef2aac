"""Clients that leave: no fault of the server's, and nothing that one would be woken up for."""

import logging
from typing import Any

import pytest

from corndog.app import create_app
from corndog.settings import Settings

# Connected to when it is first used, which it never is.
NOWHERE = Settings(database_url="postgresql+asyncpg://127.0.0.1/nowhere", scheduler=False)


@pytest.mark.parametrize("path", ["/v1/tasks", "/v1/tasks/raw", "/v1/tasks/next", "/v1/cleanup-timed-out"])
async def test_a_client_that_leaves_within_its_body_is_no_error(path: str, caplog: pytest.LogCaptureFixture) -> None:
    app = create_app(NOWHERE)
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": b"",
        "headers": [(b"content-type", b"application/json"), (b"content-length", b"100")],
        "http_version": "1.1",
        "scheme": "http",
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 2),
    }
    incoming = iter([{"type": "http.request", "body": b'{"queue":', "more_body": True}, {"type": "http.disconnect"}])
    sent: list[Any] = []

    async def receive() -> Any:  # noqa: ANN401
        return next(incoming)

    async def send(message: Any) -> None:  # noqa: ANN401
        sent.append(message)

    await app(scope, receive, send)  # type: ignore[arg-type]

    assert sent[0]["status"] < 500
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []

"""Values that no call takes: each a problem that names field and rule, with nothing changed. Trials S44, S45, S49."""

import math
from typing import Any

import msgspec
import pytest

from tests.api.calls import MSGPACK, Api, done, refused, seconds_between

NAN, INF = math.nan, math.inf

# Names ------------------------------------------------------------------------

CONTROLS = ["\u0000", "\u0001", "\t", "\n", "\r", "\u001f", "\u007f", "\u0080", "\u0085", "\u009f"]
ODD_NAMES = [
    "a/b+c %2F?#é😀",
    " ",
    ".",
    "..",
    "%00",
    "null",
    "true",
    "\u200b",
    "\u2028",
    "\u202e",
    "\ufeff",
    "\uffff",
    "\U0010ffff",
    "'; DROP TABLE tasks; --",
    "{}",
    "\\u0000",
    "q" * 240,
    "é" * 240,
    "😀" * 240,
    "e\u0301" * 120,
]


@pytest.mark.parametrize("name", ODD_NAMES)
async def test_odd_names_are_kept_as_they_are(api: Api, name: str) -> None:
    queue = f"{name}{api.queue}"[:255]

    task = await api.submit(queue=queue, kind=name, current_state=name, auto_target_state=f"{name[1:]}!")

    assert (task["queue"], task["kind"], task["current_state"]) == (queue, name, name)
    [held] = await api.claim(queue=queue, current_state=name, worker_id=name, override_current_state=name)
    assert (held["held_by"], held["current_state"]) == (name, name)
    for query in ({"worker_id": name}, {"current_state": name}, {"kind": name}):
        assert [found["id"] for found in await api.list(queue=queue, **query)] == [task["id"]]
    moved = await api.update(task["id"], queue=queue, current_state=name, delivery=1, new_state=f"{name[1:]}x")
    assert moved["task"]["current_state"] == f"{name[1:]}x"


@pytest.mark.parametrize("length", [1, 255])
async def test_names_of_any_allowed_length_work(api: Api, length: int) -> None:
    name = ("😀" + api.queue * 30)[:length] if length > 1 else "\u1234"

    task = await api.submit(queue=name, kind=name)
    [held] = await api.claim(queue=name, worker_id=name)

    assert (held["id"], held["kind"], held["held_by"]) == (task["id"], name, name)
    await api.cancel(task["id"])


SUBMITTED = ["queue", "kind", "current_state", "auto_target_state"]


@pytest.mark.parametrize("field", SUBMITTED)
@pytest.mark.parametrize("control", CONTROLS)
async def test_control_characters_are_refused_wherever_they_stand(api: Api, field: str, control: str) -> None:
    for name in (control, f"{control}a", f"a{control}", f"a{control}b"):
        problem = await api.refuses(await api.try_submit(**{field: name}), 400, "invalid", field)
        assert f"U+{ord(control):04X}" in problem["detail"]


@pytest.mark.parametrize("field", SUBMITTED)
@pytest.mark.parametrize("length", [0, 241, 256, 3000])
async def test_lengths_out_of_range_are_refused(api: Api, field: str, length: int) -> None:
    if length == 241 and field in {"queue", "kind"}:
        assert (await api.submit(**{field: "n" * length}))[field] == "n" * length
        return

    problem = await api.refuses(await api.try_submit(**{field: "n" * length}), 400, "invalid", field)

    limit = 1 if not length else 255 if field in {"queue", "kind"} else 240
    assert str(limit) in problem["detail"]


@pytest.mark.parametrize("value", [1, 1.5, True, [], {}, ["a"]])
@pytest.mark.parametrize("field", SUBMITTED)
async def test_names_that_are_no_text_are_refused(api: Api, field: str, value: Any) -> None:  # noqa: ANN401
    await api.refuses(await api.try_submit(**{field: value}), 400, "invalid", field)


@pytest.mark.parametrize("field", ["queue", "current_state"])
async def test_names_that_may_not_be_null(api: Api, field: str) -> None:
    await api.refuses(await api.try_submit(**{field: None}), 400, "invalid", field)


@pytest.mark.parametrize("name", [b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xc0\x80", b"a\x80"])
@pytest.mark.parametrize("field", SUBMITTED)
async def test_names_that_are_not_utf_8_are_refused(api: Api, field: str, name: bytes) -> None:
    as_json = b'{"%s":"%s"}' % (field.encode(), name)
    packed = b"\x81" + msgspec.msgpack.encode(field) + bytes([0xA0 + len(name)]) + name

    await api.refuses(await api.send("POST", "/v1/tasks", as_json), 400, "malformed_body")
    await api.refuses(await api.send("POST", "/v1/tasks", packed, MSGPACK), 400, "malformed_body")
    escaped = "".join(f"%{byte:02X}" for byte in name)
    refused(await api.client.post(f"/v1/tasks/raw?{field}={escaped}"), 400, "invalid", field)


@pytest.mark.parametrize("escape", [r"\ud800", r"\udfff", r"\ud800\ud800", r"\ude00\ud83d", r"a\ud83d"])
@pytest.mark.parametrize("field", SUBMITTED)
async def test_names_with_lone_surrogates_are_refused(api: Api, field: str, escape: str) -> None:
    await api.refuses(await api.send("POST", "/v1/tasks", f'{{"{field}":"{escape}"}}'), 400, "malformed_body")


# Numbers ----------------------------------------------------------------------

DURATIONS = ["delay", "timeout", "work_timeout", "backoff", "backoff_max"]
NO_DURATIONS = [
    "-1",
    "-0.000001",
    "-1e-300",
    "-2147483648",
    "0.0000001",
    "1e-7",
    "1.0000001",
    "0.1234567",
    "5e-324",
    "315360000.000001",
    "315360001",
    "2147483648",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "1e18",
    "1e308",
    "1" + "0" * 100,
    '"5"',
    '"5s"',
    '"NaN"',
    '""',
    "true",
    "[]",
    "[5]",
    "{}",
]


@pytest.mark.parametrize("text", NO_DURATIONS)
@pytest.mark.parametrize("field", DURATIONS)
async def test_durations_out_of_range_are_refused(api: Api, field: str, text: str) -> None:
    body = f'{{"queue":"{api.queue}","auto_target_state":"t","{field}":{text}}}'

    await api.refuses(await api.send("POST", "/v1/tasks", body), 400, "invalid", field)


@pytest.mark.parametrize("text", ["1e999", "1e400", "1" + "0" * 400, "1" + "0" * 5000])
@pytest.mark.parametrize("field", [*DURATIONS, "priority", "max_attempts"])
async def test_numbers_that_no_machine_has_are_refused(api: Api, field: str, text: str) -> None:
    body = f'{{"queue":"{api.queue}","{field}":{text}}}'

    await api.refuses(await api.send("POST", "/v1/tasks", body), 400, "invalid", field)


@pytest.mark.parametrize("value", [NAN, INF, -INF])
@pytest.mark.parametrize("field", [*DURATIONS, "backoff_multiplier", "priority", "max_attempts", "max_lost"])
async def test_numbers_that_are_none_are_refused(api: Api, field: str, value: float) -> None:
    literal = {NAN: "NaN", INF: "Infinity", -INF: "-Infinity"}[value]
    packed = msgspec.msgpack.encode({"queue": api.queue, "auto_target_state": "t", field: value})

    await api.refuses(await api.send("POST", "/v1/tasks", f'{{"{field}":{literal}}}'), 400, "malformed_body")
    await api.refuses(await api.send("POST", "/v1/tasks", packed, MSGPACK), 400, "invalid", field)


@pytest.mark.parametrize("value", [NAN, INF, -INF, -1.0, 1e18, 0.1234567])
async def test_bad_durations_of_other_calls_are_refused_in_messagepack_too(api: Api, value: float) -> None:
    held = await api.submit_held()
    path = f"/v1/tasks/{held['id']}"

    for method, to, field in (
        ("PATCH", path, "timeout"),
        ("POST", f"{path}/release", "delay"),
        ("POST", "/v1/tasks/next", "override_timeout"),
    ):
        match = {"queue": api.queue} if "next" in to else {"delivery": 1}
        packed = msgspec.msgpack.encode(match | {field: value})
        await api.refuses_to_change(held, await api.send(method, to, packed, MSGPACK), 400, "invalid", field)


@pytest.mark.parametrize("seconds", [0.000001, 0.1, 0.123456, 1, 2592000, 86400.1, 315359999.999999, 315360000])
async def test_durations_are_honoured_to_the_microsecond(api: Api, seconds: float) -> None:
    micros = round(seconds * 1_000_000)
    # Time is exact in the database; a difference of two of its times is exact in microseconds here.
    task = await api.submit(work_timeout=seconds, auto_target_state="t", timeout=seconds, backoff=seconds)
    [held] = await api.claim()

    assert (task["work_timeout"], task["timeout"], task["backoff"]) == (seconds, seconds, seconds)
    assert round(seconds_between(task["update_time"], task["due_time"]) * 1_000_000) == micros
    assert round(seconds_between(held["claim_time"], held["due_time"]) * 1_000_000) == micros


@pytest.mark.parametrize("text", ["0", "0.0", "-0", "-0.0", "0e5"])
async def test_a_delay_of_zero_is_ready(api: Api, text: str) -> None:
    body = f'{{"queue":"{api.queue}","delay":{text},"timeout":{text},"work_timeout":{text}}}'

    task = done(await api.send("POST", "/v1/tasks", body), 201)["task"]

    assert (task["phase"], task["timeout"], task["work_timeout"]) == ("ready", None, 0.0)


PRIORITIES = [2**31 - 1, 1, 0, -1, -(2**31)]
NO_PRIORITIES = [2**31, -(2**31) - 1, 2**32, 2**63 - 1, 2**63, 2**64, -(2**63), -(2**63) - 1, 10**100]
NO_INTEGERS = ["1.5", "1.0", "1e3", "null", "true", '"1"', "[]", "{}"]


async def test_extreme_priorities_give_the_right_order(api: Api) -> None:
    tasks = {priority: (await api.submit(priority=priority))["id"] for priority in reversed(PRIORITIES)}
    updated = await api.submit(priority=5)
    await api.update(updated["id"], current_state="submitted", priority=2**31 - 1)

    claimed = [task["id"] for task in await api.claim(count=10)]

    assert claimed == [tasks[2**31 - 1], updated["id"], *(tasks[priority] for priority in PRIORITIES[1:])]


@pytest.mark.parametrize("text", [*map(str, NO_PRIORITIES), *NO_INTEGERS])
async def test_other_priorities_are_refused(api: Api, text: str) -> None:
    refusal = await api.send("POST", "/v1/tasks", f'{{"queue":"{api.queue}","priority":{text}}}')
    await api.refuses(refusal, 400, "invalid", "priority")

    held = await api.submit_held(priority=3)
    update = await api.send("PATCH", f"/v1/tasks/{held['id']}", f'{{"delivery":1,"priority":{text}}}')
    await api.refuses_to_change(held, update, 400, "invalid", "priority")


@pytest.mark.parametrize("field", ["max_attempts", "max_lost"])
@pytest.mark.parametrize("text", ["0", "-1", "2147483648", "9223372036854775808", "1.5", "true", '"1"', "[]"])
async def test_budgets_out_of_range_are_refused(api: Api, field: str, text: str) -> None:
    refusal = await api.send("POST", "/v1/tasks", f'{{"queue":"{api.queue}","{field}":{text}}}')

    await api.refuses(refusal, 400, "invalid", field)


@pytest.mark.parametrize("field", ["max_attempts", "max_lost"])
async def test_budgets_may_be_as_large_as_an_int32_or_none(api: Api, field: str) -> None:
    assert (await api.submit(**{field: 2**31 - 1}))[field] == 2**31 - 1
    assert (await api.submit(**{field: None}))[field] is None


@pytest.mark.parametrize("text", ["0", "0.999", "1000.1", "-1", "1e9", "null", '"2"', "true"])
async def test_multipliers_out_of_range_are_refused(api: Api, text: str) -> None:
    refusal = await api.send("POST", "/v1/tasks", f'{{"queue":"{api.queue}","backoff_multiplier":{text}}}')

    await api.refuses(refusal, 400, "invalid", "backoff_multiplier")


@pytest.mark.parametrize("text", ['"equal"', '"FULL"', "null", "1", '""'])
async def test_another_jitter_is_refused(api: Api, text: str) -> None:
    refusal = await api.send("POST", "/v1/tasks", f'{{"queue":"{api.queue}","jitter":{text}}}')

    await api.refuses(refusal, 400, "invalid", "jitter")


# Media types ------------------------------------------------------------------


@pytest.mark.parametrize(
    "media_type",
    [
        "",
        " ",
        "text",
        "text/",
        "/plain",
        "text/plain\n",
        "text/plain\r\nX-Injected: 1",
        "text/plain; a=\u0000",
        "text/plain; a=é",
        "tëxt/plain",
        "text/plain,text/html",
        "text plain/x",
        "text/plain;\ta=b",
        "t" * 250 + "/plain",
        "text/plain; a=" + "b" * 255,
        1,
        [],
    ],
)
async def test_what_could_be_no_header_is_refused(api: Api, media_type: object) -> None:
    given = await api.try_submit(payload=1, content_type=media_type)
    await api.refuses(given, 400, "invalid", "content_type")

    held = await api.submit_held()
    result = await api.try_complete(held["id"], delivery=1, result=1, result_content_type=media_type)
    await api.refuses_to_change(held, result, 400, "invalid", "result_content_type")


@pytest.mark.parametrize("media_type", ["text", "text/", "", "text/plain, a/b", "text/plain; a=\xe9", "t" * 256 + "/x"])
async def test_a_raw_submit_refuses_them_in_its_header(api: Api, media_type: str) -> None:
    refusal = await api.client.post(
        "/v1/tasks/raw",
        params={"queue": api.queue},
        content=b"x",
        headers=[(b"Content-Type", media_type.encode("latin-1"))],
    )

    await api.refuses(refusal, 400, "invalid", "Content-Type")

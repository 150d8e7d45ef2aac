"""The settings: from the environment, to it, and their table."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from corndog.settings import PREFIX, Settings, SettingsError, describe

settings = st.builds(
    Settings,
    database_url=st.sampled_from(["", "postgresql+asyncpg://u:p@h/d?host=/tmp", "null", "true", "1"]),
    redis_url=st.sampled_from(["", "redis://h:1/0"]),
    isolation=st.sampled_from(["read committed", "serializable"]),
    pool_size=st.integers(1, 1000),
    pool_timeout=st.floats(0, 300, exclude_min=True),
    max_payload_bytes=st.none() | st.integers(0),
    cleanup_interval=st.floats(0, 3600),
    scheduler=st.booleans(),
    log_level=st.sampled_from(["debug", "info"]),
)


@given(settings)
def test_settings_survive_the_environment(given_settings: Settings) -> None:
    assert Settings.from_env(given_settings.to_env()) == given_settings


def test_defaults_need_no_environment() -> None:
    assert Settings.from_env({}) == Settings()
    assert Settings().to_env() == {}


def test_variables_of_others_and_of_tests_are_ignored() -> None:
    assert Settings.from_env({"PATH": "/", "CORNDOG_TEST_COCKROACH_URL": "x", "corndog_pool_size": "7"}) == Settings()


def test_the_environment_of_the_process_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CORNDOG_POOL_SIZE", "7")
    assert Settings.from_env().pool_size == 7


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("POOL_SIZE", "1", 1),
        ("POOL_SIZE", "1000", 1000),
        ("SCHEDULER", "false", False),
        ("SCHEDULER", "1", True),
        ("CLEANUP_INTERVAL", "0", 0.0),
        ("CLEANUP_INTERVAL", "1", 1.0),
        ("MAX_PAYLOAD_BYTES", "0", 0),
        ("DEFAULT_WORK_TIMEOUT", "315360000", 315_360_000.0),
        ("RETENTION_FAILED", "0", 0.0),
        ("RETENTION_COMPLETED", "315360000", 315_360_000.0),
        ("RETENTION_INTERVAL", "0.05", 0.05),
    ],
)
def test_allowed_values(name: str, value: str, expected: object) -> None:
    assert getattr(Settings.from_env({PREFIX + name: value}), name.lower()) == expected


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("POOL_SIZE", "0"),
        ("POOL_SIZE", "1001"),
        ("POOL_SIZE", "ten"),
        ("POOL_SIZE", "1.5"),
        ("POOL_SIZE", ""),
        ("POOL_TIMEOUT", "0"),
        ("POOL_TIMEOUT", "nan"),
        ("CLEANUP_INTERVAL", "-1"),
        ("CLEANUP_INTERVAL", "nan"),
        ("CLEANUP_INTERVAL", "inf"),
        ("DEFAULT_WORK_TIMEOUT", "315360001"),
        ("RETENTION_CANCELED", "-1"),
        ("RETENTION_WORKERS", "315360001"),
        ("RETENTION_INTERVAL", "0"),
        ("MAX_PAYLOAD_BYTES", "-1"),
        ("ISOLATION", "repeatable read"),
        ("SCHEDULER", "maybe"),
        ("LOG_LEVEL", "INFO "),
        ("POOLSIZE", "1"),
        ("", "1"),
    ],
)
def test_refused_values_are_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=f"^{PREFIX}{name}( is not a setting|: )"):
        Settings.from_env({PREFIX + name: value})


def test_the_table_has_every_setting_with_its_default() -> None:
    table = describe()
    assert [variable for variable, _, _ in table] == [f"{PREFIX}{name.upper()}" for name in Settings.__struct_fields__]
    assert all(meaning for _, _, meaning in table)
    stated = {variable: default for variable, default, _ in table if default}
    assert Settings.from_env(stated) == Settings()


def test_every_number_has_limits() -> None:
    schema: dict[str, Any] = msgspec.json.schema(Settings)["$defs"]["Settings"]["properties"]
    for name, field in schema.items():
        for kind in field.get("anyOf", [field]):
            if kind.get("type") in {"integer", "number"}:
                assert {"minimum", "exclusiveMinimum"} & kind.keys(), name

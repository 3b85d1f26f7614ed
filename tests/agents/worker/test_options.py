"""Options that a worker refuses, and the sources of its account."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from vivavoce.agents.memory.calls_in_store import CallsInStore
from vivavoce.agents.memory.stores.in_process import InProcessStore
from vivavoce.agents.memory.stores.sqlite import SqliteStore
from vivavoce.agents.server_access import Credentials
from vivavoce.agents.worker.crash_safety import CrashSafety
from vivavoce.agents.worker.executors.options import ProcessExecution
from vivavoce.agents.worker.options import WorkerOptions, credentials, websocket_url
from vivavoce.pipelines.core.errors import ConfigurationError

ACCOUNT = {"LIVEKIT_URL": "https://host.example/", "LIVEKIT_API_KEY": "key", "LIVEKIT_API_SECRET": "secret"}


@pytest.fixture
def account(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in ACCOUNT.items():
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"max_jobs": 0}, "need max_jobs >= 1, a whole number, got 0"),
        ({"max_retry": -1}, "need max_retry >= 0, a whole number, got -1"),
        ({"drain_timeout": -1.0}, "need drain_timeout >= 0 .s., got -1.0"),
        ({"request_timeout": 4.0}, "a LiveKit server gives up after 3 s"),
        ({"health_port": 70000}, r"health_port must be 0 \(any free one\) to 65535, got 70000"),
        ({"max_load": 0}, "need max_load > 0 or None, got 0; a share, such as 0.8"),
        ({"max_load": 80}, "need 0 < max_load <= 1, a share of the load, or None for no such limit, got 80"),
        ({"executor": ProcessExecution}, r"executor must be ProcessExecution\(…\) or TaskExecution\(…\), got <class"),
    ],
)
def test_options_check_themselves(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        WorkerOptions(**options)


@pytest.mark.parametrize("limit", [None, 0.8, 1, 1.0])
def test_a_limit_that_the_load_can_reach_or_none_is_taken(limit: float | None) -> None:
    assert WorkerOptions(max_load=limit).max_load == limit


def test_a_wrapped_store_as_0_1_had_it_is_refused_with_the_store_to_write_now() -> None:
    with pytest.raises(ConfigurationError) as refused:
        CrashSafety(store=CallsInStore(InProcessStore()))  # type: ignore[arg-type]
    assert re.fullmatch(
        r"store must be a SessionStore or None, got <.*CallsInStore object.*>; RedisStore\(url\) stands in place of "
        r"StoreCheckpoints\(RedisStore\(url\)\), and SqliteStore\(path\) in place of SqliteCheckpoints\(path\)",
        str(refused.value),
    )


def test_without_a_store_calls_are_kept_in_a_file_of_the_user_s_state_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    store = CrashSafety().calls.store
    assert isinstance(store, SqliteStore)
    assert store.path == tmp_path / "vivavoce" / "sessions.db"


@pytest.mark.usefixtures("account")
def test_the_environment_fills_what_the_options_leave_open() -> None:
    assert credentials(WorkerOptions(api_key="mine")) == Credentials(
        url="wss://host.example", api_key="mine", api_secret="secret"
    )


@pytest.mark.usefixtures("account")
@pytest.mark.parametrize(
    ("variable", "flag"),
    [("LIVEKIT_URL", "--url"), ("LIVEKIT_API_KEY", "--api-key"), ("LIVEKIT_API_SECRET", "--api-secret")],
)
def test_a_missing_part_of_the_account_is_named_with_its_remedies(
    monkeypatch: pytest.MonkeyPatch, variable: str, flag: str
) -> None:
    monkeypatch.delenv(variable)

    with pytest.raises(ConfigurationError, match=f"set {variable}, pass {flag}, or WorkerOptions"):
        credentials(WorkerOptions())


@pytest.mark.parametrize(
    ("url", "wrong"),
    [
        ("host.example", "it has no scheme"),
        ("", "it has no scheme"),
        ("ftp://host", "its scheme is 'ftp'"),
        ("ws://", "it has no host"),
        ("ws://:7880", "it has no host"),
        ("ws:/host", "it has no host"),
        ("ws://my host", "there is ' ' in it"),
        (" ws://host", "there is ' ' in it"),
        ("ws://host\n", r"there is '\\n' in it"),
        ("ws://host/a path", "there is ' ' in it"),
        ('ws://"host"', "there is '\"' in it"),
        ("ws://host:port", "Port .+"),  # the words of this release of Python
        ("ws://host:78800", "Port .+"),
        ("ws://host:0", "its port is 0"),
        ("ws://[::1", ".*IPv6.*"),
        ("wss://project..livekit.cloud", "a part of its host between dots is empty or has more than 63 characters"),
        (f"wss://{'x' * 64}.example", "a part of its host between dots is empty or has more than 63 characters"),
    ],
)
def test_a_url_of_no_livekit_server_is_refused_and_what_is_wrong_is_named(url: str, wrong: str) -> None:
    with pytest.raises(ConfigurationError, match=f"must look like .*: {wrong}"):
        websocket_url(url)


@pytest.mark.parametrize(
    ("url", "taken"),
    [
        ("ws://127.0.0.1:7880", "ws://127.0.0.1:7880"),
        ("http://localhost:7880/", "ws://localhost:7880"),
        ("https://host.example/livekit/", "wss://host.example/livekit"),
        ("wss://[::1]:7880", "wss://[::1]:7880"),
        ("wss://host.example.", "wss://host.example."),
    ],
)
def test_a_url_of_a_server_is_taken_with_the_scheme_of_a_websocket(url: str, taken: str) -> None:
    assert websocket_url(url) == taken


def test_secrets_do_not_show_in_a_repr() -> None:
    shown = repr(WorkerOptions(api_secret="hush")) + repr(Credentials(url="ws://h", api_key="k", api_secret="hush"))

    assert "hush" not in shown

"""A missing component skips a test with one line, and fails it where everything has to be there."""

from __future__ import annotations

import pytest

from kit.servers import install
from kit.servers.livekit_server import running_livekit_server
from kit.servers.missing import missing
from kit.wanted import NO_SKIPS


def test_a_missing_component_skips_and_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(NO_SKIPS, raising=False)

    with pytest.raises(pytest.skip.Exception, match="^chromium is missing: apt install chromium$"):
        missing("chromium", "apt install chromium")


def test_where_everything_must_be_there_a_missing_component_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(NO_SKIPS, "1")

    with pytest.raises(pytest.fail.Exception, match="chromium is missing: apt install chromium"):
        missing("chromium", "apt install chromium")


def test_without_go_the_server_counts_as_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_server() -> None:
        raise install.InstallError("there is no Go")

    monkeypatch.delenv(NO_SKIPS, raising=False)
    monkeypatch.setattr(install, "livekit_server", no_server)

    with pytest.raises(pytest.skip.Exception, match="livekit-server is missing: there is no Go"):
        with running_livekit_server():
            pytest.fail("there is no server to run")

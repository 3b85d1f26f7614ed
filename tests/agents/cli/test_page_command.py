"""`vivavoce page`: its requirements, and its errors without them."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from vivavoce.agents.cli.app import app
from vivavoce.pipelines.core.errors import ConfigurationError, VoiceError

SECRET = "a-secret-of-at-least-thirty-two-characters"


def _fails(*arguments: str) -> VoiceError:
    result = CliRunner().invoke(app, ["page", *arguments], env={"LIVEKIT_URL": "", "LIVEKIT_API_KEY": ""})
    assert isinstance(result.exception, VoiceError), result.output
    assert SECRET not in str(result.exception)
    return result.exception


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "a LiveKit server: give --url, or set LIVEKIT_URL"),
        (["--url", "ws://127.0.0.1:1"], "its API key: give --api-key, or set LIVEKIT_API_KEY"),
        (
            ["--url", "ws://127.0.0.1:1", "--api-key", "k"],
            "its API secret: give --api-secret, or set LIVEKIT_API_SECRET",
        ),
        (["--url", "example", "--api-key", "k", "--api-secret", SECRET], "must look like wss://host"),
    ],
)
def test_what_is_missing_or_wrong_is_named(arguments: list[str], said: str) -> None:
    error = _fails(*arguments)
    assert isinstance(error, ConfigurationError)
    assert said in str(error)


def test_its_help_says_that_the_secret_stays_here() -> None:
    text = CliRunner().invoke(app, ["page", "--help"], env={"COLUMNS": "200", "TERM": "dumb"}).output
    assert "never reaches the browser" in text
    for option in ("--url", "--api-key", "--api-secret", "--agent-name", "--room", "--port"):
        assert option in text

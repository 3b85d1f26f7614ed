"""Keys and addresses from arguments and from the environment."""

from __future__ import annotations

import pytest

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.net.keys import checked_url, find_key, shown_url

VARIABLES = ("ELEVENLABS_API_KEY", "ELEVEN_API_KEY")


@pytest.fixture(autouse=True)
def no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_a_given_key_goes_before_the_variables_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ELEVEN_API_KEY", "second\n")
    assert find_key(None, VARIABLES) == "second"
    monkeypatch.setenv("ELEVENLABS_API_KEY", " first ")
    assert find_key(" ", VARIABLES) == "first"
    assert find_key("given", VARIABLES) == "given"
    assert find_key(None, ()) == ""


def test_a_missing_key_names_all_variables_and_the_remedy() -> None:
    with pytest.raises(ConfigurationError, match="set ELEVENLABS_API_KEY or ELEVEN_API_KEY or give api_key, or pray"):
        find_key("", VARIABLES, remedy=", or pray")


@pytest.mark.parametrize("key", ["a b", "a\nb", "clé", "a\x00b"])
def test_a_key_that_no_header_can_carry_is_refused_unseen(key: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        find_key(key, ())
    assert key not in str(caught.value)


def test_an_address_is_a_url_and_shows_no_secret() -> None:
    assert checked_url("wss://api.deepgram.com", "wss://…") == "wss://api.deepgram.com"
    for wrong in ("api.deepgram.com", "", "ftp://x", "http://", "http://[::1", "ws://u:secret@"):
        with pytest.raises(ConfigurationError, match="such as 'wss://…'") as caught:
            checked_url(wrong, "wss://…")
        assert "secret" not in str(caught.value)
    assert shown_url("https://user:secret@host/v1?key=secret") == "https://host/v1"

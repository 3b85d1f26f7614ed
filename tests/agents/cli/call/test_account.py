"""The server, key and secret of `vivavoce call`."""

from __future__ import annotations

import pytest

from vivavoce.agents.cli.call_command import account
from vivavoce.agents.dev_room.options import DEV_API_KEY, DEV_API_SECRET
from vivavoce.pipelines.core.errors import ConfigurationError

DEVELOPMENT = (DEV_API_KEY, DEV_API_SECRET)


@pytest.mark.parametrize("url", ["ws://127.0.0.1:7899", "ws://localhost:7880", "ws://[::1]:7880", "http://127.0.0.1:1"])
def test_a_room_on_this_machine_has_the_development_keys_unless_others_are_given(url: str) -> None:
    at = url.replace("http", "ws")
    assert account(url, None, None) == (at, *DEVELOPMENT)
    assert account(url, "key", "secret") == (at, "key", "secret")


def test_without_a_url_the_development_room_is_called() -> None:
    assert account(None, None, None) == ("ws://127.0.0.1:7880", *DEVELOPMENT)


@pytest.mark.parametrize("url", ["wss://example.org", "ws://10.0.0.7:7880"])
def test_a_server_elsewhere_needs_keys(url: str) -> None:
    with pytest.raises(ConfigurationError, match="needs an API key: give --api-key and --api-secret"):
        account(url, None, None)


def test_a_key_without_its_secret_is_refused_on_this_machine_too() -> None:
    with pytest.raises(ConfigurationError, match="needs an API secret"):
        account("ws://127.0.0.1:7899", "key", None)

"""The room server's options: accepted values, and errors for the rest."""

from __future__ import annotations

import pytest

from vivavoce.agents.dev_room import DEV_API_SECRET, RoomServerOptions
from vivavoce.pipelines.core.errors import ConfigurationError

OWN_SECRET = "an-own-secret-of-at-least-32-characters"


def test_the_default_is_loopback_with_a_secret_long_enough_for_jwt() -> None:
    options = RoomServerOptions()
    assert options.address == "127.0.0.1"
    assert len(options.api_secret) >= 32


def test_the_secret_is_not_in_the_repr() -> None:
    assert DEV_API_SECRET not in repr(RoomServerOptions())


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"host": "192.0.2.1"}, "development keys are public"),
        ({"host": "192.0.2.1", "api_key": "own"}, "development keys are public"),
        ({"host": "192.0.2.1", "api_secret": OWN_SECRET}, "development keys are public"),
        ({"host": "0.0.0.0", "api_key": "own", "api_secret": OWN_SECRET}, "the one address that callers reach"),
        ({"host": "::1"}, "IPv4 address"),
        ({"host": "example.org"}, "IPv4 address"),
        ({"port": 70_000}, "0 .* to 65535, got 70000"),
        ({"api_secret": "short"}, "at least 32 characters"),
        ({"api_key": ""}, "needs an api_key"),
        ({"departure_timeout": 0}, "departure_timeout must be more than 0 s"),
        ({"max_rooms": 0}, "max_rooms >= 1"),
    ],
)
def test_a_wrong_option_is_refused_with_advice(fields: dict[str, object], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        RoomServerOptions(**fields)  # type: ignore[arg-type]


def test_another_address_is_fine_with_own_keys() -> None:
    options = RoomServerOptions(host="192.0.2.1", api_key="own", api_secret=OWN_SECRET)
    assert options.address == "192.0.2.1"


def test_localhost_is_loopback() -> None:
    assert RoomServerOptions(host="localhost").address == "127.0.0.1"

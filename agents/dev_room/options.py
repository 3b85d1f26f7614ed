"""The room server's options, its development keys and its fixed bounds."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field

from vivavoce.pipelines.core.checks import check_port
from vivavoce.pipelines.core.errors import ConfigurationError

DEV_API_KEY = "devkey"
DEV_API_SECRET = "vivavoce-development-secret-never-for-production"
MIN_SECRET_LENGTH = 32

# Sizes are bytes. They bound the memory that one client can use in the server; ordinary clients stay far below.
MAX_REQUEST_LINE = 65_536
MAX_JOIN_REQUEST = 262_144
MAX_SIGNAL_MESSAGE = 262_144
MAX_WORKER_MESSAGE = 1_048_576
MAX_DATA_MESSAGE = 65_536
MAX_QUEUED_SIGNALS = 1_024
MAX_QUEUED_DATA = 16_777_216
MAX_SECTIONS = 128
MAX_TRACKS = 16
MAX_TEXT = 65_536
"""Of one participant: name, metadata and attributes together (also the real server's limit)."""

PROTOCOL = 16
"""At 18 clients switch to negotiated data channels and all data is silently lost; 17 is the limit."""
PING_INTERVAL = 5
PING_TIMEOUT = 15
LEAVE_LINGER = 2.0
"""Seconds between `leave` and closing the transports; closing at once makes clients log errors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomServerOptions:
    """Addresses and timeouts of the development room; times are seconds."""

    host: str = "127.0.0.1"
    """A concrete IPv4 address; anything but loopback needs own keys."""
    port: int = 7880
    """0 takes a free one."""
    api_key: str = DEV_API_KEY
    api_secret: str = field(default=DEV_API_SECRET, repr=False)
    participant_grace: float = 10.0
    """How long a participant is kept after its websocket was lost."""
    join_timeout: float = 20.0
    """How long a participant may take from joining to a media transport that is up."""
    departure_timeout: float = 20.0
    """How long a room outlives its last caller, counted anew at each leave; agents do not keep it open."""
    empty_timeout: float = 300.0
    """How long a room without any participant so far is kept."""
    availability_timeout: float = 3.0
    """How long a worker may take to answer a job offer."""
    keeps_waiting_rooms: bool = False
    """Whether a room without an agent is offered to the next worker that registers. A real server forgets it."""
    restart_wait: float = 8.0
    """How long to wait for the return of an agent from before a restart, until another one is dispatched. LiveKit's SDK
    tries to come back every 5 s.
    """
    max_rooms: int = 100
    max_participants: int = 50
    """In one room."""

    def __post_init__(self) -> None:
        address = _address(self.host)
        check_port("port", self.port)
        if not self.api_key or len(self.api_secret) < MIN_SECRET_LENGTH:
            raise ConfigurationError(
                f"the room needs an api_key and an api_secret of at least {MIN_SECRET_LENGTH} characters, "
                f"got api_key={self.api_key!r} and {len(self.api_secret)} characters of secret"
            )
        if not address.is_loopback and (self.api_key == DEV_API_KEY or self.api_secret == DEV_API_SECRET):
            raise ConfigurationError(
                f"the development keys are public, so the room refuses to listen on {self.host!r} with them: "
                "give an api_key and an api_secret of your own, or keep host='127.0.0.1'"
            )
        for name in (
            "participant_grace", "join_timeout", "departure_timeout", "empty_timeout", "availability_timeout",
        ):  # fmt: skip
            if not getattr(self, name) > 0:
                raise ConfigurationError(f"{name} must be more than 0 s, got {getattr(self, name)!r}")
        if self.restart_wait < 0 or self.max_rooms < 1 or self.max_participants < 1:
            raise ConfigurationError(
                "need restart_wait >= 0 s, max_rooms >= 1 and max_participants >= 1, got "
                f"{self.restart_wait!r}, {self.max_rooms!r}, {self.max_participants!r}"
            )

    @property
    def address(self) -> str:
        """The IPv4 address behind `host`, as the media candidate has it."""
        return str(_address(self.host))


def _address(host: str) -> ipaddress.IPv4Address:
    try:
        address = ipaddress.IPv4Address("127.0.0.1" if host == "localhost" else host)
    except ValueError as exc:
        raise ConfigurationError(f"host must be an IPv4 address, for example '127.0.0.1', got {host!r}") from exc
    if address.is_unspecified:
        raise ConfigurationError(
            f"host must be the one address that callers reach (they receive it as the media address), got {host!r}"
        )
    return address

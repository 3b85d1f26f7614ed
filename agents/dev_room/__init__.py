"""The embedded development room: a LiveKit-compatible room server in pure Python, for one machine.

It lets an agent, its callers and their tests run with pip alone, through the same `livekit.rtc` client code as in
production; production differs in URL and keys only. No code of it is on the production path.

Decisions:

* Signalling is only LiveKit's `/rtc/v1` (one peer connection), which the browser page and the present SDKs speak.
  Older clients get 404 on `/rtc` and need a real server.
* Audio is forwarded unchanged, never decoded: a packet costs 12-50 microseconds instead of 220, and no delay is added.
* ICE-lite on one UDP socket for everyone; the DTLS and SCTP parts are aiortc's, used below its peer connection.
* It runs as a child process (`RoomProcess`): a busy Python thread beside it would cost 200 ms of audio delay.
  In-process (`RoomServer`) is for unit tests.
* Loopback with public keys, or own keys: nothing in between. Video is VP8 in one layer.
  No TURN, TCP, IPv6, simulcast, clustering or recording.
* Dispatch works as on a real server: a worker that registers late gets no offer, one that stays silent loses the call.
* After a restart of the server, agents and callers come back by themselves. A room with a returning participant waits
  `restart_wait` seconds for its agent before another one is dispatched, or two agents would answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vivavoce.agents.dev_room.child import RoomProcess
    from vivavoce.agents.dev_room.options import DEV_API_KEY, DEV_API_SECRET, RoomServerOptions
    from vivavoce.agents.dev_room.server import RoomServer

__all__ = ["DEV_API_KEY", "DEV_API_SECRET", "RoomProcess", "RoomServer", "RoomServerOptions"]

_HOMES = {
    "DEV_API_KEY": "options",
    "DEV_API_SECRET": "options",
    "RoomProcess": "child",
    "RoomServer": "server",
    "RoomServerOptions": "options",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    from vivavoce.agents.dev_room.extra import needs_room_extra

    with needs_room_extra():
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)

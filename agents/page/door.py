"""PageDoor: the HTTP handlers of the page: its files, and the token for a call. For a browser on this machine only."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from aiohttp import web
from pydantic import BaseModel, ConfigDict, ValidationError

from vivavoce.pipelines.core.ids import new_id

STATIC = Path(__file__).with_name("static")
TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
MAX_BODY = 4096
"""Bytes of a request for a token."""

LOOPBACK_HOST = re.compile(r"(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?", re.IGNORECASE)
GUEST = re.compile(r"guest_[0-9a-f]{12}")

HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "microphone=(self), camera=(), geolocation=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """The page's answer to a request for a token: how to join a call.

    Args:
        url: URL of the LiveKit server, `ws://…` or `wss://…`.
    """

    url: str
    token: str = field(repr=False)
    room: str
    identity: str


class _Wanted(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")

    room: str = ""
    identity: str = ""


class PageDoor:
    """Serves the page at `/`.

    Args:
        url: The LiveKit server of the page; None: the server that serves the page, as the browser named it.
        mint: Makes a token for a room and an identity.
        agent: Waits, within a limit, until an agent is registered that answers, and returns whether one is. None: the
            server dispatches one whenever it comes.
    """

    def __init__(
        self,
        mint: Callable[[str, str], str],
        *,
        url: str | None = None,
        agent: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        self._mint = mint
        self._url = url
        self._agent = agent
        self._files = {path.name: path for path in STATIC.iterdir() if path.suffix in TYPES}

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/", self.file)
        router.add_get(r"/{name:[a-z]+\.(?:html|css|js|svg)}", self.file)
        router.add_post("/connection", self.connection)

    async def file(self, request: web.Request) -> web.Response:
        """Return one of the page's files."""
        if (refusal := _refuse_host(request)) is not None:
            return refusal
        path = self._files.get(request.match_info.get("name", "index.html"))
        if path is None:
            return _refusal(404, "the page has no such file")
        return web.Response(
            body=path.read_bytes(),
            content_type=TYPES[path.suffix],
            charset="utf-8",
            headers={**HEADERS, "Content-Security-Policy": self._policy(request)},
        )

    async def connection(self, request: web.Request) -> web.Response:
        """Answer with a Connection, to the page itself only."""
        if (refusal := _refuse_host(request)) is not None:
            return refusal
        if request.headers.get("Origin") != f"{request.scheme}://{request.host}":
            return _refusal(403, "only the page itself gets a token: open it in a browser")
        if request.content_type != "application/json" or (request.content_length or 0) > MAX_BODY:
            return _refusal(415, f"needed JSON of at most {MAX_BODY} bytes")
        try:
            wanted = _Wanted.model_validate_json(await request.content.read(MAX_BODY))
        except ValidationError:
            return _refusal(400, 'needed {"room": "…", "identity": "…"}')
        room = wanted.room.strip()
        if len(room) > 128 or any(ord(character) < 32 for character in room):
            return _refusal(400, "a room's name has at most 128 printable characters")
        if self._agent is not None and not await self._agent():
            return _refusal(503, "the agent is not registered yet: its code is being loaded, or it does not load")
        room = room or new_id("call")
        # Only a name that this server made may come back: no client can become the agent, or another guest, by
        # guessing.
        identity = wanted.identity if GUEST.fullmatch(wanted.identity) else new_id("guest")
        given = Connection(
            url=self._url or f"ws://{request.host}", token=self._mint(room, identity), room=room, identity=identity
        )
        return web.json_response(asdict(given), headers=HEADERS)

    def _policy(self, request: web.Request) -> str:
        socket = self._url or f"ws://{request.host}"
        parts = urlsplit(socket)
        web_url = f"{'https' if parts.scheme == 'wss' else 'http'}://{parts.netloc}"
        return (
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; "
            f"connect-src 'self' {parts.scheme}://{parts.netloc} {web_url}; "
            "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
        )


def mint_with(api_key: str, api_secret: str, *, agent_name: str = "") -> Callable[[str, str], str]:
    """Return a function that makes join tokens with this key.

    Args:
        api_key: Key of the LiveKit server.
        api_secret: Its secret.
        agent_name: The agent to dispatch to the room; empty if every room gets one.
    """
    from livekit import api

    def mint(room: str, identity: str) -> str:
        token = api.AccessToken(api_key, api_secret).with_identity(identity).with_name("Guest")
        token = token.with_grants(api.VideoGrants(room_join=True, room=room))
        if agent_name:
            dispatch = api.RoomAgentDispatch(agent_name=agent_name)
            token = token.with_room_config(api.RoomConfiguration(agents=[dispatch]))
        return token.to_jwt()

    return mint


def _refuse_host(request: web.Request) -> web.Response | None:
    if LOOPBACK_HOST.fullmatch(request.host):
        return None
    return _refusal(403, "the page is for this machine: open it as http://localhost or http://127.0.0.1")


def _refusal(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text + "\n", headers=HEADERS)

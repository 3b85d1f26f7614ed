"""The server API's `livekit.SIP` and `livekit.Egress`, scripted: answers as livekit-server 1.13.5 gives them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer
from livekit.protocol.egress import EgressInfo, ListEgressRequest, RoomCompositeEgressRequest, StopEgressRequest
from livekit.protocol.room import MoveParticipantRequest, RoomParticipantIdentity
from livekit.protocol.sip import CreateSIPParticipantRequest, TransferSIPParticipantRequest

from vivavoce.agents.server_access import Credentials

Script = Callable[[Any], Awaitable[bytes] | bytes]
"""Gets the request, returns the body of the answer, or raises `Refused`."""

REQUESTS: dict[str, Any] = {
    "SIP/CreateSIPParticipant": CreateSIPParticipantRequest,
    "SIP/TransferSIPParticipant": TransferSIPParticipantRequest,
    "RoomService/MoveParticipant": MoveParticipantRequest,
    "RoomService/RemoveParticipant": RoomParticipantIdentity,
    "Egress/StartRoomCompositeEgress": RoomCompositeEgressRequest,
    "Egress/StopEgress": StopEgressRequest,
    "Egress/ListEgress": ListEgressRequest,
}
__all__ = ["EgressInfo", "Refused", "ScriptedSip", "scripted_sip", "sip_refusal"]


class Refused(Exception):
    """An error in Twirp's form."""

    def __init__(self, status: int, code: str, msg: str, meta: Mapping[str, str] | None = None) -> None:
        super().__init__(msg)
        self.status = status
        self.body = {"code": code, "msg": msg, **({"meta": dict(meta)} if meta else {})}


def sip_refusal(sip_code: int, words: str, *, status: int, code: str) -> Refused:
    """The error of a call that got a SIP answer: measured with livekit-sip 1.9.0."""
    meta = {"sip_status_code": str(sip_code), "sip_status": words, "error_details": "AAAA"}
    return Refused(status, code, f"INVITE failed: sip status: {sip_code}: {words}", meta)


class ScriptedSip:
    """What the server was asked, and what it answers: one script for each method; none is "not implemented".

    Args:
        scripts: By method, such as `"SIP/CreateSIPParticipant"`.
    """

    def __init__(self, scripts: Mapping[str, Script]) -> None:
        self.scripts = dict(scripts)
        self.asked: list[tuple[str, Any]] = []
        self.credentials = Credentials(url="", api_key="", api_secret="")

    async def answer(self, request: web.Request) -> web.Response:
        method = f"{request.match_info['service']}/{request.match_info['method']}"
        message = REQUESTS[method].FromString(await request.read())
        self.asked.append((method, message))
        try:
            if method not in self.scripts:
                raise Refused(501, "unimplemented", "not implemented")
            body = self.scripts[method](message)
            if not isinstance(body, bytes):
                body = await body
        except Refused as refused:
            return web.json_response(refused.body, status=refused.status)
        return web.Response(body=body, content_type="application/protobuf")


@asynccontextmanager
async def scripted_sip(scripts: Mapping[str, Script]) -> AsyncIterator[ScriptedSip]:
    """Serve the scripts on loopback; `credentials` of the result lead there."""
    sip = ScriptedSip(scripts)
    app = web.Application()
    app.router.add_post("/twirp/livekit.{service}/{method}", sip.answer)
    async with TestServer(app) as server:
        url = str(server.make_url("")).rstrip("/").replace("http", "ws", 1)
        sip.credentials = Credentials(url=url, api_key="devkey", api_secret="secret" * 8)
        yield sip

"""Facts of a room as the server's API returns them, by a server that answers with what the test gives."""

from __future__ import annotations

from aiohttp import web
from aiohttp.test_utils import TestServer
from livekit.protocol.models import ParticipantInfo
from livekit.protocol.room import ListParticipantsResponse

from vivavoce.agents.server_access import Credentials
from vivavoce.agents.transports.options import RoomOptions
from vivavoce.agents.worker.server_api import ServerApi


async def test_a_caller_is_whoever_a_session_links_by_itself() -> None:
    kinds = ParticipantInfo.Kind.keys()
    answer = ListParticipantsResponse(
        participants=[ParticipantInfo(identity=kind.lower(), kind=kind) for kind in kinds]
    )

    async def list_participants(request: web.Request) -> web.Response:
        return web.Response(body=answer.SerializeToString(), content_type="application/protobuf")

    app = web.Application()
    app.router.add_post("/twirp/livekit.RoomService/ListParticipants", list_participants)
    async with TestServer(app) as server:
        account = Credentials(url=str(server.make_url("/")), api_key="devkey", api_secret="secret" * 8)
        async with ServerApi(account) as api:
            found = await api.participants("r")

    assert found is not None
    assert {one.identity for one in found if one.is_caller} == RoomOptions().participant_kinds
    assert [one.identity for one in found if one.is_agent] == ["agent"]

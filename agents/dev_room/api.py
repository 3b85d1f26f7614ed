"""The server API (Twirp): calls of tests and agents that manage rooms and dispatches."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from aiohttp import web
from google.protobuf import json_format
from google.protobuf.message import DecodeError, Message
from livekit.api import VideoGrants
from livekit.protocol import agent_dispatch, models
from livekit.protocol import room as room_api

from vivavoce.agents.dev_room.administration import mute_track, set_permission
from vivavoce.agents.dev_room.auth import Authority, Refused
from vivavoce.agents.dev_room.data import send_from_server
from vivavoce.agents.dev_room.info import text_size
from vivavoce.agents.dev_room.options import MAX_DATA_MESSAGE, MAX_TEXT

if TYPE_CHECKING:
    from vivavoce.agents.dev_room.hub import Hub
    from vivavoce.agents.dev_room.participant import Participant
    from vivavoce.agents.dev_room.room import Room

logger = logging.getLogger(__name__)

_STATUS = {"invalid_argument": 400, "malformed": 400, "unauthenticated": 401, "permission_denied": 403,
           "not_found": 404, "bad_route": 404, "failed_precondition": 412, "resource_exhausted": 429}  # fmt: skip


class TwirpError(Exception):
    """A refused call, with Twirp's code."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.code = code
        self.text = text


class _NamesParticipant(Protocol):
    @property
    def room(self) -> str: ...

    @property
    def identity(self) -> str: ...


class ApiDoor:
    """The HTTP handler of `/twirp/livekit.<Service>/<Method>`."""

    def __init__(self, hub: Hub, authority: Authority) -> None:
        self._hub = hub
        self._authority = authority
        self._methods: dict[str, tuple[type[Message], Callable[[Any, VideoGrants], Message]]] = {
            "RoomService/ListRooms": (room_api.ListRoomsRequest, self._list_rooms),
            "RoomService/CreateRoom": (room_api.CreateRoomRequest, self._create_room),
            "RoomService/DeleteRoom": (room_api.DeleteRoomRequest, self._delete_room),
            "RoomService/ListParticipants": (room_api.ListParticipantsRequest, self._list_participants),
            "RoomService/RemoveParticipant": (room_api.RoomParticipantIdentity, self._remove_participant),
            "RoomService/GetParticipant": (room_api.RoomParticipantIdentity, self._get_participant),
            "RoomService/UpdateParticipant": (room_api.UpdateParticipantRequest, self._update_participant),
            "RoomService/MutePublishedTrack": (room_api.MuteRoomTrackRequest, self._mute_published_track),
            "RoomService/UpdateSubscriptions": (room_api.UpdateSubscriptionsRequest, self._update_subscriptions),
            "RoomService/UpdateRoomMetadata": (room_api.UpdateRoomMetadataRequest, self._update_room_metadata),
            "RoomService/SendData": (room_api.SendDataRequest, self._send_data),
            "AgentDispatchService/CreateDispatch": (agent_dispatch.CreateAgentDispatchRequest, self._create_dispatch),
            "AgentDispatchService/ListDispatch": (agent_dispatch.ListAgentDispatchRequest, self._list_dispatch),
            "AgentDispatchService/DeleteDispatch": (agent_dispatch.DeleteAgentDispatchRequest, self._delete_dispatch),
        }

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_post("/twirp/livekit.{service}/{method}", self.call)

    async def call(self, request: web.Request) -> web.Response:
        """Answer one call in the encoding (protobuf or JSON) of its request."""
        is_json = request.content_type == "application/json"
        try:
            reply = await self._call(request, is_json)
        except TwirpError as exc:
            return web.json_response({"code": exc.code, "msg": exc.text}, status=_STATUS[exc.code])
        if is_json:
            return web.Response(
                text=json_format.MessageToJson(reply, preserving_proto_field_name=True), content_type="application/json"
            )
        return web.Response(body=reply.SerializeToString(), content_type="application/protobuf")

    async def _call(self, request: web.Request, is_json: bool) -> Message:
        name = f"{request.match_info['service']}/{request.match_info['method']}"
        if name not in self._methods:
            raise TwirpError("bad_route", f"the development room has {', '.join(sorted(self._methods))}; not {name!r}")
        try:
            claims = self._authority.verify(request.headers.get("Authorization", ""), "")
        except Refused as exc:
            raise TwirpError("unauthenticated", exc.text) from exc
        message_type, method = self._methods[name]
        body = await request.read()
        try:
            if is_json:
                message = json_format.Parse(body, message_type(), ignore_unknown_fields=True)
            else:
                message = message_type.FromString(body)
        except (DecodeError, json_format.ParseError, UnicodeDecodeError) as exc:
            raise TwirpError("malformed", f"the body is no {message_type.DESCRIPTOR.name}") from exc
        return method(message, claims.video or VideoGrants())

    def _room(self, name: str) -> Room:
        room = self._hub.rooms.get(name)
        if room is None:
            raise TwirpError("not_found", f"no room {name!r} is open")
        return room

    def _list_rooms(self, request: room_api.ListRoomsRequest, grants: VideoGrants) -> Message:
        _need(grants.room_list, "roomList")
        rooms = [r.describe() for n, r in self._hub.rooms.items() if not request.names or n in request.names]
        return room_api.ListRoomsResponse(rooms=rooms)

    def _create_room(self, request: room_api.CreateRoomRequest, grants: VideoGrants) -> Message:
        _need(grants.room_create, "roomCreate")
        is_new = request.name not in self._hub.rooms
        room = self._open(request.name, request.empty_timeout, request.departure_timeout)
        room.info.max_participants = request.max_participants or room.info.max_participants
        if request.metadata:
            room.set_metadata(_bounded(request.metadata))
        for wanted in request.agents if is_new else ():
            self._hub.dispatcher.create_dispatch(
                room.describe(), wanted.agent_name, wanted.metadata, attributes=wanted.attributes
            )
        return room.describe()

    def _open(self, name: str, empty_timeout: float = 0, departure_timeout: float = 0) -> Room:
        if not name:
            raise TwirpError("invalid_argument", "the room needs a name")
        try:
            self._hub.check_admission(name, "")
        except Refused as exc:
            if name not in self._hub.rooms:
                raise TwirpError("resource_exhausted", exc.text) from exc
        return self._hub.open_room(name, empty_timeout=empty_timeout, departure_timeout=departure_timeout)

    def _delete_room(self, request: room_api.DeleteRoomRequest, grants: VideoGrants) -> Message:
        _need(grants.room_create, "roomCreate")
        self._room(request.room).close(models.ROOM_DELETED)
        return room_api.DeleteRoomResponse()

    def _list_participants(self, request: room_api.ListParticipantsRequest, grants: VideoGrants) -> Message:
        _need_admin(grants, request.room)
        infos = [p.info for p in self._room(request.room).participants.values()]
        return room_api.ListParticipantsResponse(participants=infos)

    def _remove_participant(self, request: room_api.RoomParticipantIdentity, grants: VideoGrants) -> Message:
        _need_admin(grants, request.room)
        self._room(request.room).remove(self._participant(request), models.PARTICIPANT_REMOVED)
        return room_api.RemoveParticipantResponse()

    def _participant(self, request: _NamesParticipant) -> Participant:
        participant = self._room(request.room).participants.get(request.identity)
        if participant is None:
            raise TwirpError("not_found", f"no participant {request.identity!r} is in room {request.room!r}")
        return participant

    def _get_participant(self, request: room_api.RoomParticipantIdentity, grants: VideoGrants) -> Message:
        _need_admin(grants, request.room)
        return self._participant(request).info

    def _update_participant(self, request: room_api.UpdateParticipantRequest, grants: VideoGrants) -> Message:
        _need_admin(grants, request.room)
        room, participant = self._room(request.room), self._participant(request)
        if text_size(participant.info, request.name, request.metadata, dict(request.attributes)) > MAX_TEXT:
            raise TwirpError(
                "invalid_argument", f"name, metadata and attributes may have {MAX_TEXT} characters together"
            )
        participant.set_description(request.name, request.metadata, dict(request.attributes))
        if request.HasField("permission"):
            set_permission(room, participant, request.permission)
        room.announce(participant)
        return participant.info

    def _mute_published_track(self, request: room_api.MuteRoomTrackRequest, grants: VideoGrants) -> Message:
        _need_admin(grants, request.room)
        participant = self._participant(request)
        track = participant.tracks.get(request.track_sid)
        if track is None:
            raise TwirpError("not_found", f"participant {request.identity!r} publishes no track {request.track_sid!r}")
        if not request.muted and track.info.muted:
            raise TwirpError(
                "failed_precondition", "a track may be muted from here, not unmuted: only its publisher may"
            )
        mute_track(self._room(request.room), participant, track, muted=request.muted)
        return room_api.MuteRoomTrackResponse(track=track.info)

    def _update_subscriptions(self, request: room_api.UpdateSubscriptionsRequest, grants: VideoGrants) -> Message:
        _need_admin(grants, request.room)
        of_participants = (sid for tracks in request.participant_tracks for sid in tracks.track_sids)
        sids = [*request.track_sids, *of_participants]
        self._room(request.room).update_subscriptions(self._participant(request), sids, request.subscribe)
        return room_api.UpdateSubscriptionsResponse()

    def _update_room_metadata(self, request: room_api.UpdateRoomMetadataRequest, grants: VideoGrants) -> Message:
        _need_admin(grants, request.room)
        room = self._room(request.room)
        room.set_metadata(_bounded(request.metadata))
        return room.describe()

    def _send_data(self, request: room_api.SendDataRequest, grants: VideoGrants) -> Message:
        _need_admin(grants, request.room)
        if len(request.data) > MAX_DATA_MESSAGE:
            raise TwirpError("invalid_argument", f"data may have {MAX_DATA_MESSAGE} bytes, got {len(request.data)}")
        send_from_server(self._room(request.room), request)
        return room_api.SendDataResponse()

    def _create_dispatch(self, request: agent_dispatch.CreateAgentDispatchRequest, grants: VideoGrants) -> Message:
        _need_admin(grants, request.room)
        room = self._open(request.room)
        return self._hub.dispatcher.create_dispatch(
            room.describe(), request.agent_name, request.metadata, attributes=request.attributes
        )

    def _list_dispatch(self, request: agent_dispatch.ListAgentDispatchRequest, grants: VideoGrants) -> Message:
        _need_admin(grants, request.room)
        found = [
            dispatch
            for dispatch in self._hub.dispatcher.list_dispatches(request.room)
            if request.dispatch_id in ("", dispatch.id)
        ]
        return agent_dispatch.ListAgentDispatchResponse(agent_dispatches=found)

    def _delete_dispatch(self, request: agent_dispatch.DeleteAgentDispatchRequest, grants: VideoGrants) -> Message:
        _need_admin(grants, request.room)
        deleted = self._hub.dispatcher.delete_dispatch(request.room, request.dispatch_id)
        if deleted is None:
            raise TwirpError("not_found", f"room {request.room!r} has no dispatch {request.dispatch_id!r}")
        return deleted


def _need(grant: bool | None, name: str) -> None:
    if not grant:
        raise TwirpError("permission_denied", f"the access token lacks the grant {name}")


def _need_admin(grants: VideoGrants, room: str) -> None:
    if not grants.room_admin or grants.room != room:
        raise TwirpError("permission_denied", f"the access token lacks the grant roomAdmin for room {room!r}")


def _bounded(metadata: str) -> str:
    if len(metadata) > MAX_TEXT:
        raise TwirpError("invalid_argument", f"metadata may have {MAX_TEXT} characters, got {len(metadata)}")
    return metadata

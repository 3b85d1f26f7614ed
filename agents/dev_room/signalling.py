"""The signalling endpoint `/rtc/v1`: join and resume requests, and the websocket of one participant."""

from __future__ import annotations

import asyncio
import base64
import binascii
import logging
import zlib
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
from aiohttp import WSMsgType, web
from google.protobuf.message import DecodeError
from livekit.api.access_token import Claims
from livekit.protocol import models, rtc

from vivavoce.agents.dev_room.auth import Authority, Refused
from vivavoce.agents.dev_room.client import Client
from vivavoce.agents.dev_room.link import SignalLink
from vivavoce.agents.dev_room.options import (
    MAX_JOIN_REQUEST,
    MAX_QUEUED_SIGNALS,
    MAX_SIGNAL_MESSAGE,
    PING_INTERVAL,
    PING_TIMEOUT,
    PROTOCOL,
)
from vivavoce.agents.dev_room.participant import Participant
from vivavoce.agents.dev_room.sdp import SdpError

if TYPE_CHECKING:
    from vivavoce.agents.dev_room.hub import Hub
    from vivavoce.agents.dev_room.room import Room

logger = logging.getLogger(__name__)

CORS = {"Access-Control-Allow-Origin": "*"}
SERVER_VERSION = "1.9.0"
"""The livekit-server version whose behaviour clients may expect."""


def server_info() -> models.ServerInfo:
    """Describe this server to clients and workers."""
    return models.ServerInfo(
        edition=models.ServerInfo.Standard,
        version=SERVER_VERSION,
        protocol=PROTOCOL,
        agent_protocol=1,
        node_id="vivavoce-development-room",
    )


def parse_join_request(value: str) -> rtc.JoinRequest:
    """Read the `join_request` parameter: base64 of a WrappedJoinRequest, which may be compressed.

    Raises:
        Refused: 400, malformed or larger than `MAX_JOIN_REQUEST` bytes.
    """
    try:
        data = base64.urlsafe_b64decode(value.rstrip("=") + "=" * (-len(value.rstrip("=")) % 4))
        wrapped = rtc.WrappedJoinRequest.FromString(data)
        inner = wrapped.join_request
        if wrapped.compression == rtc.WrappedJoinRequest.GZIP:
            inflater = zlib.decompressobj(wbits=31)
            inner = inflater.decompress(inner, MAX_JOIN_REQUEST)
            if inflater.unconsumed_tail or not inflater.eof:
                raise Refused(400, f"join_request is cut off or larger than {MAX_JOIN_REQUEST} bytes")
        elif wrapped.compression != rtc.WrappedJoinRequest.NONE:
            raise Refused(400, f"join_request has the unknown compression {wrapped.compression!r}")
        return rtc.JoinRequest.FromString(inner)
    except (binascii.Error, ValueError, zlib.error, DecodeError) as exc:
        raise Refused(400, f"join_request is malformed ({type(exc).__name__})") from exc


class SignalDoor:
    """The HTTP handlers of `/rtc/v1`."""

    def __init__(self, hub: Hub, authority: Authority) -> None:
        self._hub = hub
        self._authority = authority

    def add_routes(self, router: web.UrlDispatcher) -> None:
        router.add_get("/rtc/v1", self.join)
        router.add_get("/rtc/v1/validate", self.validate)

    def _check(self, request: web.Request) -> tuple[Claims, rtc.JoinRequest]:
        claims = self._authority.verify_join(
            request.headers.get("Authorization", ""), request.query.get("access_token", "")
        )
        join = parse_join_request(request.query.get("join_request", ""))
        assert claims.video is not None
        if not join.reconnect:
            self._hub.check_admission(claims.video.room, claims.identity)
        return claims, join

    async def validate(self, request: web.Request) -> web.Response:
        """Return why a join was refused; developers read this text."""
        try:
            self._check(request)
        except Refused as exc:
            return web.Response(status=exc.status, text=exc.text, headers=CORS)
        return web.Response(text="success", headers=CORS)

    async def join(self, request: web.Request) -> web.StreamResponse:
        """Serve one participant's websocket until it ends."""
        try:
            claims, join = self._check(request)
        except Refused as exc:
            logger.info("join refused: %s", exc.text)
            return web.Response(status=exc.status, text=exc.text, headers=CORS)
        ws = web.WebSocketResponse(max_msg_size=MAX_SIGNAL_MESSAGE, compress=False, timeout=1.0)
        if not ws.can_prepare(request).ok:
            return web.Response(status=426, text="this is a websocket: open it with a LiveKit client", headers=CORS)
        await ws.prepare(request)
        link = SignalLink(ws, request.transport, self._hub.shared.tasks, max_queued=MAX_QUEUED_SIGNALS)
        client = self._resume(link, claims, join) if join.reconnect else self._join(link, claims, join)
        try:
            if client is not None:
                await self._read(ws, client, link)
            else:
                await asyncio.wait({link.finished}, timeout=PING_TIMEOUT)
        finally:
            if client is not None and client.participant.detach(link):
                client.room.lose_link(client.participant)
            await link.aclose()
        return ws

    async def _read(self, ws: web.WebSocketResponse, client: Client, link: SignalLink) -> None:
        participant = client.participant
        while True:
            # Buffered messages are received without a pause: one client's burst must not delay all others.
            await anyio.lowlevel.checkpoint()
            try:
                message = await ws.receive(timeout=PING_TIMEOUT)
            except TimeoutError:
                logger.info("%s sent nothing for %d s: websocket dropped", participant.info.identity, PING_TIMEOUT)
                return
            if message.type is not WSMsgType.BINARY:
                if message.type is WSMsgType.TEXT:
                    logger.warning("%s sent text where binary frames are needed", participant.info.identity)
                return
            if participant.link is not link or participant.is_gone:
                continue  # after a leave the client may still say something; the close comes next
            try:
                client.handle(rtc.SignalRequest.FromString(message.data))
            except (DecodeError, SdpError) as exc:
                logger.warning("%s sent a message that is dropped: %s", participant.info.identity, exc)

    def _join(self, link: SignalLink, claims: Claims, join: rtc.JoinRequest) -> Client:
        assert claims.video is not None
        hub = self._hub
        config = claims.room_config
        room = hub.open_room(
            claims.video.room,
            empty_timeout=config.empty_timeout if config is not None else 0,
            departure_timeout=config.departure_timeout if config is not None else 0,
        )
        auto_subscribe = join.connection_settings.auto_subscribe
        participant = Participant(claims, join.client_info, auto_subscribe=auto_subscribe)
        client = Client(hub.shared, room, participant)
        if participant.grants.can_update_own_metadata:
            participant.set_description("", join.metadata, dict(join.participant_attributes))
        participant.attach(link)
        is_first_caller = not participant.is_agent and not room.had_caller
        room.join(participant)
        limit = hub.shared.options.join_timeout
        participant.start_timer(limit, lambda: room.remove(participant, models.CONNECTION_TIMEOUT))
        link.send(rtc.SignalResponse(join=_join_response(room, participant)))
        for request in join.add_track_requests:
            client.add_track(request)
        if join.HasField("publisher_offer"):
            try:
                client.take_offer(join.publisher_offer)
            except SdpError as exc:
                logger.warning("%s sent an offer that cannot be answered: %s", participant.info.identity, exc)
                room.remove(participant, models.JOIN_FAILURE)
        hub.dispatcher.on_join(room.describe(), participant.info, config, is_first_caller=is_first_caller,
                               is_restarted=hub.is_restarted(room.name))  # fmt: skip
        return client

    def _resume(self, link: SignalLink, claims: Claims, join: rtc.JoinRequest) -> Client | None:
        assert claims.video is not None
        room = self._hub.rooms.get(claims.video.room)
        participant = room.participants.get(claims.identity) if room is not None else None
        if (
            room is None
            or participant is None
            or participant.info.sid != join.participant_sid
            or participant.peer is None
            or participant.peer.endpoint.is_closed
        ):
            self._hub.note_refused_resume(claims.video.room)
            leave = rtc.LeaveRequest(reason=models.STATE_MISMATCH, action=rtc.LeaveRequest.RECONNECT)
            link.send(rtc.SignalResponse(leave=leave))
            link.finish()
            return None
        if participant.link is not None:
            participant.link.abort()
        participant.cancel_timer()
        participant.attach(link)
        participant.negotiation.reset_request()
        reconnect = rtc.ReconnectResponse(server_info=server_info(), last_message_seq=participant.last_sequence)
        link.send(rtc.SignalResponse(reconnect=reconnect))
        room.send_update([p.info for p in room.participants.values()], to=[participant])
        logger.info("%s resumed in room %s", participant.info.identity, room.name)
        return Client(self._hub.shared, room, participant)


def _join_response(room: Room, participant: Participant) -> rtc.JoinResponse:
    return rtc.JoinResponse(
        room=room.describe(),
        participant=participant.info,
        other_participants=[p.info for p in room.others(participant) if not p.info.permission.hidden],
        server_info=server_info(),
        server_version=SERVER_VERSION,
        ping_interval=PING_INTERVAL,
        ping_timeout=PING_TIMEOUT,
        subscriber_primary=False,
        fast_publish=True,
        enabled_publish_codecs=[models.Codec(mime="audio/opus"), models.Codec(mime="video/VP8")],
    )

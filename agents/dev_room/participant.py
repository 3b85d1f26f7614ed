"""One participant: its place in the room, its websocket's messages, its media transport and tracks."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError
from livekit.api import VideoGrants
from livekit.api.access_token import Claims
from livekit.protocol import models, rtc

from vivavoce.agents.dev_room.data import forward_data
from vivavoce.agents.dev_room.info import may_publish, new_info, new_sid, receive_fmtp, text_size
from vivavoce.agents.dev_room.negotiation import Negotiation
from vivavoce.agents.dev_room.options import MAX_TEXT, MAX_TRACKS
from vivavoce.agents.dev_room.peer import RELIABLE, Peer
from vivavoce.agents.dev_room.sdp import Offer, parse_offer
from vivavoce.agents.dev_room.tracks import PublishedTrack, Subscription
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import RoomError

if TYPE_CHECKING:
    from vivavoce.agents.dev_room.room import Room
    from vivavoce.agents.dev_room.signalling import SignalLink

logger = logging.getLogger(__name__)

SILENT_START = 1.0
"""Seconds after which a negotiated track counts as sending even without packets."""


class Participant:
    """One member of a room, from the join to the leave; its websockets may change in between."""

    def __init__(self, room: Room, claims: Claims, client: models.ClientInfo, *, auto_subscribe: bool) -> None:
        self.room = room
        self.grants = claims.video or VideoGrants()
        self.auto_subscribe = auto_subscribe
        self.info = new_info(claims, self.grants, client)
        self.is_agent = self.info.kind == models.ParticipantInfo.AGENT
        self.is_gone = False
        self.link: SignalLink | None = None
        self.peer: Peer | None = None
        self.negotiation = Negotiation()
        self.tracks: dict[str, PublishedTrack] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.last_sequence = 0
        self.timer: asyncio.TimerHandle | None = None
        """Ends the participant when it expires: no transport after joining, or no websocket for too long."""
        self._by_ssrc: dict[int, PublishedTrack] = {}
        self._remote_ufrag = ""

    def send(self, response: rtc.SignalResponse) -> None:
        if self.link is not None:
            self.link.send(response)

    def touch(self) -> models.ParticipantInfo:
        """Bring the public description up to date; each one that is sent has a higher version."""
        self.info.version += 1
        del self.info.tracks[:]
        self.info.tracks.extend(track.info for track in self.tracks.values())
        self.info.is_publisher = bool(self.tracks)
        return self.info

    def cancel_timer(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    # Messages of the websocket

    def handle(self, request: rtc.SignalRequest) -> None:
        """Handle one message; messages without a meaning in an audio room are ignored.

        Raises:
            SdpError: An offer that cannot be answered.
        """
        match request.WhichOneof("message"):
            case "offer":
                self.take_offer(request.offer)
            case "add_track":
                self.add_track(request.add_track)
            case "mute":
                self._mute(request.mute)
            case "subscription":
                self._update_subscription(request.subscription)
            case "update_metadata":
                self._update_metadata(request.update_metadata)
            case "update_audio_track":
                self._update_audio_track(request.update_audio_track)
            case "ping_req":
                now = int(LoopClock().wall() * 1000)
                pong = rtc.Pong(last_ping_timestamp=request.ping_req.timestamp, timestamp=now)
                self.send(rtc.SignalResponse(pong_resp=pong))
            case "ping":
                self.send(rtc.SignalResponse(pong=int(LoopClock().wall() * 1000)))
            case "leave":
                self.room.remove(self, models.CLIENT_INITIATED)

    def take_offer(self, description: rtc.SessionDescription) -> None:
        """Answer an offer, start the transport with the first one, restart ICE if the client did."""
        offer = parse_offer(description.sdp)
        hub = self.room.hub
        if self.peer is None:
            self.peer = Peer(hub.mux, hub.certificate, self)
            hub.tasks.spawn(self._run_peer(self.peer, offer), name="peer")
        elif offer.ufrag != self._remote_ufrag:
            self.peer.endpoint.restart()
        self._remote_ufrag = offer.ufrag
        self.negotiation.place(offer)
        fmtp = {track.cid: receive_fmtp(track.info) for track in self.tracks.values()}
        end = (self.peer.endpoint, hub.mux.address, hub.fingerprint)
        self.send(rtc.SignalResponse(answer=self.negotiation.answer(offer, description.id, fmtp, end)))
        changed = self._bind_tracks()
        offered = self.negotiation.published
        for track in [t for t in self.tracks.values() if t.ssrc is not None and t.cid not in offered]:
            self.room.unpublish(track)
            changed = True
        if changed:
            self.room.announce(self)
        self.announce_served()
        self.ask_for_offer()

    async def _run_peer(self, peer: Peer, offer: Offer) -> None:
        limit = self.room.hub.options.join_timeout
        try:
            await peer.run(list(offer.fingerprints), offer.max_message_size, limit=limit)
        except RoomError as exc:
            if not self.is_gone:
                logger.warning("participant %s of room %s: %s", self.info.identity, self.room.name, exc)
                self.room.remove(self, models.MEDIA_FAILURE)
        finally:
            await peer.aclose()

    def ask_for_offer(self) -> None:
        request = self.negotiation.take_request()
        if request is not None:
            self.send(request)

    def announce_served(self) -> None:
        """Inform publishers that this participant hears them."""
        for subscription in self.subscriptions.values():
            subscription.track.announce_if_heard()

    # Publishing

    def add_track(self, request: rtc.AddTrackRequest) -> None:
        """Publish a track; its media section may have been offered already, or is offered next."""
        reason = self._why_not_publish(request)
        if reason is not None:
            logger.warning("participant %s may not publish: %s", self.info.identity, reason[1])
            response = rtc.RequestResponse(reason=reason[0], message=reason[1])
            response.add_track.CopyFrom(request)
            self.send(rtc.SignalResponse(request_response=response))
            return
        info = models.TrackInfo(
            sid=new_sid("TR"),
            type=models.AUDIO,
            name=request.name,
            source=request.source,
            muted=request.muted,
            disable_dtx=request.disable_dtx,
            stereo=request.stereo,
            stream=request.stream,
            encryption=request.encryption,
            audio_features=request.audio_features,
            mime_type="audio/opus",
            disable_red=True,
        )
        track = PublishedTrack(info=info, cid=request.cid, publisher=self)
        self.tracks[info.sid] = track
        self._bind_tracks()
        published = rtc.TrackPublishedResponse(cid=request.cid, track=info)
        self.send(rtc.SignalResponse(track_published=published))
        self.room.announce(self)
        self.room.offer_track(track)

    def _why_not_publish(self, request: rtc.AddTrackRequest) -> tuple[rtc.RequestResponse.Reason, str] | None:
        if request.type != models.AUDIO:
            return rtc.RequestResponse.UNSUPPORTED_TYPE, "the development room forwards audio only"
        if not may_publish(self.grants, request.source):
            name = models.TrackSource.Name(request.source).lower()
            return rtc.RequestResponse.NOT_ALLOWED, f"the token does not allow to publish from {name!r}"
        if len(self.tracks) >= MAX_TRACKS:
            return rtc.RequestResponse.LIMIT_EXCEEDED, f"a participant may publish {MAX_TRACKS} tracks"
        return None

    def _bind_tracks(self) -> bool:
        """Bind tracks to the sections that carry them; return whether one got a new section."""
        changed = False
        for track in self.tracks.values():
            section = self.negotiation.published.get(track.cid)
            if section is None or section.ssrc is None:
                continue
            if track.ssrc is None:
                # A client that is muted or silent so far sends no packet that would show its presence.
                asyncio.get_running_loop().call_later(SILENT_START, track.assume_media)
            track.ssrc, track.level_extension = section.ssrc, section.level_extension
            if track.info.mid != section.mid:
                track.info.mid = section.mid
                changed = True
        self._by_ssrc = {track.ssrc: track for track in self.tracks.values() if track.ssrc is not None}
        return changed

    def drop_track(self, track: PublishedTrack) -> None:
        self.tracks.pop(track.info.sid, None)
        if track.ssrc is not None:
            self._by_ssrc.pop(track.ssrc, None)

    def _mute(self, request: rtc.MuteTrackRequest) -> None:
        track = self.tracks.get(request.sid)
        if track is not None and track.info.muted != request.muted:
            track.info.muted = request.muted
            self.room.announce(self)

    def _update_audio_track(self, request: rtc.UpdateLocalAudioTrack) -> None:
        track = self.tracks.get(request.track_sid)
        if track is not None:
            del track.info.audio_features[:]
            track.info.audio_features.extend(request.features)
            self.room.announce(self)

    # Subscribing and describing

    def _update_subscription(self, request: rtc.UpdateSubscription) -> None:
        of_participants = (sid for tracks in request.participant_tracks for sid in tracks.track_sids)
        self.update_subscriptions([*request.track_sids, *of_participants], request.subscribe)

    def update_subscriptions(self, sids: list[str], subscribe: bool) -> None:
        """Begin or end hearing tracks; for a missing track, this participant gets an error."""
        for sid in sids:
            track = self.room.find_track(sid)
            if not subscribe:
                self.room.unsubscribe(self, sid)
            elif track is None:
                error = rtc.SubscriptionResponse(track_sid=sid, err=models.SE_TRACK_NOTFOUND)
                self.send(rtc.SignalResponse(subscription_response=error))
            else:
                self.room.subscribe(self, track)
        self.ask_for_offer()

    def _update_metadata(self, request: rtc.UpdateParticipantMetadata) -> None:
        response = rtc.RequestResponse(request_id=request.request_id, reason=rtc.RequestResponse.OK)
        response.update_metadata.CopyFrom(request)
        size = text_size(self.info, request.name, request.metadata, dict(request.attributes))
        if not self.grants.can_update_own_metadata:
            response.reason = rtc.RequestResponse.NOT_ALLOWED
            response.message = "the token lacks the grant canUpdateOwnMetadata"
        elif size > MAX_TEXT:
            response.reason = rtc.RequestResponse.LIMIT_EXCEEDED
            response.message = f"name, metadata and attributes may have {MAX_TEXT} characters together, got {size}"
        else:
            self.set_description(request.name, request.metadata, dict(request.attributes))
            self.room.announce(self)
        self.send(rtc.SignalResponse(request_response=response))

    def set_description(self, name: str, metadata: str, attributes: dict[str, str]) -> None:
        """Change the given fields; an attribute set to "" is deleted."""
        self.info.name = name or self.info.name
        self.info.metadata = metadata or self.info.metadata
        for key, value in attributes.items():
            if value:
                self.info.attributes[key] = value
            else:
                self.info.attributes.pop(key, None)

    # Events of the media transport

    def on_connected(self) -> None:
        if self.link is not None:  # otherwise the timer belongs to the lost websocket, and still counts
            self.cancel_timer()
        self.info.state = models.ParticipantInfo.ACTIVE
        self.room.announce(self)
        self.announce_served()

    def on_rtp(self, packet: bytes) -> None:
        track = self._by_ssrc.get(int.from_bytes(packet[8:12], "big"))
        if track is not None:
            track.forward(packet)

    def on_sender_report(self, ssrc: int, information: bytes) -> None:
        track = self._by_ssrc.get(ssrc)
        if track is not None:
            track.forward_report(information)

    def on_data(self, label: str, data: bytes) -> None:
        try:
            packet = models.DataPacket.FromString(data)
        except DecodeError:
            logger.debug("malformed data packet of %s dropped", self.info.identity)
            return
        if label == RELIABLE:
            self.last_sequence = packet.sequence
        if self.grants.can_publish_data:
            forward_data(self, label, packet)

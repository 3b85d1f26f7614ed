"""One client: the messages of its websocket and the events of its transport, carried out in its room."""

from __future__ import annotations

import logging

from google.protobuf.message import DecodeError
from livekit.protocol import models, rtc

from vivavoce.agents.dev_room.data import forward_data
from vivavoce.agents.dev_room.info import receive_fmtp, text_size
from vivavoce.agents.dev_room.options import MAX_TEXT
from vivavoce.agents.dev_room.participant import Participant
from vivavoce.agents.dev_room.peer import RELIABLE, Peer
from vivavoce.agents.dev_room.room import Room
from vivavoce.agents.dev_room.sdp import Offer, parse_offer
from vivavoce.agents.dev_room.shared import Shared
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import RoomError

logger = logging.getLogger(__name__)


class Client:
    """Acts on the messages of one participant. It has no state: a resumed participant gets another client."""

    def __init__(self, shared: Shared, room: Room, participant: Participant) -> None:
        self._shared = shared
        self.room = room
        self.participant = participant

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
                self.participant.send(rtc.SignalResponse(pong_resp=pong))
            case "ping":
                self.participant.send(rtc.SignalResponse(pong=int(LoopClock().wall() * 1000)))
            case "leave":
                self.room.remove(self.participant, models.CLIENT_INITIATED)

    def take_offer(self, description: rtc.SessionDescription) -> None:
        """Answer an offer, start the transport with the first one, restart ICE if the client did."""
        offer = parse_offer(description.sdp)
        participant, shared = self.participant, self._shared
        peer = participant.peer
        if peer is None:
            peer = participant.open_peer(shared.mux, shared.certificate, self)
            shared.tasks.spawn(self._run_peer(peer, offer), name="peer")
        peer.endpoint.follow(offer.ufrag)
        participant.negotiation.place(offer)
        fmtp = {track.cid: receive_fmtp(track.info) for track in participant.tracks.values()}
        end = (peer.endpoint, shared.mux.address, shared.fingerprint)
        participant.send(rtc.SignalResponse(answer=participant.negotiation.answer(offer, description.id, fmtp, end)))
        changed = participant.bind_tracks()
        offered = participant.negotiation.published
        for track in [t for t in participant.tracks.values() if t.info.mid and t.cid not in offered]:
            self.room.unpublish(participant, track)
            changed = True
        if changed:
            self.room.announce(participant)
        participant.announce_served()
        participant.ask_for_offer()

    async def _run_peer(self, peer: Peer, offer: Offer) -> None:
        limit = self._shared.options.join_timeout
        try:
            await peer.run(list(offer.fingerprints), offer.max_message_size, limit=limit)
        except RoomError as exc:
            if not self.participant.is_gone:
                identity = self.participant.info.identity
                logger.warning("participant %s of room %s: %s", identity, self.room.name, exc)
                self.room.remove(self.participant, models.MEDIA_FAILURE)
        finally:
            await peer.aclose()
        if self.participant.link is None:  # neither a websocket nor a transport: it cannot resume
            self.room.lose_link(self.participant)

    def add_track(self, request: rtc.AddTrackRequest) -> None:
        """Publish a track; its media section may have been offered already, or is offered next."""
        reason = self.participant.why_not_publish(request)
        if reason is not None:
            logger.warning("participant %s may not publish: %s", self.participant.info.identity, reason[1])
            response = rtc.RequestResponse(reason=reason[0], message=reason[1])
            response.add_track.CopyFrom(request)
            self.participant.send(rtc.SignalResponse(request_response=response))
            return
        track = self.participant.publish(request)
        published = rtc.TrackPublishedResponse(cid=request.cid, track=track.info)
        self.participant.send(rtc.SignalResponse(track_published=published))
        self.room.announce(self.participant)
        self.room.offer_track(self.participant, track)

    def _mute(self, request: rtc.MuteTrackRequest) -> None:
        track = self.participant.tracks.get(request.sid)
        if track is not None and track.info.muted != request.muted:
            track.info.muted = request.muted
            self.room.announce(self.participant)

    def _update_audio_track(self, request: rtc.UpdateLocalAudioTrack) -> None:
        track = self.participant.tracks.get(request.track_sid)
        if track is not None:
            del track.info.audio_features[:]
            track.info.audio_features.extend(request.features)
            self.room.announce(self.participant)

    def _update_subscription(self, request: rtc.UpdateSubscription) -> None:
        of_participants = (sid for tracks in request.participant_tracks for sid in tracks.track_sids)
        self.room.update_subscriptions(self.participant, [*request.track_sids, *of_participants], request.subscribe)

    def _update_metadata(self, request: rtc.UpdateParticipantMetadata) -> None:
        response = rtc.RequestResponse(request_id=request.request_id, reason=rtc.RequestResponse.OK)
        response.update_metadata.CopyFrom(request)
        size = text_size(self.participant.info, request.name, request.metadata, dict(request.attributes))
        if not self.participant.grants.can_update_own_metadata:
            response.reason = rtc.RequestResponse.NOT_ALLOWED
            response.message = "the token lacks the grant canUpdateOwnMetadata"
        elif size > MAX_TEXT:
            response.reason = rtc.RequestResponse.LIMIT_EXCEEDED
            response.message = f"name, metadata and attributes may have {MAX_TEXT} characters together, got {size}"
        else:
            self.participant.set_description(request.name, request.metadata, dict(request.attributes))
            self.room.announce(self.participant)
        self.participant.send(rtc.SignalResponse(request_response=response))

    # Events of the media transport

    def on_connected(self) -> None:
        if self.participant.link is not None:  # otherwise the timer belongs to the lost websocket, and still counts
            self.participant.cancel_timer()
        self.participant.info.state = models.ParticipantInfo.ACTIVE
        self.room.announce(self.participant)
        self.participant.announce_served()

    def on_rtp(self, packet: bytes) -> None:
        track = self.participant.track_of(int.from_bytes(packet[8:12], "big")) or self.participant.learn_ssrc(packet)
        if track is not None:
            track.forward(packet)

    def on_sender_report(self, ssrc: int, information: bytes) -> None:
        track = self.participant.track_of(ssrc)
        if track is not None:
            track.forward_report(information)

    def on_picture_wanted(self, ssrc: int) -> None:
        self.participant.want_picture(ssrc)

    def on_data(self, label: str, data: bytes) -> None:
        try:
            packet = models.DataPacket.FromString(data)
        except DecodeError:
            logger.debug("malformed data packet of %s dropped", self.participant.info.identity)
            return
        if label == RELIABLE:
            self.participant.note_sequence(packet.sequence)
        if self.participant.grants.can_publish_data:
            forward_data(self.room, self.participant, label, packet)

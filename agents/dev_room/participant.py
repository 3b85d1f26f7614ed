"""One participant: its description, its rights, its websocket and transport, its tracks and subscriptions."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiortc.rtcdtlstransport import RTCCertificate
from livekit.api import VideoGrants
from livekit.api.access_token import Claims
from livekit.protocol import models, rtc

from vivavoce.agents.dev_room import rtp
from vivavoce.agents.dev_room.ice import UdpMux
from vivavoce.agents.dev_room.info import may_publish, new_info, new_sid
from vivavoce.agents.dev_room.link import SignalLink
from vivavoce.agents.dev_room.negotiation import Negotiation
from vivavoce.agents.dev_room.options import MAX_TRACKS
from vivavoce.agents.dev_room.peer import Peer, PeerEvents
from vivavoce.agents.dev_room.tracks import PublishedTrack, Subscription

SILENT_START = 1.0
"""Seconds after which a negotiated track counts as sending even without packets."""


class Participant:
    """One member of a room, from the join to the leave; its websockets may change in between."""

    def __init__(self, claims: Claims, client: models.ClientInfo, *, auto_subscribe: bool) -> None:
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
        """Of the newest data packet on the reliable channel; a resuming client sends the later ones again."""
        self._timer: asyncio.TimerHandle | None = None
        """Removes the participant: no transport after joining, or no websocket for too long."""
        self._by_ssrc: dict[int, PublishedTrack] = {}

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

    def set_description(self, name: str, metadata: str, attributes: dict[str, str]) -> None:
        """Change the given fields; an attribute set to "" is deleted."""
        self.info.name = name or self.info.name
        self.info.metadata = metadata or self.info.metadata
        for key, value in attributes.items():
            if value:
                self.info.attributes[key] = value
            else:
                self.info.attributes.pop(key, None)

    # The ways to the client

    def attach(self, link: SignalLink) -> None:
        """Send on this websocket from now on."""
        self.link = link

    def detach(self, link: SignalLink) -> bool:
        """Stop sending on this websocket; False if another one has replaced it."""
        if self.link is not link:
            return False
        self.link = None
        return True

    def open_peer(self, mux: UdpMux, certificate: RTCCertificate, events: PeerEvents) -> Peer:
        """Make the transport, for the first offer."""
        self.peer = Peer(mux, certificate, events)
        for subscription in self.subscriptions.values():
            subscription.peer = self.peer
        return self.peer

    def start_timer(self, seconds: float, expire: Callable[[], None]) -> None:
        """Call `expire` after that time, unless the timer is cancelled or started again."""
        self.cancel_timer()
        self._timer = asyncio.get_running_loop().call_later(seconds, expire)

    def cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def note_sequence(self, sequence: int) -> None:
        """Record the number of the newest reliable data packet."""
        self.last_sequence = sequence

    def leave(self) -> None:
        """Mark the participant as gone."""
        self.is_gone = True
        self.cancel_timer()

    # Tracks

    def why_not_publish(self, request: rtc.AddTrackRequest) -> tuple[rtc.RequestResponse.Reason, str] | None:
        """Return the reason to refuse a track, as code and text; None if it is allowed."""
        if request.type not in (models.AUDIO, models.VIDEO):
            return rtc.RequestResponse.UNSUPPORTED_TYPE, "the development room forwards audio and video only"
        if not may_publish(self.grants, request.source):
            name = models.TrackSource.Name(request.source).lower()
            return rtc.RequestResponse.NOT_ALLOWED, f"the token does not allow to publish from {name!r}"
        if len(self.tracks) >= MAX_TRACKS:
            return rtc.RequestResponse.LIMIT_EXCEEDED, f"a participant may publish {MAX_TRACKS} tracks"
        return None

    def publish(self, request: rtc.AddTrackRequest) -> PublishedTrack:
        """Add a track; its media section may have been offered already, or is offered next."""
        info = models.TrackInfo(
            sid=new_sid("TR"),
            type=request.type,
            width=request.width,
            height=request.height,
            name=request.name,
            source=request.source,
            muted=request.muted,
            disable_dtx=request.disable_dtx,
            stereo=request.stereo,
            stream=request.stream,
            encryption=request.encryption,
            audio_features=request.audio_features,
            mime_type="audio/opus" if request.type == models.AUDIO else "video/VP8",
            disable_red=True,
        )
        track = PublishedTrack(info, request.cid, self.info.sid, self.send, self._send_rtcp)
        self.tracks[info.sid] = track
        self.bind_tracks()
        return track

    def _send_rtcp(self, packet: bytes) -> None:
        if self.peer is not None:
            self.peer.send_rtcp(packet)

    def bind_tracks(self) -> bool:
        """Bind tracks to the sections that carry them; return whether one got a new section."""
        changed = False
        for track in self.tracks.values():
            section = self.negotiation.published.get(track.cid)
            if section is None:
                continue
            track.mid_extension = section.mid_extension
            if track.info.mid != section.mid:
                track.info.mid = section.mid
                changed = True
            if section.ssrc is None:
                continue
            if track.ssrc is None:
                # A client that is muted or silent so far sends no packet that would show its presence.
                asyncio.get_running_loop().call_later(SILENT_START, track.assume_media)
            track.ssrc, track.level_extension = section.ssrc, section.level_extension
        self._by_ssrc = {track.ssrc: track for track in self.tracks.values() if track.ssrc is not None}
        return changed

    def drop_track(self, track: PublishedTrack) -> None:
        self.tracks.pop(track.info.sid, None)
        if track.ssrc is not None:
            self._by_ssrc.pop(track.ssrc, None)

    def track_of(self, ssrc: int) -> PublishedTrack | None:
        """Return the published track that has this SSRC."""
        return self._by_ssrc.get(ssrc)

    def learn_ssrc(self, packet: bytes) -> PublishedTrack | None:
        """Return the track of a packet whose SSRC was not announced, by the section that the packet names."""
        unknown = [track for track in self.tracks.values() if track.ssrc is None and track.info.mid]
        if not unknown or not rtp.is_whole(packet):
            return None
        for track in unknown:
            mid = None if track.mid_extension is None else rtp.extension(packet, track.mid_extension)
            if mid is not None and mid.decode(errors="replace") == track.info.mid:
                track.ssrc = int.from_bytes(packet[8:12], "big")
                self._by_ssrc[track.ssrc] = track
                return track
        return None

    def want_picture(self, ssrc: int) -> None:
        """Ask the publisher of the video that this participant receives by that SSRC for a whole picture."""
        for subscription in self.subscriptions.values():
            if subscription.ssrc == ssrc:
                subscription.track.want_picture()

    def subscribe(self, track: PublishedTrack) -> None:
        """Add a subscription, unless it exists or the track or the token does not allow it."""
        sid = track.info.sid
        if sid not in self.subscriptions and sid not in self.tracks and self.grants.can_subscribe:
            subscription = Subscription(track, self.peer)
            self.subscriptions[sid] = subscription
            track.subscriptions[self.info.sid] = subscription
            self.negotiation.subscribe(subscription)

    def unsubscribe(self, track_sid: str) -> None:
        subscription = self.subscriptions.pop(track_sid, None)
        if subscription is not None:
            subscription.track.subscriptions.pop(self.info.sid, None)
            self.negotiation.unsubscribe(subscription)

    def unsubscribe_all(self) -> None:
        """End all subscriptions of a participant that is gone."""
        for subscription in self.subscriptions.values():
            subscription.track.subscriptions.pop(self.info.sid, None)
        self.subscriptions.clear()

    def ask_for_offer(self) -> None:
        request = self.negotiation.take_request()
        if request is not None:
            self.send(request)

    def announce_served(self) -> None:
        """Inform publishers that this participant receives them; video begins with a whole picture."""
        for subscription in self.subscriptions.values():
            subscription.track.announce_if_heard()
            if subscription.is_served:
                subscription.track.want_picture()

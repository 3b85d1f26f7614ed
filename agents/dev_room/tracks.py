"""Published tracks and their subscriptions: forwarding of packets, loudness and loss."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from livekit.protocol import models
from livekit.protocol import rtc as rtc_messages
from livekit.protocol.models import TrackInfo

from vivavoce.agents.dev_room import rtp

if TYPE_CHECKING:
    from vivavoce.agents.dev_room.peer import Peer

logger = logging.getLogger(__name__)

LOUD_DBOV = 35
"""A packet this many dB below overload, or louder, counts as speech."""


@dataclass(slots=True)
class LevelMeter:
    """Collects the audio levels in a client's packets, between two readings."""

    loud_packets: int = 0
    loudest_dbov: int = 127

    def add(self, dbov: int) -> None:
        self.loudest_dbov = min(self.loudest_dbov, dbov)
        if dbov <= LOUD_DBOV:
            self.loud_packets += 1

    def take(self, min_packets: int) -> float:
        """Return the linear level (0 to 1) since the last call; 0 unless that many packets were loud."""
        level = 10 ** (-self.loudest_dbov / 20) if self.loud_packets >= min_packets else 0.0
        self.loud_packets, self.loudest_dbov = 0, 127
        return level


@dataclass(slots=True)
class LossMeter:
    """Counts received packets against their sequence numbers, between two readings."""

    received: int = 0
    expected: int = 0
    last_sequence: int | None = None

    def add(self, sequence: int) -> None:
        self.received += 1
        if self.last_sequence is None:
            self.expected, self.last_sequence = self.expected + 1, sequence
            return
        step = (sequence - self.last_sequence) & 0xFFFF
        if 0 < step < 0x8000:
            self.expected += step
            self.last_sequence = sequence

    def take(self) -> float:
        """Return the share of packets lost since the last call (0 to 1)."""
        loss = max(0.0, 1 - self.received / self.expected) if self.expected else 0.0
        self.received = self.expected = 0
        return loss


@dataclass(slots=True, eq=False)
class Subscription:
    """One participant's copy of a track; it flows once a media section carries it."""

    track: PublishedTrack
    peer: Peer | None
    """The subscriber's transport; None before its first offer."""
    ssrc: int = field(default_factory=lambda: secrets.randbelow(0xFFFFFFFE) + 1)
    mid: str | None = None
    payload_type: int = 111

    @property
    def is_served(self) -> bool:
        return self.mid is not None and self.peer is not None and self.peer.is_connected


@dataclass(slots=True, eq=False)
class PublishedTrack:
    """One participant's audio or video track."""

    info: TrackInfo
    cid: str
    publisher_sid: str
    send: Callable[[rtc_messages.SignalResponse], None]
    """Sends a message to the publisher."""
    send_rtcp: Callable[[bytes], None]
    """Sends an RTCP packet to the publisher."""
    ssrc: int | None = None
    mid_extension: int | None = None
    """Of a section without a known SSRC: names the section in its packets."""
    level_extension: int | None = None
    has_media: bool = False
    is_announced: bool = False
    """Whether the publisher has been informed that the track has a listener."""
    subscriptions: dict[str, Subscription] = field(default_factory=dict)
    """By the subscriber's sid."""
    levels: LevelMeter = field(default_factory=LevelMeter)
    losses: LossMeter = field(default_factory=LossMeter)

    @property
    def is_video(self) -> bool:
        return self.info.type == models.VIDEO

    def forward(self, packet: bytes) -> None:
        """Forward one decrypted RTP packet to all served subscribers; malformed and muted ones are dropped."""
        try:
            offset = rtp.payload_offset(packet)
        except ValueError as exc:
            logger.debug("packet of track %s dropped: %s", self.info.sid, exc)
            return
        self.losses.add(int.from_bytes(packet[2:4], "big"))
        if not self.has_media:
            self.assume_media()
        if self.info.muted:
            return
        if self.level_extension is not None:
            level = rtp.audio_level(packet, self.level_extension)
            if level is not None:
                self.levels.add(level)
        for subscription in self.subscriptions.values():
            if subscription.mid is not None and subscription.peer is not None:
                subscription.peer.send_rtp(rtp.rewritten(packet, offset, subscription.ssrc, subscription.payload_type))

    def want_picture(self) -> None:
        """Ask the publisher of a video for a whole picture, from which a new receiver can begin."""
        if self.is_video and self.ssrc is not None:
            self.send_rtcp(rtp.make_picture_request(self.ssrc))

    def assume_media(self) -> None:
        """Treat the publisher as sending, as its first packet would."""
        self.has_media = True
        self.announce_if_heard()

    def announce_if_heard(self) -> None:
        """Inform the publisher, once, that the track has a listener; agents wait for it before they speak.

        Not before media flows, as on a real server: the Python SDK loses the message, and with it the agent's voice, if
        it comes before the publishing call has returned.
        """
        if self.has_media and not self.is_announced and any(s.is_served for s in self.subscriptions.values()):
            self.is_announced = True
            subscribed = rtc_messages.TrackSubscribed(track_sid=self.info.sid)
            self.send(rtc_messages.SignalResponse(track_subscribed=subscribed))

    def forward_report(self, information: bytes) -> None:
        """Forward the publisher's sender report: timestamps are forwarded unchanged, so it stays correct."""
        for subscription in self.subscriptions.values():
            if subscription.mid is not None and subscription.peer is not None:
                subscription.peer.send_rtcp(rtp.make_sender_report(subscription.ssrc, information))

"""One client's media sections: the track of each, and when the client must offer again.

The client always offers and the room always answers. A track stays on its section until it is unsubscribed; then the
section is free for another one.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from livekit.protocol.rtc import MediaSectionsRequirement, SessionDescription, SignalResponse

from vivavoce.agents.dev_room.sdp import (
    CODECS,
    Kind,
    LocalTransport,
    Offer,
    OfferedSection,
    SectionAnswer,
    write_answer,
)
from vivavoce.agents.dev_room.tracks import Subscription

if TYPE_CHECKING:
    from aiortc.rtcdtlstransport import RTCDtlsFingerprint

    from vivavoce.agents.dev_room.ice import Address, IceEndpoint


@dataclass(slots=True)
class Negotiation:
    """The state of one client's offers and answers, without any I/O."""

    waiting: list[Subscription] = field(default_factory=list)
    """Subscriptions that no section carries yet, oldest first."""
    carried: dict[str, Subscription] = field(default_factory=dict)
    """Subscriptions by the mid of the section that carries them."""
    published: dict[str, OfferedSection] = field(default_factory=dict)
    """Sections that the client sends on, by client track id."""
    _free: dict[Kind, int] = field(default_factory=dict)
    _stale: dict[str, Kind] = field(default_factory=dict)
    _is_requested: bool = False
    _has_offer: bool = False
    _answers: int = 0
    _session_id: int = field(default_factory=lambda: secrets.randbits(62))

    def subscribe(self, subscription: Subscription) -> None:
        self.waiting.append(subscription)

    def unsubscribe(self, subscription: Subscription) -> None:
        if subscription in self.waiting:
            self.waiting.remove(subscription)
        if subscription.mid is not None and self.carried.get(subscription.mid) is subscription:
            del self.carried[subscription.mid]
            self._stale[subscription.mid] = kind_of(subscription)
            subscription.mid = None

    def place(self, offer: Offer) -> None:
        """Take an offer: record the client's published tracks and put waiting tracks on free sections."""
        self._is_requested, self._has_offer = False, True
        self._stale.clear()
        sections = {s.mid: s for s in offer.sections if s.kind in CODECS and s.is_bundled and s.codec is not None}
        self.published = {
            s.cid: s for s in sections.values() if s.direction in ("sendonly", "sendrecv") and s.cid is not None
        }
        listening = {mid: s for mid, s in sections.items() if s.direction == "recvonly"}
        for mid, subscription in list(self.carried.items()):
            if mid not in listening:
                del self.carried[mid]
                subscription.mid = None
                self.waiting.insert(0, subscription)
        free = [section for mid, section in listening.items() if mid not in self.carried]
        for subscription in list(self.waiting):
            section = next((section for section in free if section.kind == kind_of(subscription)), None)
            if section is not None:
                assert section.codec is not None
                free.remove(section)
                self.waiting.remove(subscription)
                subscription.mid, subscription.payload_type = section.mid, section.codec[0]
                self.carried[section.mid] = subscription
        self._free = {kind: sum(section.kind == kind for section in free) for kind in ("audio", "video")}

    def answer(
        self,
        offer: Offer,
        offer_id: int,
        receive_fmtp: dict[str, str],
        end: tuple[IceEndpoint, Address, RTCDtlsFingerprint],
    ) -> SessionDescription:
        """Write the answer to the offer just placed.

        Args:
            offer: The same offer.
            offer_id: Its number, returned to the client.
            receive_fmtp: Opus parameters by client track id, for the client's own tracks.
            end: Our endpoint, the socket's address and our certificate's fingerprint.
        """
        answers = {
            section.mid: SectionAnswer(
                direction="recvonly", fmtp=receive_fmtp.get(cid, "minptime=10;useinbandfec=1;usedtx=1")
            )
            for cid, section in self.published.items()
        }
        for mid, subscription in self.carried.items():
            track = subscription.track
            answers[mid] = SectionAnswer(
                direction="sendonly",
                ssrc=subscription.ssrc,
                msid=f"{track.publisher_sid}|{track.info.sid} {track.info.sid}",
                fmtp="minptime=10;useinbandfec=1" + (";stereo=1;sprop-stereo=1" if track.info.stereo else ""),
            )
        endpoint, (address, port), fingerprint = end
        ufrag, pwd = endpoint.credentials
        self._answers += 1
        transport = LocalTransport(
            address=address,
            port=port,
            ufrag=ufrag,
            pwd=pwd,
            fingerprint=fingerprint,
            session_id=self._session_id,
            version=self._answers,
        )
        text = write_answer(offer, answers, transport)
        mid_to_track_id = {mid: s.track.info.sid for mid, s in self.carried.items()}
        return SessionDescription(type="answer", sdp=text, id=offer_id, mid_to_track_id=mid_to_track_id)

    def reset_request(self) -> None:
        """Forget an outstanding request: the websocket it was sent on is gone."""
        self._is_requested = False

    def take_request(self) -> SignalResponse | None:
        """Return the message that makes the client offer again, if it must and has not been asked yet."""
        if not self._has_offer or self._is_requested or not (self.waiting or self._stale):
            return None
        self._is_requested = True
        audios, videos = self._missing("audio"), self._missing("video")
        # None missing is legal and means "just offer again".
        requirement = MediaSectionsRequirement(num_audios=audios, num_videos=videos)
        return SignalResponse(media_sections_requirement=requirement)

    def _missing(self, kind: Kind) -> int:
        waiting = sum(kind_of(subscription) == kind for subscription in self.waiting)
        stale = sum(one == kind for one in self._stale.values())
        return max(0, waiting - self._free.get(kind, 0) - stale)


def kind_of(subscription: Subscription) -> Kind:
    """Return the kind of section that carries it."""
    return "video" if subscription.track.is_video else "audio"

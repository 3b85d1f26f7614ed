"""The media section of each track, requests to offer again, and notices to publishers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

from aiortc.rtcdtlstransport import RTCDtlsFingerprint
from livekit.protocol.models import ParticipantInfo, TrackInfo, TrackType
from livekit.protocol.rtc import SignalResponse

from vivavoce.agents.dev_room import rtp
from vivavoce.agents.dev_room.negotiation import Negotiation
from vivavoce.agents.dev_room.sdp import Direction, Offer, OfferedSection
from vivavoce.agents.dev_room.tracks import PublishedTrack, Subscription


@dataclass
class Transport:
    is_connected: bool = True
    sent: list[bytes] = field(default_factory=list)

    def send_rtp(self, packet: bytes) -> None:
        self.sent.append(packet)


@dataclass
class Member:
    """A participant, as tracks see one."""

    info: ParticipantInfo = field(default_factory=lambda: ParticipantInfo(sid="PA_1"))
    peer: Transport = field(default_factory=Transport)
    told: list[SignalResponse] = field(default_factory=list)

    def send(self, response: SignalResponse) -> None:
        self.told.append(response)


def subscription(sid: str) -> Subscription:
    return Subscription(
        PublishedTrack(TrackInfo(sid=sid), "cid", "PA_1", Member().send, Member().peer.send_rtp), peer=None
    )


def offer(*directions: Direction, cids: dict[int, str] | None = None, videos: int = 0) -> Offer:
    """An offer; its last `videos` sections are for video."""
    sections = tuple(
        OfferedSection(
            mid=str(i),
            kind="audio" if i < len(directions) - videos else "video",
            profile="UDP/TLS/RTP/SAVPF",
            direction=direction,
            is_bundled=True,
            codec=(111, "opus/48000/2") if i < len(directions) - videos else (96, "VP8/90000"),
            cid=(cids or {}).get(i),
            ssrc=1,
        )
        for i, direction in enumerate(directions)
    )
    fingerprint = RTCDtlsFingerprint(algorithm="sha-256", value="AB")
    return Offer(sections=sections, ufrag="u", fingerprints=(fingerprint,), max_message_size=65_536)


def asked(negotiation: Negotiation) -> int | None:
    """How many sections the client is asked for; None when it is not asked."""
    request = negotiation.take_request()
    return None if request is None else request.media_sections_requirement.num_audios


def test_nothing_is_asked_before_the_first_offer() -> None:
    negotiation = Negotiation()
    negotiation.subscribe(subscription("TR_1"))
    assert asked(negotiation) is None


def test_tracks_take_the_free_sections_and_the_rest_is_asked_for_once() -> None:
    negotiation = Negotiation()
    tracks = [subscription(f"TR_{i}") for i in range(5)]
    for track in tracks:
        negotiation.subscribe(track)
    negotiation.place(offer("recvonly", "recvonly", "recvonly"))
    assert [t.mid for t in tracks] == ["0", "1", "2", None, None]
    assert asked(negotiation) == 2
    assert asked(negotiation) is None
    negotiation.place(offer("recvonly", "recvonly", "recvonly", "recvonly", "recvonly"))
    assert [t.mid for t in tracks] == ["0", "1", "2", "3", "4"]
    assert asked(negotiation) is None


def test_a_track_for_a_free_section_asks_for_an_offer_without_new_sections() -> None:
    negotiation = Negotiation()
    negotiation.place(offer("recvonly"))
    negotiation.subscribe(subscription("TR_1"))
    assert asked(negotiation) == 0


def test_a_gone_track_frees_its_section_for_the_next_and_others_stay() -> None:
    negotiation = Negotiation()
    first, second, third = (subscription(f"TR_{i}") for i in range(3))
    negotiation.subscribe(first)
    negotiation.subscribe(second)
    negotiation.place(offer("recvonly", "recvonly"))
    negotiation.unsubscribe(first)
    assert first.mid is None
    negotiation.subscribe(third)
    assert asked(negotiation) == 0
    negotiation.place(offer("recvonly", "recvonly"))
    assert (third.mid, second.mid) == ("0", "1")


def test_a_gone_track_alone_asks_for_an_offer_so_that_the_client_sees_its_end() -> None:
    negotiation = Negotiation()
    track = subscription("TR_1")
    negotiation.subscribe(track)
    negotiation.place(offer("recvonly"))
    negotiation.unsubscribe(track)
    assert asked(negotiation) == 0
    negotiation.place(offer("recvonly"))
    assert asked(negotiation) is None


def test_a_track_whose_section_the_client_took_away_waits_first_in_line() -> None:
    negotiation = Negotiation()
    first, second = subscription("TR_1"), subscription("TR_2")
    negotiation.subscribe(first)
    negotiation.place(offer("recvonly"))
    negotiation.subscribe(second)
    negotiation.place(offer("inactive", "recvonly"))
    assert (first.mid, second.mid) == ("1", None)


def test_after_a_resume_the_client_may_be_asked_again() -> None:
    negotiation = Negotiation()
    negotiation.place(offer())
    negotiation.subscribe(subscription("TR_1"))
    assert asked(negotiation) == 1
    negotiation.reset_request()
    assert asked(negotiation) == 1


def test_what_the_client_sends_is_known_by_its_own_track_id() -> None:
    negotiation = Negotiation()
    negotiation.place(offer("sendonly", "recvonly", "sendrecv", cids={0: "mic", 2: "music"}))
    assert {cid: section.mid for cid, section in negotiation.published.items()} == {"mic": "0", "music": "2"}
    negotiation.place(offer("inactive", "recvonly", "sendrecv", cids={0: "mic", 2: "music"}))
    assert set(negotiation.published) == {"music"}


PACKET = b"\x80\x6f\x00\x01" + bytes(8) + b"opus"


def published() -> tuple[PublishedTrack, Subscription, Any, Any]:
    publisher, listener = Member(), Member()
    track = PublishedTrack(TrackInfo(sid="TR_1"), "cid", "PA_1", publisher.send, publisher.peer.send_rtp)
    heard = Subscription(track, peer=cast(Any, listener.peer))
    track.subscriptions["PA_2"] = heard
    return track, heard, publisher, listener


def test_the_publisher_is_told_once_when_media_flows_to_somebody() -> None:
    track, heard, publisher, listener = published()
    track.forward(PACKET)
    assert not publisher.told  # nobody is served yet
    heard.mid = "0"
    track.announce_if_heard()
    track.announce_if_heard()
    assert [told.track_subscribed.track_sid for told in publisher.told] == ["TR_1"]
    track.forward(PACKET)
    assert len(listener.peer.sent) == 1


def test_the_publisher_is_not_told_before_its_media_flows() -> None:
    track, heard, publisher, _ = published()
    heard.mid = "0"
    track.announce_if_heard()
    assert not publisher.told
    track.assume_media()
    assert len(publisher.told) == 1


def test_a_muted_track_is_not_forwarded() -> None:
    track, heard, _, listener = published()
    heard.mid = "0"
    track.info.muted = True
    track.forward(PACKET)
    assert not listener.peer.sent


def test_a_malformed_packet_is_dropped() -> None:
    track, heard, publisher, listener = published()
    heard.mid = "0"
    track.forward(b"\x9f" + PACKET[1:])
    assert not listener.peer.sent
    assert not publisher.told


def test_audio_and_video_take_sections_of_their_own_kind() -> None:
    negotiation = Negotiation()
    seen = Subscription(
        PublishedTrack(TrackInfo(sid="TR_v", type=TrackType.VIDEO), "c", "PA_1", Member().send, Transport().send_rtp),
        peer=None,
    )
    heard, more = subscription("TR_1"), subscription("TR_2")
    for one in (heard, more, seen):
        negotiation.subscribe(one)
    negotiation.place(offer("recvonly", "recvonly", videos=1))
    assert (heard.mid, more.mid, seen.mid, seen.payload_type) == ("0", None, "1", 96)
    request = negotiation.take_request()
    assert request is not None
    requirement = request.media_sections_requirement
    assert (requirement.num_audios, requirement.num_videos) == (1, 0)
    negotiation.unsubscribe(seen)
    negotiation.place(offer("recvonly", "recvonly", "recvonly", "inactive", videos=1))
    assert more.mid == "1"


def test_a_publisher_of_video_is_asked_for_a_whole_picture_and_one_of_audio_is_not() -> None:
    publisher = Member()
    for kind in (TrackType.VIDEO, TrackType.AUDIO):
        track = PublishedTrack(TrackInfo(sid="TR_v", type=kind), "c", "PA_1", publisher.send, publisher.peer.send_rtp)
        track.want_picture()  # nothing is known of its packets yet
        track.ssrc = 9
        track.want_picture()
    assert publisher.peer.sent == [rtp.make_picture_request(9)]

"""Offers and answers: the section of each track, and answers to malformed offers."""

from __future__ import annotations

import pytest
from aiortc.rtcdtlstransport import RTCDtlsFingerprint
from aiortc.sdp import SessionDescription
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.agents.dev_room.sdp import (
    AUDIO_LEVEL_URI,
    MID_URI,
    LocalTransport,
    SdpError,
    SectionAnswer,
    parse_offer,
    write_answer,
)

SESSION = """v=0
o=- 1 2 IN IP4 127.0.0.1
s=-
t=0 0
a=group:BUNDLE 0 1 2 3
a=msid-semantic: WMS *
"""
TRANSPORT = """a=ice-ufrag:abcd
a=ice-pwd:0123456789012345678901
a=fingerprint:sha-256 AB:CD
a=setup:actpass
"""
LISTENING = f"""m=audio 9 UDP/TLS/RTP/SAVPF 63 111
c=IN IP4 0.0.0.0
{TRANSPORT}a=mid:0
a=recvonly
a=extmap:1 {AUDIO_LEVEL_URI}
a=extmap:2 urn:ietf:params:rtp-hdrext:sdes:mid
a=rtpmap:63 red/48000/2
a=rtpmap:111 opus/48000/2
"""
SENDING = (
    LISTENING.replace("a=mid:0", "a=mid:1").replace("recvonly", "sendonly") + "a=msid:- mic-1\na=ssrc:77 cname:x\n"
)
VIDEO = f"""m=video 9 UDP/TLS/RTP/SAVPF 96 97
c=IN IP4 0.0.0.0
{TRANSPORT}a=mid:2
a=recvonly
a=rtpmap:96 VP8/90000
a=rtpmap:97 rtx/90000
a=fmtp:97 apt=96
"""
DATA = f"""m=application 9 UDP/DTLS/SCTP webrtc-datachannel
c=IN IP4 0.0.0.0
{TRANSPORT}a=mid:3
a=sctp-port:5000
a=max-message-size:262144
"""
OFFER = (SESSION + LISTENING + SENDING + VIDEO + DATA).replace("\n", "\r\n")
END = LocalTransport(
    address="127.0.0.1",
    port=4000,
    ufrag="ours",
    pwd="ourpassword",
    fingerprint=RTCDtlsFingerprint(algorithm="sha-256", value="EF:01"),
    session_id=5,
    version=1,
)


def test_an_offer_is_read_section_by_section() -> None:
    offer = parse_offer(OFFER)
    assert [(s.mid, s.kind, s.direction) for s in offer.sections] == [
        ("0", "audio", "recvonly"),
        ("1", "audio", "sendonly"),
        ("2", "video", "recvonly"),
        ("3", "application", "sendrecv"),
    ]
    sending = offer.sections[1]
    assert (sending.ssrc, sending.cid, sending.level_extension) == (77, "mic-1", 1)
    assert sending.codec == (111, "opus/48000/2")
    assert (offer.ufrag, offer.max_message_size) == ("abcd", 262_144)


def test_the_answer_keeps_order_mids_and_bundle_and_says_ice_lite() -> None:
    answer = write_answer(parse_offer(OFFER), {}, END)
    parsed = SessionDescription.parse(answer)
    assert "a=ice-lite\r\n" in answer
    assert [m.rtp.muxId for m in parsed.media] == ["0", "1", "2", "3"]
    assert parsed.group[0].items == ["0", "1", "2", "3"]
    assert [m.direction for m in parsed.media[:3]] == ["inactive"] * 3
    for media in parsed.media:
        assert media.dtls is not None
        assert media.dtls.role == "server"  # a=setup:passive
        assert [(c.ip, c.port) for c in media.ice_candidates] == [("127.0.0.1", 4000)]


def test_audio_is_opus_alone_and_levels_are_accepted_everywhere() -> None:
    parsed = SessionDescription.parse(write_answer(parse_offer(OFFER), {}, END))
    for media in parsed.media[:2]:
        assert [c.name for c in media.rtp.codecs] == ["opus"]
        assert [e.uri for e in media.rtp.headerExtensions] == [AUDIO_LEVEL_URI]


def test_a_carried_track_has_its_source_and_names() -> None:
    answers = {"0": SectionAnswer(direction="sendonly", ssrc=5, msid="PA_x|TR_y TR_y")}
    first = SessionDescription.parse(write_answer(parse_offer(OFFER), answers, END)).media[0]
    assert (first.direction, first.msid, [s.ssrc for s in first.ssrc]) == ("sendonly", "PA_x|TR_y TR_y", [5])


def test_a_stopped_section_is_refused_and_left_out_of_the_bundle() -> None:
    parsed = SessionDescription.parse(write_answer(parse_offer(OFFER.replace("0 1 2 3", "0 1 3")), {}, END))
    assert parsed.media[2].port == 0
    assert parsed.group[0].items == ["0", "1", "3"]


def test_audio_without_opus_is_refused() -> None:
    text = OFFER.replace("a=rtpmap:111 opus/48000/2", "a=rtpmap:111 PCMU/8000/1")
    parsed = SessionDescription.parse(write_answer(parse_offer(text), {}, END))
    assert parsed.media[0].port == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "1 to 128 media sections, got 0"),
        ("v=0\r\nm=audio x", "malformed"),
        (OFFER.replace("a=mid:1", "a=mid:0"), "a=mid of its own"),
        (OFFER.replace("a=group:BUNDLE 0 1 2 3\r\n", ""), "bundled"),
        (OFFER.replace("a=setup:actpass", "a=setup:passive"), "a=setup"),
        (OFFER.replace("a=fingerprint:sha-256 AB:CD\r\n", ""), "a=fingerprint"),
        (OFFER.replace("a=ice-pwd:0123456789012345678901\r\n", ""), "a=ice-ufrag and a=ice-pwd"),
        (OFFER.replace("m=video", "m=image"), "audio, video or application"),
        (SESSION + LISTENING * 129, "got 129"),
    ],
)
def test_an_offer_that_cannot_be_answered_says_why(text: str, said: str) -> None:
    with pytest.raises(SdpError, match=said):
        parse_offer(text)


@given(st.integers(0, len(OFFER) - 1), st.text(max_size=20), st.integers(0, 40))
def test_a_damaged_offer_is_answered_or_refused_and_never_more(at: int, insert: str, cut: int) -> None:
    try:
        offer = parse_offer(OFFER[:at] + insert + OFFER[at + cut :])
    except SdpError:
        return
    assert write_answer(offer, {}, END).startswith("v=0")


def test_video_is_vp8_alone_and_asks_for_whole_pictures() -> None:
    answer = write_answer(
        parse_offer(OFFER), {"2": SectionAnswer(direction="sendonly", ssrc=5, msid="PA_x|TR_y TR_y")}, END
    )
    video = SessionDescription.parse(answer).media[2]
    assert [codec.name for codec in video.rtp.codecs] == ["VP8"]
    assert [feedback.parameter for feedback in video.rtp.codecs[0].rtcpFeedback] == ["pli", "fir"]
    assert (video.direction, [source.ssrc for source in video.ssrc]) == ("sendonly", [5])


def test_video_without_vp8_is_refused() -> None:
    text = OFFER.replace("a=rtpmap:96 VP8/90000", "a=rtpmap:96 H264/90000")
    assert SessionDescription.parse(write_answer(parse_offer(text), {}, END)).media[2].port == 0


def test_the_name_of_a_section_is_accepted_in_the_packets_of_a_video_without_a_source() -> None:
    named = OFFER.replace("a=rtpmap:96", f"a=extmap:4 {MID_URI}\r\na=rtpmap:96")
    assert parse_offer(named).sections[2].mid_extension == 4
    video = SessionDescription.parse(write_answer(parse_offer(named), {}, END)).media[2]
    assert [(e.id, e.uri) for e in video.rtp.headerExtensions] == [(4, MID_URI)]

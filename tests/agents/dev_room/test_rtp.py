"""RTP headers: rewritten fields, unchanged fields, and malformed packets."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.agents.dev_room import rtp
from vivavoce.agents.dev_room.tracks import LevelMeter, LossMeter


def packet(*, extension: bytes = b"", profile: int = 0xBEDE, sources: int = 0, payload: bytes = b"opus") -> bytes:
    first = 0x80 | sources | (0x10 if extension else 0)
    header = struct.pack("!BBHII", first, 0x80 | 111, 65_535, 4_000_000_000, 1) + bytes(4 * sources)
    if extension:
        header += struct.pack("!HH", profile, len(extension) // 4) + extension
    return header + payload


def test_a_forwarded_packet_has_new_source_and_type_and_keeps_the_rest() -> None:
    original = packet(extension=b"\x10\x85\x00\x00", sources=2)
    copy = rtp.rewritten(original, rtp.payload_offset(original), ssrc=99, payload_type=96)
    assert rtp.RTP_HEADER.unpack_from(copy) == (0x80, 0x80 | 96, 65_535, 4_000_000_000, 99)
    assert copy[12:] == b"opus"


@pytest.mark.parametrize(
    ("extension", "profile", "level"),
    [
        (b"\x10\x85\x00\x00", 0xBEDE, 5),  # id 1, one byte, voice bit set
        (b"\x00\x30\x7f\x00", 0xBEDE, None),  # another id after padding
        (b"\x01\x01\x0a\x00", 0x1000, 10),  # two-byte form
        (b"\xf0\x00\x10\x05", 0xBEDE, None),  # id 15 ends the list
        (b"\x10\x85\x00\x00", 0x1234, None),  # unknown form
    ],
)
def test_the_audio_level_is_found(extension: bytes, profile: int, level: int | None) -> None:
    assert rtp.audio_level(packet(extension=extension, profile=profile), 1) == level


def test_a_packet_without_extension_has_no_level() -> None:
    assert rtp.audio_level(packet(), 1) is None


@given(st.binary(max_size=80))
def test_no_bytes_make_the_header_readers_fail_but_as_they_say(data: bytes) -> None:
    rtp.is_rtcp(data)
    rtp.sender_report(data)
    rtp.wanted_pictures(data)
    try:
        offset = rtp.payload_offset(data)
    except ValueError:
        return
    assert 12 <= offset <= len(data)
    rtp.audio_level(data, 1)
    rtp.extension(data, 1)
    assert len(rtp.rewritten(data, offset, 1, 111)) == 12 + len(data) - offset


def test_a_sender_report_is_found_behind_other_packets_and_made_again() -> None:
    information = bytes(range(20))
    report = rtp.make_sender_report(7, information)
    receiver_report = struct.pack("!BBHI", 0x80, 201, 1, 7)
    assert rtp.sender_report(receiver_report + report) == (7, information)
    assert rtp.is_rtcp(report)


def test_speech_is_enough_loud_packets() -> None:
    meter = LevelMeter()
    for _ in range(7):
        meter.add(20)
    assert meter.take(8) == 0.0
    for _ in range(8):
        meter.add(20)
    assert meter.take(8) == pytest.approx(0.1)
    assert meter.take(8) == 0.0


def test_loss_counts_gaps_over_the_wrap_and_forgives_disorder() -> None:
    meter = LossMeter()
    for sequence in (65_533, 65_534, 0, 65_535, 1, 3):
        meter.add(sequence)
    assert meter.take() == pytest.approx(1 / 7)
    assert meter.take() == 0.0


def test_requests_for_whole_pictures_are_found_in_a_compound_packet() -> None:
    report = rtp.make_sender_report(7, bytes(20))
    loss = rtp.make_picture_request(55)
    full_intra = struct.pack("!BBHIIIBxxx", 0x84, 206, 4, 1, 0, 66, 3)
    other = struct.pack("!BBHII", 0x8F, 206, 2, 1, 77)  # a bandwidth estimate
    assert rtp.wanted_pictures(report + loss + other + full_intra) == [55, 66]
    assert rtp.wanted_pictures(full_intra[:-8]) == []


def test_a_header_extension_is_read_whole() -> None:
    assert rtp.extension(packet(extension=b"\x41ab\x00"), 4) == b"ab"
    assert rtp.extension(packet(extension=b"\x04\x02ab", profile=0x1000), 4) == b"ab"
    assert rtp.extension(packet(extension=b"\x4fab\x00"), 4) is None  # longer than the packet says

"""RTP and RTCP headers: the fields that forwarding reads and rewrites; payloads stay opaque."""

from __future__ import annotations

import struct

RTP_HEADER = struct.Struct("!BBHII")
SENDER_REPORT = 200
PAYLOAD_FEEDBACK = 206
PICTURE_LOSS, FULL_INTRA_REQUEST = 1, 4
SENDER_REPORT_LENGTH = 28


def is_rtcp(packet: bytes) -> bool:
    """Return whether a packet is RTCP and not RTP. Source: RFC 5761, section 4."""
    return len(packet) >= 2 and 192 <= packet[1] <= 223


def payload_offset(packet: bytes) -> int:
    """Return where the payload starts, past contributing sources and header extension.

    Raises:
        ValueError: The packet is shorter than its own header.
    """
    if len(packet) < RTP_HEADER.size:
        raise ValueError(f"an RTP packet has at least {RTP_HEADER.size} bytes, got {len(packet)}")
    offset = RTP_HEADER.size + 4 * (packet[0] & 0x0F)
    if packet[0] & 0x10:
        if len(packet) < offset + 4:
            raise ValueError("the RTP header extension is cut off")
        offset += 4 + 4 * int.from_bytes(packet[offset + 2 : offset + 4], "big")
    if offset > len(packet):
        raise ValueError("the RTP header is longer than the packet")
    return offset


def is_whole(packet: bytes) -> bool:
    """Return whether a packet has all of its header."""
    try:
        payload_offset(packet)
    except ValueError:
        return False
    return True


def rewritten(packet: bytes, offset: int, ssrc: int, payload_type: int) -> bytes:
    """Return the packet under another source and payload type, without header extension.

    Sequence number, timestamp, marker and padding stay, so that sender reports stay correct.
    """
    first, second, sequence, timestamp, _ = RTP_HEADER.unpack_from(packet)
    header = RTP_HEADER.pack(0x80 | (first & 0x20), (second & 0x80) | payload_type, sequence, timestamp, ssrc)
    return header + packet[offset:]


def audio_level(packet: bytes, extension_id: int) -> int | None:
    """Return the level in -dBov (0 loudest, 127 silence) of a packet, if it carries one. Source: RFC 6464."""
    found = extension(packet, extension_id)
    return found[0] & 0x7F if found else None


def extension(packet: bytes, extension_id: int) -> bytes | None:
    """Return a header extension of a packet, if it carries that one. Source: RFC 8285, one- and two-byte headers."""
    if not packet[0] & 0x10:
        return None
    start = RTP_HEADER.size + 4 * (packet[0] & 0x0F)
    profile, words = struct.unpack_from("!HH", packet, start)
    position, end = start + 4, start + 4 + 4 * words
    is_one_byte = profile == 0xBEDE
    if not is_one_byte and profile & 0xFFF0 != 0x1000:
        return None
    while position < end:
        if packet[position] == 0:
            position += 1
            continue
        if is_one_byte:
            found, length = packet[position] >> 4, (packet[position] & 0x0F) + 1
            position += 1
            if found == 15:
                return None
        else:
            if position + 1 >= end:
                return None
            found, length = packet[position], packet[position + 1]
            position += 2
        if found == extension_id:
            return packet[position : position + length] if length and position + length <= end else None
        position += length
    return None


def sender_report(packet: bytes) -> tuple[int, bytes] | None:
    """Return source and sender information (20 bytes) of the first sender report in a compound packet."""
    position = 0
    while position + 8 <= len(packet):
        length = 4 + 4 * int.from_bytes(packet[position + 2 : position + 4], "big")
        if packet[position + 1] == SENDER_REPORT and position + SENDER_REPORT_LENGTH <= len(packet):
            ssrc = int.from_bytes(packet[position + 4 : position + 8], "big")
            return ssrc, packet[position + 8 : position + SENDER_REPORT_LENGTH]
        position += length
    return None


def make_sender_report(ssrc: int, sender_information: bytes) -> bytes:
    """Return a sender report without report blocks. Source: RFC 3550, section 6.4.1."""
    return struct.pack("!BBHI", 0x80, SENDER_REPORT, 6, ssrc) + sender_information


def wanted_pictures(packet: bytes) -> list[int]:
    """Return the sources of which a compound packet asks for a whole picture.

    Source: RFC 4585, section 6.3.1 (picture loss); RFC 5104, section 4.3.1 (full intra request, its first entry).
    """
    sources: list[int] = []
    position = 0
    while position + 12 <= len(packet):
        end = position + 4 + 4 * int.from_bytes(packet[position + 2 : position + 4], "big")
        form = packet[position] & 0x1F
        if packet[position + 1] == PAYLOAD_FEEDBACK and form in (PICTURE_LOSS, FULL_INTRA_REQUEST):
            entry = position + (8 if form == PICTURE_LOSS else 12)
            if entry + 4 <= min(len(packet), end):
                sources.append(int.from_bytes(packet[entry : entry + 4], "big"))
        position = end
    return sources


def make_picture_request(ssrc: int) -> bytes:
    """Return a request for a whole picture of that source. Source: RFC 4585, section 6.3.1."""
    return struct.pack("!BBHII", 0x80 | PICTURE_LOSS, PAYLOAD_FEEDBACK, 2, 1, ssrc)

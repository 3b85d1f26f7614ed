"""Session descriptions: reads a client's offer, and writes the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast, get_args

from aiortc import sdp as aiortc_sdp
from aiortc.rtcdtlstransport import RTCDtlsFingerprint

from vivavoce.agents.dev_room.options import MAX_DATA_MESSAGE, MAX_SECTIONS

AUDIO_LEVEL_URI = "urn:ietf:params:rtp-hdrext:ssrc-audio-level"
MID_URI = "urn:ietf:params:rtp-hdrext:sdes:mid"
CODECS = {"audio": "opus", "video": "vp8"}
"""The one codec of each kind that the room forwards."""

Kind = Literal["audio", "video", "application"]
Direction = Literal["sendrecv", "sendonly", "recvonly", "inactive"]
# aiortc's parser has no error of its own for unknown input; its expressions raise these.
_PARSE_ERRORS = (ValueError, AssertionError, LookupError, AttributeError, TypeError, RuntimeError, StopIteration)
_KINDS = get_args(Kind)
_DIRECTIONS = get_args(Direction)


class SdpError(ValueError):
    """An offer that cannot be answered; the text says why, without quoting the offer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedSection:
    """One media section of an offer, as far as the room reads it."""

    mid: str
    kind: Kind
    profile: str
    direction: Direction
    is_bundled: bool
    codec: tuple[int, str] | None
    """Payload type and `rtpmap` text of the codec that the room forwards."""
    level_extension: int | None = None
    mid_extension: int | None = None
    """Names the section in packets of a client that does not announce its SSRC, as for simulcast video."""
    ssrc: int | None = None
    cid: str | None = None
    """Client id of the published track: the second word of `a=msid`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """A client's offer: its sections in order and its one transport."""

    sections: tuple[OfferedSection, ...]
    ufrag: str
    fingerprints: tuple[RTCDtlsFingerprint, ...]
    max_message_size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SectionAnswer:
    """The answer for one audio or video section; the others need no choice."""

    direction: Direction
    ssrc: int | None = None
    msid: str | None = None
    fmtp: str = "minptime=10;useinbandfec=1"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalTransport:
    """Our end, as the answer describes it."""

    address: str
    port: int
    ufrag: str
    pwd: str
    fingerprint: RTCDtlsFingerprint
    session_id: int
    version: int
    """Counts the answers of one session."""


def parse_offer(text: str) -> Offer:
    """Read an offer.

    Raises:
        SdpError: It is malformed, or lacks a part that the answer needs.
    """
    try:
        parsed = aiortc_sdp.SessionDescription.parse(text)
    except _PARSE_ERRORS as exc:
        raise SdpError(f"malformed SDP ({type(exc).__name__})") from exc
    if not 0 < len(parsed.media) <= MAX_SECTIONS:
        raise SdpError(f"need 1 to {MAX_SECTIONS} media sections, got {len(parsed.media)}")
    bundled = {str(item) for group in parsed.group if group.semantic == "BUNDLE" for item in group.items}
    sections = tuple(_section(media, bundled) for media in parsed.media)
    if len({section.mid for section in sections}) != len(sections):
        raise SdpError("each media section needs an a=mid of its own")
    transport = next((m for m in parsed.media if m.rtp.muxId in bundled), None)
    if transport is None:
        raise SdpError("need one bundled transport (a=group:BUNDLE)")
    if transport.dtls is None or not transport.dtls.fingerprints or transport.dtls.role == "server":
        raise SdpError("need a=fingerprint and a=setup:actpass or active")
    if transport.ice is None or not transport.ice.usernameFragment or not transport.ice.password:
        raise SdpError("need a=ice-ufrag and a=ice-pwd")
    sizes = [m.sctpCapabilities.maxMessageSize for m in parsed.media if m.sctpCapabilities is not None]
    return Offer(
        sections=sections,
        ufrag=transport.ice.usernameFragment,
        fingerprints=tuple(transport.dtls.fingerprints),
        max_message_size=sizes[0] if sizes and sizes[0] > 0 else MAX_DATA_MESSAGE,
    )


def _section(media: aiortc_sdp.MediaDescription, bundled: set[str]) -> OfferedSection:
    direction = media.direction or "sendrecv"
    if media.kind not in _KINDS or direction not in _DIRECTIONS or not media.rtp.muxId:
        raise SdpError("need audio, video or application sections with an a=mid")
    codec: tuple[int, str] | None = None
    for candidate in media.rtp.codecs:
        name = candidate.mimeType.partition("/")[2]
        if candidate.payloadType is None or name.lower() != CODECS.get(media.kind):
            continue
        channels = f"/{candidate.channels}" if media.kind == "audio" else ""
        codec = (candidate.payloadType, f"{name}/{candidate.clockRate}{channels}")
        break
    extensions = {x.uri: x.id for x in media.rtp.headerExtensions}
    msid = (media.msid or "").split()
    return OfferedSection(
        mid=media.rtp.muxId,
        kind=cast(Kind, media.kind),
        profile=media.profile,
        direction=cast(Direction, direction),
        is_bundled=media.rtp.muxId in bundled,
        codec=codec,
        level_extension=extensions.get(AUDIO_LEVEL_URI),
        mid_extension=extensions.get(MID_URI) if media.kind == "video" else None,
        ssrc=media.ssrc[0].ssrc & 0xFFFFFFFF if media.ssrc else None,
        cid=msid[1] if len(msid) > 1 else None,
    )


def write_answer(offer: Offer, answers: dict[str, SectionAnswer], transport: LocalTransport) -> str:
    """Write the answer, section by section; sections of media without an entry in `answers` (by mid) are inactive."""
    mids = " ".join(section.mid for section in offer.sections if _is_accepted(section))
    lines = [
        "v=0",
        f"o=- {transport.session_id} {transport.version} IN IP4 {transport.address}",
        "s=-",
        "t=0 0",
        "a=ice-lite",
        f"a=group:BUNDLE {mids}",
        "a=msid-semantic: WMS *",
    ]
    for section in offer.sections:
        answer = answers.get(section.mid, SectionAnswer(direction="inactive"))
        lines += _answer_lines(section, answer, transport)
    return "\r\n".join(lines) + "\r\n"


def _is_accepted(section: OfferedSection) -> bool:
    return section.is_bundled and (section.kind == "application" or section.codec is not None)


def _answer_lines(section: OfferedSection, answer: SectionAnswer, transport: LocalTransport) -> Sequence[str]:
    payload_type, rtpmap = section.codec or (0, "")
    formats = "webrtc-datachannel" if section.kind == "application" else str(payload_type)
    if not _is_accepted(section):
        return [f"m={section.kind} 0 {section.profile} {formats}", f"a=mid:{section.mid}", "a=inactive"]
    lines = [
        f"m={section.kind} {transport.port} {section.profile} {formats}",
        f"c=IN IP4 {transport.address}",
        f"a=candidate:1 1 udp 2130706431 {transport.address} {transport.port} typ host",
        "a=end-of-candidates",
        f"a=ice-ufrag:{transport.ufrag}",
        f"a=ice-pwd:{transport.pwd}",
        f"a=fingerprint:{transport.fingerprint.algorithm} {transport.fingerprint.value}",
        "a=setup:passive",
        f"a=mid:{section.mid}",
    ]
    if section.kind == "application":
        return [*lines, "a=sctp-port:5000", f"a=max-message-size:{MAX_DATA_MESSAGE}"]
    lines += [f"a={answer.direction}", "a=rtcp-mux", f"a=rtpmap:{payload_type} {rtpmap}"]
    if section.kind == "audio":
        lines.append(f"a=fmtp:{payload_type} {answer.fmtp}")
        if section.level_extension is not None:
            # In every section of every answer: parts that the first answer omits are never offered again.
            lines.append(f"a=extmap:{section.level_extension} {AUDIO_LEVEL_URI}")
    if section.kind == "video":
        lines += [f"a=rtcp-fb:{payload_type} nack pli", f"a=rtcp-fb:{payload_type} ccm fir"]
        if section.mid_extension is not None:
            lines.append(f"a=extmap:{section.mid_extension} {MID_URI}")
    if answer.msid is not None and answer.ssrc is not None:
        lines += [f"a=msid:{answer.msid}", f"a=ssrc:{answer.ssrc} cname:vivavoce"]
    return lines

"""Telephones in a LiveKit room: what the attributes of a SIP participant tell of its call, and keys to it.

Sources: livekit/sip 1.11.0 (`participant.go`), livekit/protocol 1.1.29 (`attrs.go`); measured with livekit-sip 1.9.0.
"""

from __future__ import annotations

from typing import Protocol

import anyio
from livekit import rtc

from vivavoce.agents.transports.livekit.link import kind_name
from vivavoce.agents.transports.livekit.outbound import SDK_ERRORS
from vivavoce.agents.transports.options import DEFAULT_ROOM_OPTIONS
from vivavoce.pipelines.core.errors import RoomError, describe
from vivavoce.pipelines.io import CallerInfo

SIP = rtc.ParticipantKind.PARTICIPANT_KIND_SIP
STATUS = "sip.callStatus"
NUMBER = "sip.phoneNumber"
CALLED_NUMBER = "sip.trunkPhoneNumber"
RINGING = frozenset({"dialing", "ringing", "automation"})
"""Values of `sip.callStatus` before anybody has answered. "automation": the keys of the dialled number go out."""
KEY_CODES = {key: code for code, key in enumerate("0123456789*#ABCD")}
"""RFC 4733, section 3.2."""
KEY_LIMIT = 5.0
"""Seconds for the room to take one key."""


class Participant(Protocol):
    """The part of an `rtc.RemoteParticipant` that this module uses."""

    @property
    def identity(self) -> str: ...

    @property
    def kind(self) -> rtc.ParticipantKind.ValueType: ...

    @property
    def attributes(self) -> dict[str, str]: ...


def is_ringing(participant: Participant) -> bool:
    """Return whether it is a telephone that nobody has answered yet."""
    return participant.kind == SIP and participant.attributes.get(STATUS) in RINGING


def has_hung_up(participant: object) -> bool:
    """Return whether it is a telephone whose call is over, so that it does not come back."""
    attributes: dict[str, str] = getattr(participant, "attributes", {})
    return attributes.get(STATUS) == "hangup"


def caller_of(participant: Participant) -> CallerInfo:
    """Return the caller that a participant is."""
    attributes = dict(participant.attributes)
    if participant.kind != SIP:
        return CallerInfo(parameters=attributes, line="room", identity=participant.identity)
    number, called = attributes.get(NUMBER, ""), attributes.get(CALLED_NUMBER, "")
    return CallerInfo(
        number=number, called_number=called, parameters=attributes, line="sip", identity=participant.identity
    )


def caller_in(room: rtc.Room, identity: str) -> CallerInfo | None:
    """Return the caller with that identity, or the first of a kind that a session links; None without one."""
    for participant in room.remote_participants.values():
        is_caller = kind_name(participant.kind) in DEFAULT_ROOM_OPTIONS.participant_kinds
        if participant.identity == identity if identity else is_caller:
            return caller_of(participant)
    return None


async def send_keys(room: rtc.Room, keys: str, to: str = "") -> bool:
    """Send keys to each telephone in the room, or to the one of the identity `to`.

    Returns:
        Whether there is a telephone.
    Raises:
        RoomError: The room did not take them.
    """
    if not any(each.kind == SIP for each in room.remote_participants.values()):
        return False
    for number, key in enumerate(keys):
        try:
            with anyio.fail_after(KEY_LIMIT):
                if to:
                    await _send_key(room.local_participant, key, to)
                else:
                    await room.local_participant.publish_dtmf(code=KEY_CODES[key], digit=key)
        except TimeoutError:
            raise RoomError(f"the room did not take key {number + 1} of {len(keys)} within {KEY_LIMIT} s") from None
        except SDK_ERRORS as error:
            raise RoomError(f"the room did not take key {number + 1} of {len(keys)}: {describe(error)}") from error
    return True


async def _send_key(agent: rtc.LocalParticipant, key: str, to: str) -> None:
    """Send a key to one participant. The server takes an addressee; `publish_dtmf()` of livekit.rtc 1.2 has none."""
    from livekit.rtc._ffi_client import FfiClient
    from livekit.rtc._proto.ffi_pb2 import FfiRequest

    request = FfiRequest()
    message = request.publish_sip_dtmf
    message.local_participant_handle = agent._ffi_handle.handle
    message.code, message.digit = KEY_CODES[key], key
    message.destination_identities.append(to)
    answers = FfiClient.instance.queue.subscribe()
    try:
        sent = FfiClient.instance.request(request).publish_sip_dtmf.async_id
        answer = await answers.wait_for(lambda event: event.publish_sip_dtmf.async_id == sent)
    finally:
        FfiClient.instance.queue.unsubscribe(answers)
    if answer.publish_sip_dtmf.error:
        raise rtc.participant.PublishDTMFError(answer.publish_sip_dtmf.error)

"""Checks of the arguments of a session's public calls.

Each check returns the checked value, or raises a ConfigurationError on the caller's stack, so that no value of a wrong
kind comes to the decision loop. Whether agent, pipeline and options fit each other: `agents.session.wiring`.
"""

from __future__ import annotations

import operator
from collections.abc import AsyncIterable, AsyncIterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, get_args

from vivavoce.agents.audio.given_audio import GivenAudio
from vivavoce.agents.core.speech_handle import MAX_PRIORITY
from vivavoce.agents.events import EVENT_TYPES
from vivavoce.agents.memory.stores.store import CALLS
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.speech.request import SpeechRequest
from vivavoce.agents.states import CloseReason
from vivavoce.agents.transports.options import RoomOptions
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.options import WakeUp
from vivavoce.pipelines.core.checks import (
    check_choice,
    check_flag,
    check_instance,
    check_items,
    check_text,
    check_whole,
    is_number,
    nearest,
    shown,
)
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.old_names import old_members
from vivavoce.pipelines.io import Transport
from vivavoce.pipelines.llm.tools import ToolChoice
from vivavoce.pipelines.media.frame import VideoFrame

if TYPE_CHECKING:
    from livekit import rtc

WHEN_BUSY = get_args(i.WhenBusy)


def checked_say(text: str | AsyncIterator[str], audio: GivenAudio | None, add_to_history: bool) -> SpeechRequest:
    """Return the request of `say()`.

    Raises:
        ConfigurationError: `text` is neither a str nor an async iterator, or `add_to_history` is no bool. `audio` is
            checked by `wiring.check_speech`.
    """
    check_flag("add_to_history", add_to_history)
    if isinstance(text, str):
        text = check_text("text", text)
    elif not isinstance(text, AsyncIterable):
        raise ConfigurationError(
            f"need say(text) as a str or an async iterator of str, got {shown(text)}; join a list, call a function"
        )
    return SpeechRequest(text=text, audio=audio, add_to_history=add_to_history)


def checked_reply(
    instructions: str,
    wait_for_playback: bool,
    frames: Sequence[VideoFrame] | None,
    tool_choice: ToolChoice | None,
) -> SpeechRequest:
    """Return the request of `reply()`.

    Raises:
        ConfigurationError: One of them is of another kind.
    """
    check_flag("wait_for_playback", wait_for_playback)
    if tool_choice is not None and not isinstance(tool_choice, ToolChoice):
        raise ConfigurationError(
            f"need tool_choice as a ToolChoice or None, got {shown(tool_choice)}; such as ToolChoice(mode='required')"
        )
    remedy = "encode a picture: VideoFrame(data, 'image/jpeg')"
    return SpeechRequest(
        instructions=check_text("reply(instructions)", instructions),
        wait_for_playback=wait_for_playback,
        frames=() if frames is None else check_items("frames", frames, VideoFrame, remedy=remedy),
        tool_choice=ToolChoice() if tool_choice is None else tool_choice,
    )


def checked_priority(priority: int) -> int:
    """Return the priority as a plain int.

    Raises:
        ConfigurationError: It is no whole number, or beyond `MAX_PRIORITY`.
    """
    check_whole("priority", priority, at_least=-MAX_PRIORITY)
    if priority > MAX_PRIORITY:
        raise ConfigurationError(f"need priority <= {MAX_PRIORITY}, a whole number, got {shown(priority)}")
    return operator.index(priority)


def check_when_busy(kind: i.SpeechKind, when_busy: i.WhenBusy | None) -> None:
    """Check the choice for a floor that is taken; for a `reply`, None is the default.

    Raises:
        ConfigurationError: It is none of the three.
    """
    if kind != "reply" or when_busy is not None:
        check_choice("when_busy", when_busy, WHEN_BUSY)


def check_session(options: SessionOptions | None, session_id: str | None) -> None:
    """Check the options and the id of a session.

    Raises:
        ConfigurationError: `options` are none, or `session_id` is no name.
    """
    check_instance("options", options, SessionOptions, or_none=True)
    _check_name("id", session_id)
    if session_id == CALLS:
        raise ConfigurationError(f"need another id, got {CALLS!r}: running calls are kept under it")


old_member = old_members(
    change_pipeline="update_pipeline",
    change_component="update_components",
    set_conversation_flow="update_flow",
    dialogue="graph",
)
"""`__getattr__` of a session."""


def unknown_attribute(name: str, settable: Sequence[str]) -> AttributeError:
    """Return the error for setting an attribute that a session does not have."""
    events = {f"on_{each.name.removeprefix('on_')}": each.name for each in EVENT_TYPES}
    near = nearest(name, [*settable, *events])
    meant = repr(near) if near in settable else f"session.on({events.get(near)!r}, …)"
    return AttributeError(
        f"'AgentSession' object has no attribute {name!r}" + (f"; did you mean {meant}?" if near else "")
    )


def check_start(
    room: rtc.Room | Transport | None,
    participant: str | None,
    room_options: RoomOptions | None,
    resume_from: Mapping[str, Any] | None,
) -> None:
    """Check the arguments of `start()`.

    Raises:
        ConfigurationError: One of them is of another kind.
    """
    if room is not None and not isinstance(room, Transport) and not hasattr(room, "local_participant"):
        raise ConfigurationError(
            f"need room as a connected rtc.Room, a Transport, or None in a job, got {shown(room)}; "
            "start() in a job takes the job's room"
        )
    _check_name("participant", participant)
    check_instance("room_options", room_options, RoomOptions, or_none=True)
    if resume_from is not None and not isinstance(resume_from, Mapping):
        raise ConfigurationError(f"resume_from must be what snapshot() returned, got {type(resume_from).__name__}")


def checked_reason(reason: CloseReason) -> CloseReason:
    """Return the reason of a close, given by value or by name.

    Raises:
        ConfigurationError: There is no such reason.
    """
    for known in CloseReason:
        if reason is known or (type(reason) is str and reason == known.value):
            return known
    names = ", ".join(f"CloseReason.{known.name}" for known in CloseReason)
    raise ConfigurationError(f"need close(reason) as one of {names}, got {shown(reason)}")


def wake_up_of(given: float | WakeUp | None) -> WakeUp | None:
    """Return the value of `wake_up=`; a plain number wakes up once a silence.

    Raises:
        ConfigurationError: It means nothing, or the number is not a wait.
    """
    if given is None or isinstance(given, WakeUp):
        return given
    if not is_number(given):
        raise ConfigurationError(
            f"wake_up must be seconds, a WakeUp or None, got {shown(given)}; for example wake_up=10"
        )
    return WakeUp(after=given)


def _check_name(what: str, name: str | None) -> None:
    if name is not None and not check_text(what, name):
        raise ConfigurationError(f"need {what} as a name or None, got ''")

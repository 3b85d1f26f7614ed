"""Output to the room beside audio: transcriptions and turn records, in order, and the agent's state."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

import anyio
import anyio.lowlevel
from livekit import rtc

from vivavoce.pipelines.io import TranscriptSegment

logger = logging.getLogger(__name__)

T = TypeVar("T")

TRANSCRIPTION_TOPIC = "lk.transcription"
TURNS_TOPIC = "vivavoce.turns"
SEGMENT_ID = "lk.segment_id"
TRANSCRIPTION_FINAL = "lk.transcription_final"
TRANSCRIBED_TRACK_ID = "lk.transcribed_track_id"
SPEAKERS = "vivavoce.speakers"
"""The recogniser's names of the voices in a transcript of the user, such as "A, B"."""
AGENT_STATE = "lk.agent.state"

SEND_LIMIT = 1.0
"""Seconds for one step of one text. Then the text is given up; final words are sent once more, since no newer text of
their segment follows. A turn record is not: its receiver would count a turn twice if only the answer was late.
"""
STATE_LIMIT = 1.0
"""Seconds for the room's answer to one state. The SDK loses answers that come before it waits for them."""
STATE_TRIES = 3
STATE_PAUSE = 1.0
"""Seconds before a state that was not accepted is sent again; a newer one is sent at once."""
MAX_PENDING = 256
"""Texts that may wait; updates of one segment count once, since the newest holds the older ones."""

SDK_ERRORS = (ConnectionError, RuntimeError, TimeoutError, AssertionError)
"""Errors that sending raises; AssertionError if the room goes meanwhile and the native side has dropped the handle."""

ROOM_STATES = {
    "starting": "initializing",
    "idle": "listening",
    "listening": "listening",
    "thinking": "thinking",
    "speaking": "speaking",
}
"""The session's name of an agent state → LiveKit's. Missing states (closing, closed) are not shown."""


@dataclass(frozen=True, slots=True)
class _Transcript:
    segment: TranscriptSegment
    sender: str | None
    track_sid: str | None
    is_again: bool = False


@dataclass(frozen=True, slots=True)
class _Record:
    json_text: str
    receiver: str


@dataclass(slots=True)
class _OpenSegment:
    writer: rtc.TextStreamWriter
    written: str


class TextSender:
    """Sends texts one after another; a segment that changes faster than the room takes updates is sent in its newest
    form.

    The agent's segments are streams that grow word by word and end with the final flag. The user's may change when the
    recogniser corrects itself, so each of their updates is a stream of its own with the whole text; clients replace the
    last one with the same segment id.

    Args:
        participant: The agent.
    """

    def __init__(self, participant: rtc.LocalParticipant) -> None:
        self._participant = participant
        self._pending: dict[str, _Transcript | _Record] = {}
        self._open: dict[str, _OpenSegment] = {}
        self._records = 0
        self._is_dropped = False
        self._added = anyio.Event()
        self._sent = anyio.Event()

    def add_transcript(self, segment: TranscriptSegment, *, sender: str | None, track_sid: str | None) -> None:
        """Queue an update of a segment; `sender` and `track_sid` name who is transcribed."""
        self._add(_key(segment), _Transcript(segment, sender, track_sid))

    def add_record(self, json_text: str, *, receiver: str) -> None:
        """Queue a turn record for one participant."""
        self._records += 1
        self._add(f"record:{self._records}", _Record(json_text, receiver))

    def _add(self, key: str, item: _Transcript | _Record) -> None:
        if self._sent.is_set():
            self._sent = anyio.Event()
        self._pending[key] = item  # an update of a waiting segment takes its place in the order
        if len(self._pending) > MAX_PENDING:
            del self._pending[next(iter(self._pending))]
            logger.warning("more than %s texts wait for the room; the oldest is dropped", MAX_PENDING)
        self._added.set()

    def drop(self) -> None:
        """Drop queued texts and open streams, and send none again: the room is gone for good."""
        self._is_dropped = True
        self._pending.clear()
        self._open.clear()
        self._sent.set()

    async def run(self) -> None:
        """Send until cancelled; a text that has begun is sent to its end first."""
        while True:
            self._added = anyio.Event()
            await self._send_pending()
            self._sent.set()
            await self._added.wait()

    async def sent(self) -> None:
        """Return when no text waits; the caller sets a limit. `run` must be running."""
        await self._sent.wait()

    async def finish(self) -> None:
        """Send queued texts and end the open streams; the caller sets a limit. `run` must have ended."""
        await self._send_pending()
        for key in list(self._open):
            try:
                await self._end_segment(key, {})
            except SDK_ERRORS as error:
                problem = str(error) or "no answer in time"
                logger.warning("the room did not take the end of an agent transcript: %s", problem)

    async def _send_pending(self) -> None:
        while self._pending:
            item = self._pending.pop(next(iter(self._pending)))
            with anyio.CancelScope(shield=True):
                await self._send(item)
            await anyio.lowlevel.checkpoint_if_cancelled()

    async def _send(self, item: _Transcript | _Record) -> None:
        try:
            if isinstance(item, _Record):
                text = self._participant.send_text(
                    item.json_text, topic=TURNS_TOPIC, destination_identities=[item.receiver]
                )
                await _within(SEND_LIMIT, text)
            elif item.segment.who == "agent":
                await self._send_agent_segment(item)
            else:
                await self._send_whole(item)
        except SDK_ERRORS as error:
            what = "a turn record"
            if isinstance(item, _Transcript):
                self._open.pop(item.segment.segment_id, None)
                key = _key(item.segment)
                may_again = item.segment.is_final and not item.is_again and not self._is_dropped
                if may_again and key not in self._pending:
                    self._add(key, replace(item, is_again=True))
                    return
                what = f"a transcript of the {item.segment.who}"
            logger.warning("the room did not take %s: %s", what, str(error) or "no answer in time")

    async def _send_agent_segment(self, item: _Transcript) -> None:
        segment = item.segment
        key = segment.segment_id
        opened = self._open.get(key)
        if opened is not None and not segment.text.startswith(opened.written):
            await self._end_segment(key, {})  # it failed: the same segment again, from its beginning
            opened = None
        if opened is None:
            opened = self._open[key] = _OpenSegment(await self._open_stream(item, is_final=False), "")
        if more := segment.text[len(opened.written) :]:
            await _within(SEND_LIMIT, opened.writer.write(more))
            opened.written = segment.text
        if segment.is_final:
            await self._end_segment(key, _attributes(item, is_final=True))

    async def _send_whole(self, item: _Transcript) -> None:
        writer = await self._open_stream(item, is_final=item.segment.is_final)
        await _within(SEND_LIMIT, writer.write(item.segment.text))
        await _within(SEND_LIMIT, writer.aclose())

    async def _open_stream(self, item: _Transcript, *, is_final: bool) -> rtc.TextStreamWriter:
        return await _within(
            SEND_LIMIT,
            self._participant.stream_text(
                topic=TRANSCRIPTION_TOPIC,
                attributes=_attributes(item, is_final=is_final),
                sender_identity=item.sender,
            ),
        )

    async def _end_segment(self, key: str, attributes: dict[str, str]) -> None:
        opened = self._open.pop(key, None)
        if opened is None:  # dropped meanwhile
            return
        await _within(SEND_LIMIT, opened.writer.aclose(attributes=attributes))


class DescribedParticipant(Protocol):
    """The part of an `rtc.LocalParticipant` that is needed to show a state."""

    @property
    def attributes(self) -> Mapping[str, str]: ...

    async def set_attributes(self, attributes: dict[str, str]) -> None: ...


class StateSender:
    """Shows the agent's state as a participant attribute; in a burst only the newest is shown.

    Args:
        participant: The agent.
    """

    def __init__(self, participant: DescribedParticipant) -> None:
        self._participant = participant
        self._wanted: str | None = None
        self._shown: str | None = None
        self._is_forgotten = False
        self._changed = anyio.Event()

    def show(self, state: str) -> None:
        """Show `state`, a session's agent state, soon."""
        if (room_state := ROOM_STATES.get(state)) is not None:
            self._wanted = room_state
            self._changed.set()

    def show_again(self) -> None:
        """Show the same state once more: a server that was restarted has forgotten it."""
        self._shown = None
        self._is_forgotten = True
        self._changed.set()

    async def run(self) -> None:
        """Send until cancelled."""
        while True:
            self._changed = anyio.Event()
            if self._wanted is not None and self._wanted != self._shown:
                await self._show(self._wanted)
            await self._changed.wait()

    async def _show(self, wanted: str) -> None:
        problem = ""
        for _ in range(STATE_TRIES):
            self._is_forgotten = False
            problem = await self._send(wanted)
            if not problem:
                self._shown = None if self._is_forgotten else wanted
                return
            self._shown = None  # it is unknown which state the room shows
            with anyio.move_on_after(STATE_PAUSE):
                await self._changed.wait()
                return
        logger.warning("the room did not take the state %r in %s tries: %s", wanted, STATE_TRIES, problem)

    async def _send(self, wanted: str) -> str:
        """Send a state and return the error; it is empty if the room shows the state, with or without an answer."""
        try:
            await _within(STATE_LIMIT, self._participant.set_attributes({AGENT_STATE: wanted}))
        except SDK_ERRORS as error:
            if self._participant.attributes.get(AGENT_STATE) == wanted:
                return ""
            return str(error) or "no answer in time"
        return ""


def _key(segment: TranscriptSegment) -> str:
    return f"{segment.who}:{segment.segment_id}"


def _attributes(item: _Transcript, *, is_final: bool) -> dict[str, str]:
    attributes = {SEGMENT_ID: item.segment.segment_id, TRANSCRIPTION_FINAL: "true" if is_final else "false"}
    if item.track_sid:
        attributes[TRANSCRIBED_TRACK_ID] = item.track_sid
    if item.segment.speakers:
        attributes[SPEAKERS] = ", ".join(item.segment.speakers)
    return attributes


async def _within(seconds: float, waiting: Awaitable[T]) -> T:
    with anyio.fail_after(seconds):
        return await waiting

"""TwinContext: one context of the server, which speaks its transcripts one after the other."""

from __future__ import annotations

import base64
import re
import struct
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

import anyio

from vivavoce.plugins.cartesia.twin.requests import Refusal, Request

EXPIRY = 1.0
"""Seconds after its last audio in which a context takes more text."""

SENTENCE_END = re.compile(r"""[.!?…。！？]["')\]]*\s*$""")

LEVEL, STEP = 1000, 16
"""Level of the first context's audio, and by how much that of the next one is higher."""

Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinPace:
    """How fast the server speaks; seconds."""

    word: float = 0.25
    """Length of a word's audio."""
    first_byte: float = 0.1
    """From a transcript to its first audio."""
    interval: float = 0.01
    """Between the audio of two words."""
    times_after_audio: bool = False
    """Whether a word's times come behind its audio, and not before it."""
    cuts_samples: bool = False
    """Whether each word's audio comes in two pieces, the first of which ends in the middle of a sample."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinFault:
    """What a context does in the middle of its speech.

    Args:
        kind: An error of the context; a close with `code` and `reason`; a connection that is cut; nothing more; a frame
            that is no JSON; a frame of a kind that no document has.
        after: Words that are spoken before.
        error: Of the kind "error".
    """

    kind: Literal["error", "close", "cut", "stall", "garbage", "unknown"]
    after: int = 0
    error: Refusal = Refusal(500, "Internal server error", "Something went wrong.", "internal_error")
    code: int = 1011
    reason: str = ""


class Faulty(Exception):  # noqa: N818 - an order to the connection
    """The context's fault is due, and the connection carries it out."""

    def __init__(self, fault: TwinFault) -> None:
        super().__init__(fault.kind)
        self.fault = fault


class TwinContext:
    """Speaks with a tone.

    Args:
        number: Of the context in its server, from 0 on.
        first: The request that begins it.
        send: Sends the fields of a message, without the context's id.
    """

    def __init__(self, number: int, first: Request, send: Send, pace: TwinPace, fault: TwinFault | None) -> None:
        self.id = first.context_id
        self.level = LEVEL + STEP * number
        """Size of each sample of its audio, in 16 bits."""
        self.text = ""
        """All transcripts so far."""
        self.spoken: list[str] = []
        """The words whose audio was sent."""
        self.is_cancelled = False
        self.is_over = False
        self._first = first
        self._send = send
        self._pace = pace
        self._fault = fault
        self._waiting = ""
        self._waits_since = 0.0
        self._is_last = False
        self._ready: deque[tuple[str, bool]] = deque()
        """Texts that do not wait for more, and whether a message tells that one is spoken."""
        self._flush_id = 1
        self._last_audio: float | None = None
        self._changed = anyio.Event()

    def add(self, request: Request) -> None:
        """Take more text.

        Raises:
            Refusal: The service refuses it.
        """
        if request.settings != self._first.settings:
            raise Refusal(400, "Invalid request", "All fields but transcript and continue must stay the same.")
        if self._is_last or self.is_cancelled:
            raise Refusal(400, "Invalid request", "The context is finished.")
        has_words = any(letter.isalnum() for letter in request.transcript)
        if not (self.text or has_words or (request.is_flush and not request.is_last)):
            raise Refusal(
                400,
                "Invalid transcript",
                "transcript empty or contains only punctuation: first transcript for WS is empty or contains only "
                "punctuation",
            )
        if not self._waiting:
            self._waits_since = anyio.current_time()
        self.text += request.transcript
        self._waiting += request.transcript
        self._is_last = request.is_last
        if request.is_flush or (self._waiting and not request.delay):
            self._ready.append((self._waiting, request.is_flush))
            self._waiting = ""
        self._changed.set()

    def cancel(self) -> None:
        """Stop behind the transcript that is being generated."""
        self.is_cancelled = True
        self._changed.set()

    async def run(self) -> None:
        """Speak until the end.

        Raises:
            Faulty: A fault is due.
        """
        try:
            await self._speak()
        finally:
            self.is_over = True
        await self._send({"type": "done", "done": True})

    async def _speak(self) -> None:
        while not self.is_cancelled:
            if self._ready:
                part, is_flush = self._ready.popleft()
                await self._generate(part)
                if is_flush:
                    await self._send({"type": "flush_done", "flush_done": True, "flush_id": self._flush_id})
                    self._flush_id += 1
            elif part := self._due():
                self._waiting = ""
                await self._generate(part)
            elif self._is_last or not await self._more():
                break

    def _due(self) -> str:
        """Return the text that is to be spoken now."""
        is_due = self._is_last or SENTENCE_END.search(self._waiting)
        waited = anyio.current_time() - self._waits_since
        return self._waiting if is_due or waited >= self._first.delay else ""

    async def _more(self) -> bool:
        """Wait for more text, or until the text that waits is due; return whether the context lives on."""
        limit = float("inf")
        if self._waiting:
            limit = self._waits_since + self._first.delay
        elif self._last_audio is not None:
            limit = self._last_audio + EXPIRY
        self._changed = anyio.Event()
        with anyio.move_on_after(limit - anyio.current_time()):
            await self._changed.wait()
        return bool(self._waiting) or self._changed.is_set()

    async def _generate(self, part: str) -> None:
        pace = self._pace
        await anyio.sleep(pace.first_byte)
        for word in part.split():
            if (fault := self._fault) is not None and len(self.spoken) == fault.after:
                if fault.kind == "stall":
                    await self._cancelled()
                    return
                if fault.kind != "unknown":
                    raise Faulty(fault)
                await self._send({"type": "of_the_future", "data": [5]})
            start = len(self.spoken) * pace.word
            times = {"words": [word], "start": [start], "end": [start + pace.word]}
            messages = [
                {"type": "chunk", "data": piece, "step_time": 1.0, "flush_id": self._flush_id}
                for piece in self._audio()
            ]
            if self._first.wants_words:
                told: dict[str, Any] = {"type": "timestamps", "word_timestamps": times}
                messages.insert(len(messages) if pace.times_after_audio else 0, told)
            for message in messages:
                await self._send(message)
            self.spoken.append(word)
            self._last_audio = anyio.current_time()
            await anyio.sleep(pace.interval)

    async def _cancelled(self) -> None:
        while not self.is_cancelled:
            self._changed = anyio.Event()
            await self._changed.wait()

    def _audio(self) -> list[str]:
        samples = round(self._pace.word * self._first.rate) // 2
        level, kind = (self.level / 32768, "f") if self._first.encoding == "pcm_f32le" else (self.level, "h")
        audio = struct.pack(f"<2{kind}", level, -level) * samples
        pieces = (audio[:101], audio[101:]) if self._pace.cuts_samples else (audio,)
        return [base64.b64encode(piece).decode() for piece in pieces]

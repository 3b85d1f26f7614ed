"""TwinContext: one context of the speaking server, which speaks its texts one after the other."""

from __future__ import annotations

import base64
import struct
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import anyio

LEVEL, STEP = 1000, 16
"""Level of the first context's audio, and by how much that of the next one is higher."""

SCHEDULE = (120, 160, 250, 290)
"""Characters that wait for more, for the first, second … audio (elevenlabs 2.78.0, `types/generation_config.py`)."""

Send = Callable[[dict[str, Any]], Awaitable[None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinPace:
    """How fast and in which form the server speaks; seconds."""

    word: float = 0.25
    """Length of a word's audio."""
    first_byte: float = 0.1
    """From a text to its first audio."""
    interval: float = 0.01
    """Between the audio of two words."""
    cuts_words: bool = False
    """Whether each word comes in two messages, the first of which ends in the middle of a sample and of the word."""
    times: Literal["chunk", "answer"] = "chunk"
    """Where the times of a message count from."""
    names: Literal["camel", "plural", "snake"] = "camel"
    """The spelling of the fields' names: `charStartTimesMs`, `charsStartTimesMs`, or the latter with `context_id`."""
    spoken: Mapping[str, str] = field(default_factory=dict)
    """Words -> their form in the normalised text."""
    has_alignment: bool = True
    """Whether `alignment` comes beside `normalizedAlignment`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinFault:
    """What a context does in the middle of its speech.

    Args:
        kind: An error, which ends the connection, as the service's errors do, or with code 0 this context only; a close
            with `code` and `reason`; a connection that is cut; nothing more; a frame that is no JSON; a frame of a kind
            that no document has; a context that does not say that it is over.
        after: Words that are spoken before.
        error, message: Name and text of the kind "error".
    """

    kind: Literal["error", "close", "cut", "stall", "garbage", "unknown", "silent"]
    after: int = 0
    error: str = "internal_server_error"
    message: str = "Something went wrong."
    code: int = 1008
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
        rate: Hz of the audio.
        auto: Whether text does not wait for more (`auto_mode`).
        inactivity: Seconds without a message after which it ends.
    """

    def __init__(
        self,
        number: int,
        first: Mapping[str, Any],
        *,
        rate: int,
        auto: bool,
        inactivity: float,
        pace: TwinPace,
        fault: TwinFault | None,
    ) -> None:
        self.id = str(first.get("context_id") or "default")
        self.first = first
        """The message that began it."""
        self.level = LEVEL + STEP * number
        """Size of each sample of its audio, in 16 bits."""
        self.text = ""
        """All text so far."""
        self.spoken: list[str] = []
        """The words whose audio was sent."""
        self.is_closed = False
        """Whether the client has closed it."""
        self.is_over = False
        self._rate = rate
        self._auto = auto
        self._inactivity = inactivity
        self._pace = pace
        self._fault = fault
        self._waiting = ""
        self._ready: deque[str] = deque()
        self._parts = 0
        self._is_new = True
        self._seconds = 0.0
        self._changed = anyio.Event()

    def take(self, message: Mapping[str, Any]) -> None:
        """Take a message of the client."""
        text = message.get("text") or ""
        if self.is_closed:
            return
        if not (self._is_new and text == " "):
            self.text += text
            self._waiting += text
        self._is_new = False
        limit = SCHEDULE[min(self._parts, len(SCHEDULE) - 1)]
        if self._waiting.strip() and (message.get("flush") or self._auto or len(self._waiting) >= limit):
            self._ready.append(self._waiting)
            self._waiting = ""
            self._parts += 1
        if message.get("close_context"):
            self.is_closed = True
        self._changed.set()

    async def run(self, send: Send) -> None:
        """Speak until the end.

        Raises:
            Faulty: A fault is due.
        """
        try:
            while self._ready or (not self.is_closed and await self._more()):
                if self._ready:
                    await self._generate(self._ready.popleft(), send)
            if self._fault is None or self._fault.kind != "silent":
                await send({"isFinal": True, self._id_name: self.id})
                self.is_over = True
        except Faulty:
            self.is_over = True
            raise

    @property
    def _id_name(self) -> str:
        return "context_id" if self._pace.names == "snake" else "contextId"

    async def _more(self) -> bool:
        """Wait for a message; return whether one came in time."""
        self._changed = anyio.Event()
        with anyio.move_on_after(self._inactivity):
            await self._changed.wait()
            return True
        return False

    async def _generate(self, part: str, send: Send) -> None:
        await anyio.sleep(self._pace.first_byte)
        for number, word in enumerate(part.split()):
            if (fault := self._fault) is not None and len(self.spoken) == fault.after:
                if fault.kind == "stall":
                    await anyio.sleep_forever()
                if fault.kind == "unknown":
                    await send({"of_the_future": [5], self._id_name: self.id})
                elif fault.kind != "silent":
                    raise Faulty(fault)
            self.spoken.append(word)
            for message in self._messages(word, is_first=number == 0):
                await send(message)
            await anyio.sleep(self._pace.interval)

    def _messages(self, word: str, *, is_first: bool) -> list[dict[str, Any]]:
        """Return the messages of a word; the first one of a part has a space in front of its normalised form."""
        spoken = self._pace.spoken.get(word, word)
        audio = struct.pack("<2h", self.level, -self.level) * (round(self._pace.word * self._rate) // 2)
        texts, spokens, audios = [f"{word} "], [f"{spoken} "], [audio]
        if self._pace.cuts_words and len(word) > 1:
            texts, spokens = [word[:1], f"{word[1:]} "], [spoken[:1], f"{spoken[1:]} "]
            middle = len(audio) // 2 // 2 * 2 + 1
            audios = [audio[:middle], audio[middle:]]
        seconds = self._pace.word / len(audios)
        messages = []
        for text, form, data in zip(texts, spokens, audios, strict=True):
            start = self._seconds if self._pace.times == "answer" else 0.0
            messages.append(
                {
                    "audio": base64.b64encode(data).decode(),
                    "alignment": self._alignment(text, start, seconds) if self._pace.has_alignment else None,
                    "normalizedAlignment": self._alignment(" " * is_first + form, start, seconds),
                    self._id_name: self.id,
                }
            )
            is_first = False
            self._seconds += seconds
        return messages

    def _alignment(self, text: str, start: float, seconds: float) -> dict[str, Any]:
        """Return the times of the characters; spaces take none."""
        count = len(text.strip())
        starts, durations, said = [], [], 0
        for letter in text:
            begin, end = (round(1000 * (start + seconds * at / count)) for at in (said, said + (letter != " ")))
            starts.append(begin)
            durations.append(end - begin)
            said += letter != " "
        many = "" if self._pace.names == "camel" else "s"
        return {"chars": list(text), f"char{many}StartTimesMs": starts, f"char{many}DurationsMs": durations}

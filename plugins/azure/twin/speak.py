"""SpeakTurn: one turn of the twin's voice, from `synthesis.context` to `turn.end`.

Fields of the messages: azure-cognitiveservices-speech 1.53.0, captured on loopback; npm
microsoft-cognitiveservices-speech-sdk 1.52.0, `common.speech/{SynthesisAdapterBase,SynthesisContext}.js` and
`ServiceMessages/SynthesisAudioMetadata.d.ts`.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal
from xml.etree import ElementTree

import anyio

from vivavoce.plugins.azure.twin.answers import Close, Told, answer, audio
from vivavoce.plugins.azure.wire import TICKS

LEVEL, STEP = 1000, 16
"""Level of the first turn's audio, and by how much that of the next one is higher."""

SENTENCE_END = re.compile(r".*?[.!?…。！？][\"')\]]*(?:\s+|$)", re.DOTALL)
WORD = re.compile(r"\w+(?:['’]\w+)*")
SPEAK = "{http://www.w3.org/2001/10/synthesis}"

FORMATS = {f"raw-{rate}khz-16bit-mono-pcm": hz for rate, hz in ((8, 8000), (16, 16_000), (24, 24_000), (48, 48_000))}
"""The formats of this server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinPace:
    """How fast the server speaks; seconds."""

    word: float = 0.25
    """Length of a word's audio."""
    first_byte: float = 0.1
    """From a sentence to its first audio."""
    interval: float = 0.01
    """Between the audio of two words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TwinFault:
    """What a turn does in the middle of its speech.

    Args:
        kind: A close with `code` and `reason`; a connection that is cut; nothing more, also after a stop; a frame that
            breaks the protocol; a frame of a kind that no document has.
        after: Words that are spoken before.
    """

    kind: Literal["close", "cut", "stall", "garbage", "unknown"]
    after: int = 0
    code: int = 1011
    reason: str = ""


class Faulty(Exception):  # noqa: N818 - an order to the connection
    """The turn's fault is due, and the connection carries it out."""

    def __init__(self, fault: TwinFault) -> None:
        super().__init__(fault.kind)
        self.fault = fault


class SpeakTurn:
    """Speaks with a tone, whose level is the turn's own.

    Args:
        number: Of the turn in its server, from 0 on.
        context: The body of its `synthesis.context`.
        send: Sends a frame.
    """

    def __init__(
        self,
        number: int,
        request: str,
        context: dict[str, Any],
        send: Callable[[Told | Close], Awaitable[None]],
        pace: TwinPace,
        fault: TwinFault | None,
    ) -> None:
        self.request = request
        self.context = context
        self.level = LEVEL + STEP * number
        """Size of each sample of its audio, in 16 bits."""
        self.text = ""
        """All of its text so far."""
        self.ssml = ""
        """The document, if there was one."""
        self.spoken: list[str] = []
        """The words whose audio was sent."""
        self.is_stopped = False
        self.is_over = False
        self._send = send
        self._pace = pace
        self._fault = fault
        self._waiting = ""
        self._is_last = False
        self._changed = anyio.Event()

    @property
    def input(self) -> dict[str, Any] | None:
        """The settings of a text that comes in pieces; None for a document."""
        found: dict[str, Any] | None = self._synthesis.get("input")
        return found

    @property
    def rate(self) -> int:
        """Hz; 0 for a format that this server does not have."""
        return FORMATS.get(self._synthesis.get("audio", {}).get("outputFormat", ""), 0)

    @property
    def _synthesis(self) -> dict[str, Any]:
        found: dict[str, Any] = self.context.get("synthesis", {})
        return found

    def add(self, text: str) -> None:
        """Take a piece of streamed text."""
        self.text += text
        self._waiting += text
        self._changed.set()

    def finish(self) -> None:
        """Take the end of the text."""
        self._is_last = True
        self._changed.set()

    def document(self, ssml: str) -> Close | None:
        """Take a whole document; return the refusal of one that is none."""
        self.ssml = ssml
        try:
            root = ElementTree.fromstring(ssml)
        except ElementTree.ParseError as error:
            return Close(1007, f"Ssml has wrong format: {error}")
        voices = root.findall(f"{SPEAK}voice")
        if root.tag != f"{SPEAK}speak" or not voices:
            return Close(1007, "Ssml should contain at least one voice element.")
        self.add("".join(voices[0].itertext()))
        self.finish()
        return None

    @property
    def voice(self) -> str:
        """The voice that was asked for."""
        if self.ssml:
            found = re.search(r"<voice[^>]*name=[\"']([^\"']*)", self.ssml)
            return found[1] if found else ""
        return str((self.input or {}).get("voiceName", ""))

    def stop(self) -> None:
        """Stop behind the word that is being sent."""
        self.is_stopped = True
        self._changed.set()

    async def run(self) -> None:
        """Speak until the end.

        Raises:
            Faulty: A fault is due.
        """
        try:
            await self._tell("turn.start", {"context": {"serviceTag": self.request}})
            streams = {"context": {"serviceTag": self.request}, "audio": {"type": "inline", "streamId": "1"}}
            await self._tell("response", streams)
            while not self.is_stopped and (part := await self._next_part()):
                await self._speak(part)
            offset = round(len(self.spoken) * self._pace.word * TICKS)
            await self._tell("audio.metadata", {"Metadata": [{"Type": "SessionEnd", "Data": {"Offset": offset}}]})
            await self._send(audio(self.request, b""))
            await self._tell("turn.end", None)
        finally:
            self.is_over = True

    async def _next_part(self) -> str:
        """Return the next whole sentence, or the rest of a text that is complete; "" at the end."""
        while True:
            found = SENTENCE_END.match(self._waiting)
            if found is not None and (self._is_last or self._waiting[found.end() - 1].isspace()):
                self._waiting = self._waiting[found.end() :]
                return found[0]
            if self._is_last or self.is_stopped:
                rest, self._waiting = self._waiting, ""
                return rest
            self._changed = anyio.Event()
            await self._changed.wait()

    async def _speak(self, part: str) -> None:
        await anyio.sleep(self._pace.first_byte)
        for word in WORD.findall(part):
            if self.is_stopped:
                return
            await self._carry_out_fault()
            start = round(len(self.spoken) * self._pace.word * TICKS)
            length = round(self._pace.word * TICKS)
            text = {"Text": word, "Length": len(word), "BoundaryType": "WordBoundary"}
            boundary = {"Type": "WordBoundary", "Data": {"Offset": start, "Duration": length, "text": text}}
            if self._synthesis.get("audio", {}).get("metadataOptions", {}).get("wordBoundaryEnabled"):
                await self._tell("audio.metadata", {"Metadata": [boundary]})
            samples = round(self._pace.word * self.rate) // 2
            await self._send(audio(self.request, struct.pack("<2h", self.level, -self.level) * samples))
            self.spoken.append(word)
            await anyio.sleep(self._pace.interval)

    async def _carry_out_fault(self) -> None:
        fault = self._fault
        if fault is None or len(self.spoken) != fault.after:
            return
        if fault.kind == "stall":
            await anyio.sleep_forever()
        if fault.kind != "unknown":
            raise Faulty(fault)
        await self._tell("of.the.future", {"data": [5]})

    async def _tell(self, path: str, body: dict[str, Any] | None) -> None:
        stream = "1" if path == "audio.metadata" else ""
        await self._send(answer(path, self.request, body, stream))

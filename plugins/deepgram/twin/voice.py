"""One connection to `/v2/speak` (Flux TTS): turns of a voice whose words the twin itself hears.

Fields: deepgram-sdk 7.17.0, `speak/v2/types/speak_v2*.py`, the handshake's in `speak/v2/client.py`. Behaviour:
https://developers.deepgram.com/docs/flux-tts/ (state, client-messages, server-messages, interrupt-handling).

Unchecked, since no document tells it: an interruption of a turn whose audio was all sent, but not played, is answered
as one of a turn that is being generated (here it is), and words count as heard once they are played to their end.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import anyio
from aiohttp import WSMsgType, web

from vivavoce.pipelines.testing.ear import GAP_SECONDS, WORD_SECONDS, Lexicon, Said
from vivavoce.plugins.deepgram.models import FLUX_VOICES
from vivavoce.plugins.deepgram.twin.handshake import Refusal, bad

WORD = round(WORD_SECONDS + GAP_SECONDS, 6)
"""Seconds of a word's audio."""

RATES = ("8000", "16000", "24000", "32000", "44100", "48000")


@dataclass(slots=True)
class TwinTurn:
    """One turn of a voice."""

    begin: float
    """Seconds of the connection's audio before it."""
    text: str = ""
    is_flushed: bool = False
    is_over: bool = False
    is_interrupted: bool = False
    sent: list[str] = field(default_factory=list)
    """The words whose audio was sent."""
    speech_id: str = field(default_factory=lambda: f"dg_sp_{uuid4().hex[:12]}")

    @property
    def words(self) -> list[str]:
        """The words that can be spoken: the last one may go on, unless the turn is flushed."""
        words = self.text.split()
        return words if self.is_flushed or self.text[-1:].isspace() else words[:-1]


def check_voice(query: Mapping[str, list[str]]) -> Refusal | None:
    """Return the refusal of a handshake with a right key, or None for a good one."""
    if query.get("model", [""])[0] not in FLUX_VOICES:
        return bad("No such model/version combination found.")
    if query.get("encoding", ["linear16"])[0] != "linear16":
        return bad("This twin speaks encoding=linear16 only.")
    if query.get("sample_rate", ["24000"])[0] not in RATES:
        return bad("Unsupported sample_rate.")
    speed = float(query.get("speed", ["1"])[0])
    if not 0.5 <= speed <= 1.5 or abs(speed * 20 - round(speed * 20)) > 1e-6:
        return bad("speed must be between 0.5 and 1.5, in steps of 0.05.")
    return None


class TwinVoice:
    """The server's half of one websocket.

    Args:
        query: Of the handshake.
        note: Called after each message.
        interval: Seconds between the audio of two words.
    """

    def __init__(
        self,
        socket: web.WebSocketResponse,
        abort: Callable[[], object],
        query: dict[str, list[str]],
        lexicon: Lexicon,
        note: Callable[[], None],
        interval: float,
    ) -> None:
        self.query = query
        self.turns: list[TwinTurn] = []
        """All turns, oldest first."""
        self.received: list[dict[str, Any]] = []
        """The client's messages, oldest first."""
        self.is_over = False
        self.abort = abort
        """End the connection without a close."""
        self._socket = socket
        self._lexicon = lexicon
        self._note = note
        self._interval = interval
        self._rate = int(query.get("sample_rate", ["24000"])[0])
        self._end = 0.0
        """Seconds of the connection's audio so far; an interruption sets it to what was played."""
        self._interrupted_at = -1.0
        self._changed = anyio.Event()
        self._is_mute = False

    def stall(self) -> None:
        """Answer nothing from now on."""
        self._is_mute = True

    async def close(self, code: int = 1011, reason: str = "NET-0000") -> None:
        """Close the websocket."""
        await self._socket.close(code=code, message=reason.encode())

    async def send(self, message: dict[str, Any] | str | bytes) -> None:
        """Send a message, or a frame that breaks the protocol."""
        if self._socket.closed or self._is_mute:
            return
        try:
            if isinstance(message, bytes):
                await self._socket.send_bytes(message)
            else:
                await self._socket.send_str(message if isinstance(message, str) else json.dumps(message))
        except ConnectionError:  # the client has left without a close
            return

    async def run(self) -> None:
        """Serve it to its end."""
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._speak)
                await self._read()
                tasks.cancel_scope.cancel()
        finally:
            self.is_over = True
            self._note()

    async def _read(self) -> None:
        model = self.query["model"][0]
        connected = {"request_id": str(uuid4()), "model_name": model, "model_version": "twin", "model_uuids": []}
        await self.send({"type": "Connected", **connected})
        async for frame in self._socket:
            if frame.type is not WSMsgType.TEXT:
                continue
            try:
                told = json.loads(frame.data)
                kind = told["type"]
            except (ValueError, TypeError, KeyError):
                await self._fail("MESSAGE-0000", "The message is not one of this API.")
                return
            self.received.append(told)
            self._note()
            if kind == "Speak":
                self._open.text += told["text"]
            elif kind == "Flush" and (not self.turns or self.turns[-1].is_flushed):
                await self._warn("NO_ACTIVE_SPEECH", "There is nothing to flush.")
            elif kind == "Flush":
                self._open.is_flushed = True
            elif kind == "Interrupt":
                await self._interrupt(told)
            elif kind == "Close":
                await self.close(1000, "")
                return
            else:
                await self._fail("MESSAGE-0000", f"Unknown message type {kind!r}.")
                return
            self._changed.set()

    @property
    def _open(self) -> TwinTurn:
        """The turn that takes text."""
        if not self.turns or self.turns[-1].is_flushed:
            self.turns.append(TwinTurn(0.0))
        return self.turns[-1]

    async def _speak(self) -> None:
        """Speak the turns, one after the other."""
        number = 0
        while True:
            while number == len(self.turns):
                await self._more()
            turn = self.turns[number]
            number += 1
            if not turn.is_interrupted:
                await self._speak_turn(turn)
            turn.is_over = True
            self._note()

    async def _speak_turn(self, turn: TwinTurn) -> None:
        turn.begin = self._end
        is_started = False
        while not turn.is_interrupted:
            if len(turn.sent) < len(turn.words):
                if not is_started:
                    is_started = True
                    await self.send({"type": "SpeechStarted", "speech_id": turn.speech_id})
                word = turn.words[len(turn.sent)]
                turn.sent.append(word)
                self._end = round(self._end + WORD, 6)
                await self.send(self._lexicon.speech(Said(word), self._rate).data)
                self._note()
                await anyio.sleep(self._interval)
            elif turn.is_flushed:
                break
            else:
                await self._more()
        if turn.is_interrupted:
            return
        if not any(letter.isalnum() for letter in turn.text):
            await self._warn("NO_SYNTHESIZABLE_TEXT", "The turn has no words.")
        await self.send({"type": "SpeechMetadata", **self._metadata(turn)})
        await self.send({"type": "Flushed", "speech_id": turn.speech_id})

    async def _interrupt(self, told: Mapping[str, Any]) -> None:
        """End the turn that is heard at the offset, and all behind it."""
        offset = (told.get("playback_offset") or {}).get("value")
        at = self._end if offset is None else offset / 1000
        if not any(turn.sent for turn in self.turns):
            await self._warn("NO_AUDIO_GENERATED", "There is nothing to interrupt.")
            return
        if at <= self._interrupted_at:
            await self._warn("INVALID_INTERRUPT_OFFSET", "The offset does not advance.")
            return
        heard = [turn for turn in self.turns if turn.sent and turn.begin <= at][-1]
        for turn in self.turns[self.turns.index(heard) :]:
            turn.is_interrupted = turn.is_flushed = True
        self._interrupted_at = self._end = at
        count = int((at - heard.begin + 1e-6) / WORD)
        words = heard.text.split()
        told = {"type": "SpeechInterrupted", "audio_played_ms": round(at * 1000), "metadata": self._metadata(heard)}
        if offset is not None:
            told |= {"text_spoken": " ".join(words[:count]), "text_remaining": " ".join(words[count:])}
        await self.send(told)

    def _metadata(self, turn: TwinTurn) -> dict[str, Any]:
        return {
            "speech_id": turn.speech_id,
            "audio_duration_ms": round(len(turn.sent) * WORD * 1000),
            "input_character_count": len(turn.text),
            "billable_character_count": len(turn.text),
            "controls_applied": {},
        }

    async def _more(self) -> None:
        self._changed = anyio.Event()
        await self._changed.wait()

    async def _warn(self, code: str, text: str) -> None:
        await self.send({"type": "Warning", "code": code, "description": text})

    async def _fail(self, code: str, text: str) -> None:
        await self.send({"type": "Error", "code": code, "description": text})
        await self.close(1008, code)

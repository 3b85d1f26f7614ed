"""ListenStream: one session's recognition, turn by turn on one websocket.

A flush ends the turn with an empty message of audio. The service then settles its words and says `turn.end`; audio that
comes meanwhile is held for the next turn, with a request id of its own. Times count from the turn's beginning.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any

from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderTimeoutError
from vivavoce.pipelines.media.frame import BYTES_PER_SAMPLE, AudioFrame
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.reopening_socket import ReopeningSocket
from vivavoce.pipelines.net.sockets import Message, OnLost, OnMessage, Socket
from vivavoce.pipelines.realtime_model.feed import Feed
from vivavoce.pipelines.stt import base
from vivavoce.pipelines.stt.base import STTEvent
from vivavoce.plugins.azure.client import AzureComponent
from vivavoce.plugins.azure.options import STTOptions
from vivavoce.plugins.azure.recognition import Recognition
from vivavoce.plugins.azure.wire import PROVIDER, binary_frame, new_request, read_frame, speech_config, text_frame

RATE = 16_000
"""Hz of the audio that is sent."""

END = b""
"""The message of audio that ends the turn."""

TURN_END_LIMIT = 4.0
"""Seconds in which the service ends a turn; then the connection counts as lost."""

SOURCE = {"type": "Stream", "model": "", "samplerate": str(RATE), "bitspersample": "16", "channelcount": "1"}

RIFF = (
    b"RIFF\0\0\0\0WAVEfmt \x10\0\0\0\x01\0\x01\0"
    + RATE.to_bytes(4, "little")
    + (RATE * BYTES_PER_SAMPLE).to_bytes(4, "little")
    + b"\x02\0\x10\0data\0\0\0\0"
)
"""The head of the audio of each turn."""


class ListenStream(base.STTStream):
    """A lost connection is opened again, without a gap in what it hears.

    Args:
        server: Opens the connections.
        terms: Words to expect.
        asked: For errors.
    """

    def __init__(
        self,
        server: AzureComponent,
        languages: tuple[str, ...],
        terms: tuple[str, ...],
        options: STTOptions,
        asked: str,
    ) -> None:
        self._server = server
        self._context = speech_context(languages, terms, options)
        self._query = query_of(server, languages, options)
        self._terms = terms
        self._asked = asked
        self._clock = LoopClock()
        self._failures = Failures(provider=PROVIDER)
        self._events: Feed[STTEvent] = Feed()
        self._socket: ReopeningSocket[bytes] = ReopeningSocket(
            self._connect,
            self._encode,
            on_message=self._take,
            on_lost=self._events.end,
            provider=PROVIDER,
            component="stt",
            options=options.reopening,
        )
        self._recognition = Recognition(languages, at=self._at, settle=self._settle, report=self._events.put)
        self._tell_lost: OnLost = self._events.end
        self._request = ""
        self._turns = 0
        """Of the present connection."""
        self._turn_at: float | None = None
        """The position at which the turn began; None: with the connection."""
        self._ending: float | None = None
        """The position at which a turn ends that the service has not ended yet."""
        self._ending_since = 0.0
        self._held: deque[bytes] = deque()
        """Audio and ends of turns that wait for the next turn."""

    async def open(self) -> None:
        """Open the first connection.

        Raises:
            ProviderError: It cannot be opened.
        """
        try:
            await self._socket.open()
        except BaseException:
            await self.aclose()
            raise

    # --- the stream

    def push(self, frame: AudioFrame) -> None:
        if not frame.data:  # it would end the turn
            return
        if self._ending is None:
            self._socket.push(frame.data, frame.duration)
            return
        self._held.append(frame.data)
        if self._clock.now() - self._ending_since > TURN_END_LIMIT:
            self._ending_since = self._clock.now()
            text = f"the connection was lost: the service has not ended a turn within {TURN_END_LIMIT} s"
            self._tell_lost(ProviderTimeoutError(text, provider=PROVIDER, retryable=True))

    def events(self) -> AsyncIterator[STTEvent]:
        return self._events.items()

    def flush(self) -> None:
        if self._ending is not None:
            self._held.append(END)
        elif self._socket.position > (self._at(0.0) if self._turns else 0.0):  # else there is nothing to settle
            self._recognition.flush()
            self._ending, self._ending_since = self._socket.position, self._clock.now()
            self._socket.mark(END)

    def discard(self) -> None:
        self._recognition.discard(self._socket.position + sum(map(_seconds, self._held)))
        if self._ending is None:
            self._socket.discard()

    def replay(
        self, push: Callable[[AudioFrame], None], speech_started: Callable[[float], None], flush: Callable[[], None]
    ) -> None:
        """Push the audio behind the words that were reported, also as an interim, which the pipeline settles."""
        shown = self._recognition.shown_until
        for item in (*(piece.item for piece in self._socket.unsettled if piece.start >= shown), *self._held):
            if item:
                push(AudioFrame(item, RATE))
            else:
                flush()

    async def aclose(self) -> None:
        self._events.end()
        await self._socket.aclose()

    # --- the connection

    async def _connect(self, on_message: OnMessage, on_lost: OnLost) -> Socket:
        self._recognition.begin()
        socket, self._failures = await self._server.connect(
            self._query, on_message, on_lost, asked=self._asked, said=lambda: self._terms, component="stt"
        )
        self._tell_lost, self._turns, self._turn_at = on_lost, 0, None
        self._ending_since = self._clock.now()
        socket.post(speech_config(SOURCE))
        self._begin_turn(socket.post)
        socket.start()
        return socket

    def _begin_turn(self, post: Callable[[Message], object]) -> None:
        self._turns += 1
        self._request = new_request()
        post(text_frame("speech.context", self._context, request=self._request))
        post(self._audio(RIFF, kind="audio/x-wav"))

    def _encode(self, item: bytes) -> Message:
        return self._audio(item)

    def _audio(self, data: bytes, kind: str = "") -> bytes:
        return binary_frame("audio", data, request=self._request, kind=kind, stream=str(self._turns))

    def _take(self, message: Message) -> None:
        frame = read_frame(message, self._failures)
        if frame.path == "turn.end":
            self._end_turn()
        else:
            self._recognition.take(frame, self._failures)

    def _end_turn(self) -> None:
        """Begin the next turn.

        Raises:
            ProviderError: The service ended the turn by itself, and has not heard all of its audio.
        """
        if self._ending is None:
            text = "the connection was lost: the service ended the turn by itself"
            raise ProviderConnectionError(text, provider=PROVIDER)
        self._turn_at, self._ending = self._ending, None
        self._recognition.finish(self._turn_at)
        self._begin_turn(self._socket.post)
        while self._held and self._ending is None:
            item = self._held.popleft()
            if item:
                self._socket.push(item, _seconds(item))
            else:
                self.flush()

    def _at(self, seconds: float) -> float:
        return self._socket.at(seconds) if self._turn_at is None else self._turn_at + seconds

    def _settle(self, until: float) -> None:
        """Note that all words up to there are known; the end of a turn is known with `turn.end` only."""
        self._socket.settle(until if self._ending is None else min(until, self._ending - 1e-6))


def _seconds(item: bytes) -> float:
    return len(item) / BYTES_PER_SAMPLE / RATE


def speech_context(languages: tuple[str, ...], terms: tuple[str, ...], options: STTOptions) -> str:
    """Return the body of `speech.context`.

    Source: azure-cognitiveservices-speech 1.53.0, captured on loopback; npm microsoft-cognitiveservices-speech-sdk
    1.52.0, `common.speech/ServiceMessages/PhraseDetection/*.d.ts`.
    """
    detection: dict[str, Any] = {"mode": "CONVERSATION", "enrichment": {"profanity": options.profanity}}
    output: dict[str, Any] = {"format": "Detailed", "detailed": {"options": ["WordTimings", "WordConfidence"]}}
    context: dict[str, Any] = {"phraseDetection": detection, "phraseOutput": output, "audio": {"streams": {"1": None}}}
    if options.semantic:
        detection["CONVERSATION"] = {"segmentation": {"mode": "Semantic"}}
    elif options.endpointing is not None:
        silence = {"mode": "Custom", "segmentationSilenceTimeoutMs": round(options.endpointing * 1000)}
        detection["CONVERSATION"] = {"segmentation": silence}
    if options.diarize:
        detection["mode"] = "Conversation"
        session = {"audioSessionId": new_request(), "audioOffsetMS": 0, "identityProvider": None}
        detection["speakerDiarization"] = {"mode": "Anonymous", **session}
    if len(languages) == 1:
        detection["language"] = languages[0]
    else:
        detection |= {"onSuccess": {"action": "None"}, "onInterim": {"action": "None"}}
        context["languageId"] = {
            "languages": list(languages),
            "onSuccess": {"action": "Recognize"},
            "onUnknown": {"action": "None"},
            "mode": "DetectContinuous",
            "Priority": "PrioritizeLatency",
        }
        output |= {"interimResults": {"resultType": "Auto"}, "phraseResults": {"resultType": "Always"}}
    if terms:
        context["dgi"] = {"Groups": [{"Type": "Generic", "Items": [{"Text": term} for term in terms]}], "bias": 1.0}
    return json.dumps(context)


def query_of(server: AzureComponent, languages: tuple[str, ...], options: STTOptions) -> list[tuple[str, str]]:
    """Return the parameters of the handshake: the older form of the service has its settings there."""
    query = [("cid", options.deployment)] if options.deployment else []
    if not server.is_newest:
        query += [("language", languages[0]), ("format", "detailed"), ("profanity", options.profanity)]
        query += [("wordLevelTimestamps", "true"), ("wordLevelConfidence", "true")]
    return query

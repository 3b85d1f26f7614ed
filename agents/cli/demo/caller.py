"""The simulated caller, a process of its own: `python -m vivavoce.agents.cli.demo.caller`, a CallRequest on stdin.

It joins a room, speaks synthetic speech in real time, and decides only from the audio that it receives: its own voice
activity detection, and grammar recognition of what the host may say. Transcriptions are never read. Time that it acts
on is counted in received samples; the wall clock may only fail the call. Events and the result go to stdout, one JSON
object a line. It ends when its stdin does, so it never outlives whoever started it.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from vivavoce.agents.cli.demo.checks import CallerTurn, CallResult
from vivavoce.agents.cli.demo.line import FRAME_SAMPLES, Line
from vivavoce.agents.cli.demo.mind import SAMPLE_RATE, CallerMind
from vivavoce.pipelines.core.errors import RoomError, VoiceError
from vivavoce.pipelines.media.frame import FRAME_SECONDS, AudioFrame
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.media.wav import write_wav

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectSendStream
    from livekit import rtc

    from vivavoce.pipelines.stt.base import STTStream

HOST_GRAMMAR = Path(__file__).with_name("host_says.gram")
VOICE = "en-us+f2"
WORDS_PER_MINUTE = 150

CONNECT_LIMIT = 10.0
ANSWER_LIMIT = 20.0
"""Seconds for the agent to join and publish its track."""
CALL_LIMIT = 120.0
MAX_QUEUED = 0.025
"""Seconds of the caller's audio that may wait to be sent; beyond, silence is left out until it has caught up."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRequest:
    """Where to call, and where to leave the recording."""

    url: str
    token: str = field(repr=False)
    wav: str


def _tell(event: str, **data: Any) -> None:
    print(json.dumps({"event": event, **data}), flush=True)


async def _place_call(request: CallRequest) -> CallResult:
    """Run the whole call.

    Raises:
        VoiceError: It could not be placed.
    """
    from vivavoce.plugins import pocketsphinx, silero

    mind = CallerMind()
    voice = await _speak_all(mind.script.lines)
    async with pocketsphinx.STT(grammar=HOST_GRAMMAR) as stt, silero.VAD() as vad, _connected(request) as call:
        ears = await stt.open()
        line = Line(mind, vad.open(), ears, voice, lambda event, text: _tell(event, text=text))
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_understand, ears, line)
                with anyio.move_on_after(CALL_LIMIT):
                    await _talk(call, line)
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await ears.aclose()
    await anyio.to_thread.run_sync(write_wav, Path(request.wav), line.recording())
    return _result(line, mind)


def _result(line: Line, mind: CallerMind) -> CallResult:
    problem = "the agent left, or the call took too long" if line.hung_up is None else line.hung_up.problem
    turns = (
        CallerTurn(line=turn.line, start=turn.start, end=turn.end, is_barge_in=turn.is_barge_in, answer=turn.answer)
        for turn in mind.turns
    )
    return CallResult(sample_rate=SAMPLE_RATE, turns=tuple(turns), problem=problem)


async def _speak_all(lines: list[str]) -> dict[str, bytes]:
    """Return each line as PCM, spoken before the call so that speaking costs it no time."""
    from vivavoce.plugins import espeak

    spoken: dict[str, bytes] = {}
    async with espeak.TTS(voice=VOICE, rate=WORDS_PER_MINUTE) as tts:
        for text in lines:
            resampler = Resampler(tts.capabilities.sample_rate, SAMPLE_RATE)
            async with aclosing(tts.synthesize(text)) as chunks:
                pieces = [resampler.push(chunk.frame).data async for chunk in chunks]
            spoken[text] = b"".join(pieces) + resampler.flush().data
    return spoken


@dataclass(frozen=True, slots=True)
class _Call:
    """The room's two ends of the caller."""

    source: rtc.AudioSource
    agent: rtc.AudioStream


@asynccontextmanager
async def _connected(request: CallRequest) -> AsyncIterator[_Call]:
    """Join the room, publish the microphone, wait for the agent's voice."""
    from livekit import rtc

    room = rtc.Room()
    tracks, track_seen = anyio.create_memory_object_stream[rtc.RemoteAudioTrack](8)
    _watch(room, tracks)
    try:
        with anyio.fail_after(CONNECT_LIMIT):
            await room.connect(request.url, request.token)
            source = rtc.AudioSource(SAMPLE_RATE, 1, queue_size_ms=200)
            microphone = rtc.LocalAudioTrack.create_audio_track("microphone", source)
            options = rtc.TrackPublishOptions(source=rtc.TrackSource.SOURCE_MICROPHONE)
            await room.local_participant.publish_track(microphone, options)
        _tell("joined", room=room.name)
        with anyio.fail_after(ANSWER_LIMIT):
            track = await track_seen.receive()
        _tell("answered")
        stream = rtc.AudioStream.from_track(
            track=track, sample_rate=SAMPLE_RATE, num_channels=1, frame_size_ms=round(1000 * FRAME_SECONDS)
        )
        try:
            yield _Call(source, stream)
        finally:
            with anyio.CancelScope(shield=True):
                await stream.aclose()
    except rtc.ConnectError as error:
        raise RoomError(f"the caller could not join {request.url}: {error}") from error
    except TimeoutError as error:
        raise RoomError("no agent answered the call in time; is a worker registered?") from error
    finally:
        tracks.close()
        track_seen.close()
        with anyio.move_on_after(1.0, shield=True):
            await room.disconnect()


def _watch(room: rtc.Room, tracks: MemoryObjectSendStream[rtc.RemoteAudioTrack]) -> None:
    from livekit import rtc

    @room.on("track_subscribed")
    def on_track(track: rtc.Track, publication: object, participant: rtc.RemoteParticipant) -> None:
        if isinstance(track, rtc.RemoteAudioTrack):
            tracks.send_nowait(track)


async def _understand(ears: STTStream, line: Line) -> None:
    async for event in ears.events():
        line.understood(event)


async def _talk(call: _Call, line: Line) -> None:
    """Exchange frame for frame until one side hangs up: what is received is the only clock."""
    async for event in call.agent:
        frame = event.frame
        if frame.samples_per_channel != FRAME_SAMPLES:
            continue
        out = line.exchange(AudioFrame(bytes(frame.data), SAMPLE_RATE))
        if line.hung_up is not None:
            return
        if out is None and call.source.queued_duration > MAX_QUEUED:
            continue
        await call.source.capture_frame(_to_room(out or AudioFrame.silence(FRAME_SECONDS, SAMPLE_RATE)))


def _to_room(frame: AudioFrame) -> rtc.AudioFrame:
    from livekit import rtc

    return rtc.AudioFrame(frame.data, frame.sample_rate, frame.num_channels, frame.samples)


async def _run() -> int:
    lifeline = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(lifeline)
    await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, sys.stdin)
    request = CallRequest(**json.loads(await lifeline.readline()))
    status = 1
    async with anyio.create_task_group() as tasks:

        async def end_with_parent() -> None:
            await lifeline.read()
            tasks.cancel_scope.cancel()

        tasks.start_soon(end_with_parent)
        try:
            result = await _place_call(request)
        except* VoiceError as failed:
            _tell("failed", problem="; ".join(str(error) for error in failed.exceptions))
        else:
            _tell("result", **result.to_json())
            status = 0
        tasks.cancel_scope.cancel()
    return status


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started it decides: closing stdin ends it
    sys.exit(asyncio.run(_run()))

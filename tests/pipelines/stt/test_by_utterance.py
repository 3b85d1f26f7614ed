"""UtteranceStream: finals and interims of a recogniser that takes whole utterances; the test's hears their length."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable

import anyio
import anyio.lowlevel
import anyio.to_thread
import numpy as np
import pytest

from kit.limits import LIMIT
from kit.speech import frames, white_noise
from vivavoce.pipelines.core.bounded_thread import BoundedThread
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import STTEvent, STTFinal, STTInterim
from vivavoce.pipelines.stt.by_utterance import LONGEST, Heard, UtteranceStream, quietest

NOISE = white_noise(1.0, -20)
TWICE = AudioFrame(NOISE.data * 2, 16000)


def tenths(pcm: bytes) -> Heard:
    """Hears the length of the audio, in tenths of a second."""
    return Heard(f"{len(pcm) / 3200:.0f}", 0.9)


def stream(
    recognise: Callable[[bytes], Heard] = tenths, interval: float | None = None, thread: BoundedThread | None = None
) -> UtteranceStream:
    return UtteranceStream(
        "test.STT", recognise, thread or BoundedThread("test"), language="en", interim_interval=interval
    )


def say(to: UtteranceStream, audio: AudioFrame = NOISE) -> None:
    to.speech_started(0.0)
    for frame in frames(audio):
        to.push(frame)
    to.flush()


def final_of(event: STTEvent) -> tuple[str, float | None, float]:
    assert isinstance(event, STTFinal)
    assert event.language == "en"
    return event.text, event.confidence, round(event.audio_seconds, 3)


async def following(events: AsyncIterator[STTEvent]) -> STTEvent:
    with anyio.fail_after(LIMIT):
        return await anext(events)


async def until(is_so: Callable[[], bool]) -> None:
    with anyio.fail_after(LIMIT):
        while not is_so():
            await anyio.lowlevel.checkpoint()


async def test_a_final_has_the_audio_of_its_utterance_with_a_moment_before_the_onset() -> None:
    one = stream()
    for frame in frames(NOISE):
        one.push(frame)
    say(one)
    assert final_of(await following(one.events())) == ("12", 0.9, 1.2)


async def test_a_flush_without_speech_is_an_empty_final() -> None:
    one = stream()
    one.flush()
    assert await following(one.events()) == STTFinal(text="", language="en")


async def test_a_flush_in_mid_speech_divides_the_audio() -> None:
    one = stream()
    say(one)
    say(one)
    events = one.events()
    assert [final_of(await following(events)) for _ in range(2)] == [("10", 0.9, 1.0)] * 2


async def test_interims_come_at_their_interval_and_only_with_other_words() -> None:
    lengths: list[float] = []

    def recognise(pcm: bytes) -> Heard:
        lengths.append(round(len(pcm) / 32000, 2))
        return Heard("long" if lengths[-1] > 1.0 else "short")

    one, heard = stream(recognise, interval=0.3), list[STTEvent]()

    async def take() -> None:
        async for event in one.events():
            heard.append(event)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        expected = 0
        one.speech_started(0.0)
        for frame in frames(TWICE):
            one.push(frame)
            if one.wants_look:
                expected += 1
                await until(lambda: len(lengths) == expected)  # noqa: B023 - awaited here
        one.flush()
        await until(lambda: len(heard) == 3)
        await one.aclose()
    assert lengths == [0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.0]
    assert heard[:2] == [STTInterim(text="short", language="en"), STTInterim(text="long", language="en")]
    assert isinstance(heard[2], STTFinal)


class Recogniser:
    """Hears the length of the audio, and notes it; in a stream whose events it takes."""

    def __init__(self, interval: float | None = None) -> None:
        self.asked: list[str] = []
        self.found: list[STTEvent] = []
        self.stream = stream(self._recognise, interval)

    def _recognise(self, pcm: bytes) -> Heard:
        self.asked.append(tenths(pcm).text)
        return tenths(pcm)

    async def take(self) -> None:
        async for event in self.stream.events():
            self.found.append(event)

    async def hear(self, seconds: float) -> None:
        """Push audio, and let the stream do what is due by then."""
        for frame in frames(white_noise(seconds, -20)):
            self.stream.push(frame)
            if self.stream.wants_look:
                asked = len(self.asked)
                await until(lambda: len(self.asked) > asked)  # noqa: B023 - awaited here

    def finals(self) -> list[str]:
        return [event.text for event in self.found if isinstance(event, STTFinal)]


@pytest.mark.parametrize("interval", [None, 0.5])
async def test_the_words_before_a_pause_are_the_final_if_the_voice_does_not_go_on(interval: float | None) -> None:
    one = Recogniser(interval)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.take)
        one.stream.speech_started(0.0)
        await one.hear(0.4)
        one.stream.voice_paused()
        await one.hear(0.06)
        assert one.asked == []  # the end of a "t" comes late
        await one.hear(0.4)
        one.stream.flush()
        await until(lambda: len(one.finals()) == 1)
        await one.stream.aclose()
    assert (one.asked, one.finals()) == (["5"], ["5"])
    assert interval is not None or len(one.found) == 1  # it is no interim where there are none


async def test_a_voice_that_goes_on_after_a_pause_is_recognised_anew() -> None:
    one = Recogniser()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(one.take)
        one.stream.speech_started(0.0)
        for _ in range(2):
            one.stream.voice_paused()
            await one.hear(0.2)
            one.stream.voice_resumed()
            await one.hear(0.2)
        one.stream.flush()
        await until(lambda: len(one.finals()) == 1)
        await one.stream.aclose()
    assert (one.asked, one.finals()) == (["1", "5", "8"], ["8"])


async def test_while_others_wait_for_the_thread_there_are_no_interims() -> None:
    thread, may_go, lengths = BoundedThread("test"), threading.Event(), list[int]()

    def recognise(pcm: bytes) -> Heard:
        may_go.wait(LIMIT)
        lengths.append(len(pcm))
        return tenths(pcm)

    busy, talking = stream(recognise, 0.3, thread), stream(recognise, 0.3, thread)
    found: list[STTEvent] = []

    async def take(one: UtteranceStream) -> None:
        async for event in one.events():
            found.append(event)

    async with anyio.create_task_group() as tasks:
        for one in (busy, talking):
            tasks.start_soon(take, one)
        say(busy)
        await until(lambda: thread.is_busy)
        talking.speech_started(0.0)
        for frame in frames(TWICE):
            talking.push(frame)
            await anyio.lowlevel.checkpoint()
        talking.flush()
        may_go.set()
        await until(lambda: len(found) == 2)
        await busy.aclose()
        await talking.aclose()
    assert [type(event) for event in found] == [STTFinal, STTFinal]
    assert lengths == [32000, 64000]


async def test_a_discarded_utterance_is_forgotten_even_while_it_is_recognised() -> None:
    is_asked, may_go = threading.Event(), threading.Event()

    def recognise(pcm: bytes) -> Heard:
        is_asked.set()
        may_go.wait(LIMIT)
        return tenths(pcm)

    one, found = stream(recognise), list[STTEvent]()
    say(one)

    async def take() -> None:
        found.append(await following(one.events()))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(take)
        await anyio.to_thread.run_sync(is_asked.wait)
        one.discard()
        say(one, AudioFrame(NOISE.data[:16000], 16000))
        may_go.set()
    assert [event.text for event in found if isinstance(event, STTFinal)] == ["5"]


async def test_long_speech_is_recognised_in_pieces_that_are_cut_where_it_is_quietest() -> None:
    loud, quiet = white_noise(9.0, -20), white_noise(0.3, -60)
    audio = AudioFrame(loud.data + quiet.data + loud.data, 16000)
    pieces: list[bytes] = []

    def recognise(pcm: bytes) -> Heard:
        pieces.append(pcm)
        return tenths(pcm)

    one = stream(recognise)
    say(one, audio)
    final = await following(one.events())
    assert isinstance(final, STTFinal)
    assert b"".join(pieces) == audio.data
    assert final.audio_seconds == pytest.approx(18.3)
    assert all(len(piece) <= LONGEST * 32000 for piece in pieces)
    assert 9.0 <= len(pieces[0]) / 32000 <= 9.3
    assert final.text == " ".join(tenths(piece).text for piece in pieces)


def test_the_quietest_place_is_in_the_second_half() -> None:
    samples = np.full(32000, 1000, dtype=np.int16)
    samples[4000:8000] = 0
    samples[24000:27200] = 10
    assert 24000 <= quietest(samples.tobytes()) <= 27200


async def test_a_failing_recogniser_ends_the_events_with_its_error() -> None:
    def fail(pcm: bytes) -> Heard:
        raise ProviderError("lost", provider="test")

    one = stream(fail)
    say(one)
    with pytest.raises(ProviderError, match="lost"):
        await following(one.events())


async def test_a_frame_of_another_rate_is_refused() -> None:
    with pytest.raises(ValueError, match=r"test\.STT needs mono frames of 16000 Hz, got 48000 Hz"):
        stream().push(AudioFrame.silence(0.02, 48000))

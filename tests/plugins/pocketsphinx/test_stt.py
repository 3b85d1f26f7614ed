"""pocketsphinx on real speech, cut by the real Silero VAD: words, interims, fillers, streams, errors."""

from __future__ import annotations

import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from kit.speech import BOOKING, PHRASES, brown_noise, frames, mixed, padded, spoken, white_noise
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import STTEvent, STTFinal, STTInterim, STTStream
from vivavoce.pipelines.vad.base import VADSpeechEnded, VADSpeechStarted, VADStream
from vivavoce.plugins import pocketsphinx, silero

LIMIT = 60.0


class Listener:
    """A stream with its VAD, fed as fast as it goes, as a pipeline feeds them in real time."""

    def __init__(self, stream: STTStream, vad: VADStream) -> None:
        self.stream = stream
        self.interims: list[str] = []
        self._vad = vad
        self._events: AsyncIterator[STTEvent] = stream.events()

    async def listen(self, audio: AudioFrame) -> list[str]:
        """Push `audio` and return the finals, one for each speech that the VAD ended."""
        finals = []
        for frame in frames(audio):
            self.stream.push(frame)
            for event in self._vad.push(frame):
                if isinstance(event, VADSpeechStarted):
                    self.stream.speech_started(event.ago)
                elif isinstance(event, VADSpeechEnded):
                    self.stream.flush()
                    finals.append((await self.final()).text)
        return finals

    async def final(self) -> STTFinal:
        """Return the next final, noting the interims before it."""
        with anyio.fail_after(LIMIT):
            while True:
                event = await anext(self._events)
                if isinstance(event, STTFinal):
                    return event
                assert isinstance(event, STTInterim)
                self.interims.append(event.text)


async def decoders_end() -> None:
    """Wait until no decoder's thread is left."""
    for thread in threading.enumerate():
        if thread.name == "pocketsphinx":
            await anyio.to_thread.run_sync(thread.join, LIMIT)
            assert not thread.is_alive()


def plain(phrase: str) -> str:
    return phrase.replace(",", "")


@pytest.mark.parametrize(
    ("fillers", "noise"),
    [((), -90.0), ((), -55.0), (pocketsphinx.FILLERS, -70.0)],
    ids=["quiet", "noisy", "fillers"],
)
async def test_booking_phrases_are_understood_to_the_word(fillers: tuple[str, ...], noise: float) -> None:
    stt = pocketsphinx.STT(grammar=BOOKING, fillers=fillers)
    stream = await stt.open()
    listener = Listener(stream, silero.VAD().open())
    heard = {}
    for phrase, speech in zip(PHRASES, await spoken(*PHRASES), strict=True):
        audio = padded(speech, before=0.4, after=0.4)
        heard[plain(phrase)] = await listener.listen(mixed(audio, white_noise(audio.duration, noise)))
    await stream.aclose()
    assert {phrase: " ".join(finals) for phrase, finals in heard.items()} == {plain(one): plain(one) for one in PHRASES}


async def test_the_first_utterance_of_a_session_is_understood_like_any_other() -> None:
    stt = pocketsphinx.STT(grammar=BOOKING)
    vad = silero.VAD()
    for phrase, speech in zip(PHRASES, await spoken(*PHRASES), strict=True):
        stream = await stt.open()
        audio = padded(speech, before=0.4, after=0.4)
        heard = await Listener(stream, vad.open()).listen(mixed(audio, white_noise(audio.duration, -60)))
        await stream.aclose()
        assert " ".join(heard) == plain(phrase)


async def test_interims_grow_before_the_final_and_usage_counts_the_audio_taken() -> None:
    (speech,) = await spoken("a table for two on saturday")
    stream = await pocketsphinx.STT(grammar=BOOKING).open()
    listener = Listener(stream, silero.VAD().open())
    for frame in frames(AudioFrame.silence(0.5, 16000)):
        stream.push(frame)
    stream.speech_started(0.0)
    for frame in frames(speech):
        stream.push(frame)
    stream.flush()
    final = await listener.final()
    await stream.aclose()
    assert final.text == "a table for two on saturday"
    assert final.audio_seconds == pytest.approx(speech.duration + 0.2, abs=0.05)
    assert final.language == "en-US"
    assert len(set(listener.interims)) >= 4
    assert any("table" in interim for interim in listener.interims)
    assert all(one != other for one, other in zip(listener.interims, listener.interims[1:], strict=False))


async def test_a_flush_without_speech_is_an_empty_final() -> None:
    stream = await pocketsphinx.STT(grammar=BOOKING).open()
    listener = Listener(stream, silero.VAD().open())
    stream.flush()
    assert (await listener.final()).text == ""
    assert await listener.listen(brown_noise(2, -40)) == []
    stream.flush()
    assert (await listener.final()).text == ""
    await stream.aclose()


@pytest.mark.parametrize("voiced", ["hmm", "uh", "um", "ha ha ha"])
async def test_sounds_that_are_no_words_are_an_empty_final_with_fillers(voiced: str) -> None:
    (speech,) = await spoken(voiced)
    stream = await pocketsphinx.STT(grammar=BOOKING, fillers=pocketsphinx.FILLERS).open()
    listener = Listener(stream, silero.VAD().open())
    stream.speech_started(0.0)
    for frame in frames(padded(speech, before=0.1, after=0.2)):
        stream.push(frame)
    stream.flush()
    final = await listener.final()
    await stream.aclose()
    assert final.text == ""


async def test_two_streams_at_once_hear_their_own_words() -> None:
    stt = pocketsphinx.STT(grammar=BOOKING)
    one, other = await spoken("a table for two on saturday", "wednesday at quarter past eight")
    heard: dict[str, list[str]] = {}

    async def listen(name: str, speech: AudioFrame) -> None:
        stream = await stt.open()
        heard[name] = await Listener(stream, silero.VAD().open()).listen(padded(speech))
        await stream.aclose()

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen, "one", one)
        tasks.start_soon(listen, "other", other)
    assert heard == {"one": ["a table for two on saturday"], "other": ["wednesday at quarter past eight"]}


async def test_a_discarded_utterance_is_never_heard_of_and_the_next_one_is() -> None:
    wrong, right = await spoken("goodbye", "friday at seven")
    stream = await pocketsphinx.STT(grammar=BOOKING).open()
    listener = Listener(stream, silero.VAD().open())
    stream.speech_started(0.0)
    for frame in frames(wrong):
        stream.push(frame)
    stream.discard()
    assert await listener.listen(padded(right)) == ["friday at seven"]
    await stream.aclose()
    assert not any("bye" in interim for interim in listener.interims)


async def test_speech_that_goes_on_just_after_a_flush_is_an_utterance_of_its_own() -> None:
    first, second = await spoken("yes please", "at eight")
    stream = await pocketsphinx.STT(grammar=BOOKING).open()
    listener = Listener(stream, silero.VAD().open())
    joined = AudioFrame(padded(first, after=0.25).data + padded(second, before=0).data, 16000)
    heard = await listener.listen(mixed(joined, white_noise(joined.duration, -70)))
    assert heard == ["yes please", "at eight"]
    await stream.aclose()


async def test_a_closed_stream_ends_its_events_and_its_thread() -> None:
    stream = await pocketsphinx.STT(grammar=BOOKING).open()
    stream.speech_started(0.0)
    stream.push(AudioFrame.silence(0.02, 16000))
    await stream.aclose()
    await stream.aclose()
    stream.push(AudioFrame.silence(0.02, 16000))
    stream.speech_started(0.0)
    stream.flush()
    with anyio.fail_after(LIMIT):
        assert [event async for event in stream.events()] == []
    await decoders_end()


async def test_a_decoder_that_falls_behind_drops_the_oldest_audio_and_counts_it() -> None:
    options = pocketsphinx.STTOptions(max_backlog=0.5)
    stream = await pocketsphinx.STT(grammar=BOOKING, options=options).open()
    stream.speech_started(0.0)
    for frame in frames(white_noise(30, -30)):
        stream.push(frame)
    stream.flush()
    assert (await Listener(stream, silero.VAD().open()).final()).audio_seconds < 30
    assert isinstance(stream.dropped, int)
    assert stream.dropped > 100
    await stream.aclose()


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("public <a> = hello | <nowhere>;", "nowhere"),
        ("public <a> = hello | (world;", "does not parse"),
        ("public <a> = hello zorgblatt | frobnitz;", "'frobnitz', 'zorgblatt'"),
    ],
)
async def test_a_wrong_grammar_is_refused_with_what_is_wrong(rules: str, message: str) -> None:
    stt = pocketsphinx.STT(grammar=f"#JSGF V1.0;\ngrammar wrong;\n{rules}\n")
    with pytest.raises(ConfigurationError, match=message):
        await stt.open()
    await decoders_end()


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        ("#JSGF V1.0;\ngrammar none;\n<a> = hello;", "public rule"),
        ("public <a> = hello;", "#JSGF"),
        (Path("/nowhere.gram"), "No such file"),
    ],
)
def test_a_grammar_that_is_none_is_refused_at_once(grammar: str | Path, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        pocketsphinx.STT(grammar=grammar)


def test_a_missing_extra_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pocketsphinx", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'vivavoce\[pocketsphinx\]'"):
        pocketsphinx.STT()


async def test_words_come_as_the_grammar_file_spells_them_and_may_bring_their_own_phones(tmp_path: Path) -> None:
    file = tmp_path / "names.gram"
    file.write_text("#JSGF V1.0;\ngrammar names;\npublic <a> = Friday with Vivavoce | Sunday;\n")
    options = pocketsphinx.STTOptions(pronunciations={"vivavoce": "V IY V AH V OW CH EY"})
    (speech,) = await spoken("friday with viva vochay")
    stream = await pocketsphinx.STT(grammar=file, options=options).open()
    heard = await Listener(stream, silero.VAD().open()).listen(padded(speech))
    await stream.aclose()
    assert heard == ["Friday with Vivavoce"]


async def test_without_a_grammar_general_english_is_heard_more_or_less() -> None:
    (speech,) = await spoken("good morning", voice="en-us")
    stream = await pocketsphinx.STT().open()
    heard = await Listener(stream, silero.VAD().open()).listen(padded(speech))
    await stream.aclose()
    assert len(" ".join(heard)) >= 2


def test_a_frame_of_another_rate_is_refused_by_name() -> None:
    async def run() -> None:
        stream = await pocketsphinx.STT(grammar=BOOKING).open()
        try:
            stream.push(AudioFrame.silence(0.02, 48000))
        finally:
            await stream.aclose()

    with pytest.raises(ValueError, match="16000 Hz, got 48000 Hz"):
        anyio.run(run)


async def test_speech_that_goes_on_over_a_flush_is_heard_to_its_end_and_nothing_of_it_twice() -> None:
    first, second = await spoken("yes please", "friday at seven")
    stream = await pocketsphinx.STT(grammar=BOOKING).open()
    listener = Listener(stream, silero.VAD().open())
    for frame in frames(AudioFrame.silence(0.5, 16000)):
        stream.push(frame)
    for speech in (first, second):
        stream.speech_started(0.0)
        for frame in frames(speech):
            stream.push(frame)
        stream.flush()
    finals = [await listener.final(), await listener.final()]
    await stream.aclose()
    assert [final.text for final in finals] == ["yes please", "friday at seven"]
    assert finals[1].audio_seconds == pytest.approx(second.duration, abs=0.03)

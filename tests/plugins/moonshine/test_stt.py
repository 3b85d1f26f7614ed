"""moonshine with its real weights hears hibari: whole sentences, interims, noise, long speech, many streams, errors."""

from __future__ import annotations

import shutil
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from kit.limits import LIMIT
from kit.speech import frames, mixed, padded, spoken_naturally, white_noise
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.words import words_of
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import STTEvent, STTFinal, STTInterim, STTStream
from vivavoce.pipelines.stt.by_utterance import Heard
from vivavoce.plugins import moonshine
from vivavoce.plugins.moonshine import network, weights

SENTENCES = (
    "Do you have a table for six on Sunday evening?",
    "Could we sit outside by the window, if the weather is nice?",
    "My sister does not eat any fish or nuts.",
    "Thank you very much, that is all.",
    "No, I would like to come on Friday.",
)


async def hear(stream: STTStream, events: AsyncIterator[STTEvent], audio: AudioFrame) -> tuple[list[str], STTFinal]:
    """Return the interims and the final of an utterance."""
    stream.speech_started(0.0)
    for frame in frames(audio):
        stream.push(frame)
        await anyio.lowlevel.checkpoint()
    stream.flush()
    interims: list[str] = []
    with anyio.fail_after(LIMIT):
        async for event in events:
            if isinstance(event, STTFinal):
                return interims, event
            assert isinstance(event, STTInterim)
            interims.append(event.text)
    raise AssertionError("the stream has ended")


async def test_whole_sentences_are_understood_to_the_word_clean_and_in_noise() -> None:
    stream = await moonshine.STT().open()
    events = stream.events()
    heard = []
    for number, speech in enumerate(await spoken_naturally(*SENTENCES)):
        audio = padded(speech, before=0.2, after=0.3)
        audio = mixed(audio, white_noise(audio.duration, -50)) if number % 2 else audio
        heard.append((await hear(stream, events, audio))[1])
    await stream.aclose()
    assert [words_of(final.text) for final in heard] == [words_of(sentence) for sentence in SENTENCES]
    assert all(final.confidence and final.confidence > 0.5 and final.language == "en" for final in heard)
    assert "?" in heard[0].text


async def test_interims_come_before_the_final() -> None:
    (speech,) = await spoken_naturally(SENTENCES[0])
    stream = await moonshine.STT().open()
    heard: list[STTEvent] = []

    async def listen() -> None:
        async for event in stream.events():
            heard.append(event)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(listen)
        stream.speech_started(0.0)
        with anyio.fail_after(LIMIT):
            for frame in frames(speech):
                stream.push(frame)
                while stream.wants_look:
                    await anyio.lowlevel.checkpoint()
            stream.flush()
            while not (heard and isinstance(heard[-1], STTFinal)):
                await anyio.lowlevel.checkpoint()
        await stream.aclose()
    *interims, final = heard
    assert len({event.text for event in interims if isinstance(event, STTInterim)}) >= 2
    assert isinstance(final, STTFinal)
    assert words_of(final.text) == words_of(SENTENCES[0])


@pytest.mark.parametrize("sound", [AudioFrame.silence(1.5, 16000), white_noise(1.5, -40)], ids=["silence", "noise"])
async def test_silence_and_noise_are_no_words(sound: AudioFrame) -> None:
    stream = await moonshine.STT().open()
    interims, final = await hear(stream, stream.events(), sound)
    await stream.aclose()
    assert (interims, final.text) == ([], "")


async def test_speech_of_any_length_is_heard_to_its_end() -> None:
    speech = await spoken_naturally(*SENTENCES, *SENTENCES)
    audio = AudioFrame(b"".join(one.data for one in speech), 16000)
    assert audio.duration > 20
    stream = await moonshine.STT(options=moonshine.STTOptions(interim_interval=None)).open()
    _, final = await hear(stream, stream.events(), audio)
    await stream.aclose()
    assert words_of(final.text) == words_of(" ".join((*SENTENCES, *SENTENCES)))
    assert final.audio_seconds == pytest.approx(audio.duration, abs=0.05)


@pytest.mark.test_all("twenty callers speak at once on one model, for seconds of computing")
@pytest.mark.timeout(180)
async def test_twenty_sessions_of_a_process_share_one_model_and_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: set[str] = set()
    recognise = network.Network.recognise

    def watched(one: network.Network, pcm: bytes) -> Heard:
        threads.add(threading.current_thread().name)
        return recognise(one, pcm)

    monkeypatch.setattr(network.Network, "recognise", watched)
    speech = await spoken_naturally(*SENTENCES[:4])
    heard: dict[int, str] = {}

    async def call(number: int) -> None:
        stream = await moonshine.STT().open()
        _, final = await hear(stream, stream.events(), speech[number % 4])
        heard[number] = final.text
        await stream.aclose()

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(call, number)
    assert {number: words_of(text) for number, text in heard.items()} == {
        number: words_of(SENTENCES[number % 4]) for number in range(20)
    }
    assert len(threads) == 1


async def test_every_component_of_a_process_has_the_same_weights() -> None:
    moonshine.STT().load()
    loaded = network.shared_network(weights.find_folder())
    await (await moonshine.STT().open()).aclose()
    assert network.shared_network(weights.find_folder()) is loaded


def test_without_the_wheel_the_error_names_the_extra_and_the_machines_that_have_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ConfigurationError, match=r"pip install 'vivavoce\[moonshine\]'.*aarch64.*this machine is"):
        moonshine.STT()


def _installed(folder: Path, version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    info = folder / f"moonshine_voice-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: moonshine-voice\nVersion: {version}\n")
    monkeypatch.syspath_prepend(str(folder))


def test_a_version_without_weights_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(tmp_path, "0.1.1", monkeypatch)
    with pytest.raises(ConfigurationError, match=r"needs moonshine-voice 0\.1\.0, .*got 0\.1\.1.*==0\.1\.0"):
        moonshine.STT()


def test_a_missing_file_of_the_weights_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _installed(tmp_path, "0.1.0", monkeypatch)
    with pytest.raises(ConfigurationError, match=r"decoder_model_merged\.ort, tokenizer\.bin in .*--force-reinstall"):
        moonshine.STT()


async def test_damaged_weights_are_refused_when_they_are_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = weights.find_folder()
    folder = tmp_path / weights.FOLDER
    shutil.copytree(whole, folder)
    with (folder / weights.ENCODER).open("r+b") as file:
        file.truncate(1000)
    _installed(tmp_path, "0.1.0", monkeypatch)
    with pytest.raises(ConfigurationError, match=r"encoder_model\.ort.*damaged or of another version"):
        await moonshine.STT().open()


def test_options_out_of_bounds_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="min_confidence"):
        moonshine.STTOptions(min_confidence=2)
    with pytest.raises(ConfigurationError, match="min_confidence.*'0.5'"):
        moonshine.STTOptions(min_confidence="0.5")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="interim_interval"):
        moonshine.STTOptions(interim_interval=0)

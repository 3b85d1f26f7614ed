"""hibari with its real weights: sound, word times, sentences, loading, errors."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import anyio.to_thread
import numpy as np
import numpy.typing as npt
import pytest

from kit.speech import RATE, sounding
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.media.resample import Resampler
from vivavoce.pipelines.tts.base import AudioChunk, Word
from vivavoce.plugins import hibari
from vivavoce.plugins.hibari import voice as voices

FOLDER = voices.find_folder()


async def said(text: str, **settings: float) -> tuple[AudioFrame, list[Word], list[AudioChunk]]:
    chunks = [chunk async for chunk in hibari.TTS(**settings).synthesize(text)]
    sound = AudioFrame(b"".join(chunk.frame.data for chunk in chunks), voices.SAMPLE_RATE)
    return sound, [word for chunk in chunks for word in chunk.words], chunks


@pytest.mark.parametrize(
    "text",
    ["Yes.", "Half past seven is fine.", "Your table for 2 is at 7:30 pm, Mr. Smith.", "It costs $25.50, all in all."],
)
async def test_the_words_begin_and_end_with_the_sound(text: str) -> None:
    sound, words, _ = await said(text)
    resampler = Resampler(voices.SAMPLE_RATE, RATE)
    begin, end = sounding(AudioFrame(resampler.push(sound).data + resampler.flush().data, RATE), depth=42)
    assert words[0].start == pytest.approx(begin, abs=0.1)
    assert words[-1].end == pytest.approx(end, abs=0.1)


async def test_words_around_a_pause_end_and_begin_within_a_tenth_of_a_second_of_it() -> None:
    sound, words, _ = await said("We have two dogs; but nobody barks. Come tonight.")
    by_text = {word.text: word for word in words}
    pauses = _pauses(sound.to_numpy(), 0.15)
    for before, after in (("dogs;", "but"), ("barks.", "Come")):
        begin, end = min(pauses, key=lambda one: abs(one[0] - by_text[before].end))
        assert by_text[before].end == pytest.approx(begin, abs=0.1)
        assert by_text[after].start == pytest.approx(end, abs=0.1)


async def test_each_sentence_is_a_chunk_with_its_text_and_begins_without_a_long_silence() -> None:
    _, words, chunks = await said("Hello, Dr. Smith. How are you today?")
    assert [chunk.text for chunk in chunks] == ["Hello, Dr. Smith.", "How are you today?", ""]
    assert chunks[-1].is_end
    assert [word.text for word in words] == "Hello, Dr. Smith. How are you today?".split()
    for chunk in chunks[:2]:
        assert np.abs(chunk.frame.to_numpy()[: round(0.15 * voices.SAMPLE_RATE)]).max() > 300


@pytest.mark.parametrize("text", ["Sorry, I did not understand.", "At seven.", "Thank you for calling."])
async def test_a_sentence_begins_just_before_its_first_sound_however_soft_it_is(text: str) -> None:
    sound, words, _ = await said(text)
    faint = (abs(sound.to_numpy()) > voices.FAINT).nonzero()[0]
    assert faint[0] / voices.SAMPLE_RATE == pytest.approx(voices.LEAD, abs=0.001)
    assert words[0].start >= 0.0


async def test_a_text_of_any_length_is_spoken_to_its_last_word() -> None:
    text = "one two three four five six seven eight nine ten " * 12
    sound, words, _ = await said(text)
    assert [word.text for word in words] == text.split()
    assert 0.15 < sound.duration / len(words) < 0.8
    assert all(one.start <= other.start for one, other in zip(words, words[1:], strict=False))


@pytest.mark.parametrize("text", ["… ?", "日本語です。"])
async def test_text_without_words_that_it_can_read_yields_no_audio(text: str) -> None:
    assert (await said(text))[2] == []


@pytest.mark.parametrize("text", ["4111111111111111", "1" * 80, "http://x.y/z?q=1&b=2", "😀 hello", "½ cup", "\x00hi"])
async def test_strange_text_is_spoken_and_keeps_its_words(text: str) -> None:
    sound, words, _ = await said(text)
    assert sound.duration > 0.2
    assert "".join(word.text for word in words).replace(" ", "") == text.replace(" ", "")


async def test_speed_changes_the_pace() -> None:
    slow, _, _ = await said("We are open until ten.", speed=0.7)
    fast, _, _ = await said("We are open until ten.", speed=1.5)
    assert slow.duration > 1.5 * fast.duration


async def test_warm_loads_the_voice_that_every_component_shares() -> None:
    tts = hibari.TTS()
    tts.warm()
    tts.load()
    assert voices.shared_voice(FOLDER) is voices.shared_voice(voices.find_folder())


async def test_the_event_loop_goes_on_while_it_speaks() -> None:
    tts, ticks = hibari.TTS(), 0
    tts.load()

    async def tick() -> None:
        nonlocal ticks
        while True:
            await anyio.sleep(0.001)
            ticks += 1

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tick)
        async for _ in tts.synthesize("The house is full on that evening, but there is one table at nine."):
            pass
        tasks.cancel_scope.cancel()
    assert ticks


async def test_without_the_durations_word_times_are_estimated(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(voices, "AS_OUTPUT", voices.AS_OUTPUT.replace(b"Round", b"Rount"))
    estimating = await anyio.to_thread.run_sync(voices.Voice, FOLDER)
    assert "word times are estimated" in caplog.text
    speech = estimating.speak("Two tables, three chairs.", 1.0)
    assert [word.text for word in speech.words] == ["Two", "tables,", "three", "chairs."]
    length = len(speech.pcm) / (2 * voices.SAMPLE_RATE)
    assert all(0 <= word.start <= word.end <= length for word in speech.words)


def test_another_version_of_the_package_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "hibari_tts-0.3.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hibari-tts\nVersion: 0.3.0\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"hibari-tts 0\.2\.1.*got 0\.3\.0.*pip install hibari-tts==0\.2\.1"):
        hibari.TTS()


def test_a_package_without_its_network_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "hibari_tts-0.2.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hibari-tts\nVersion: 0.2.1\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"hibari\.onnx.*no such file.*--force-reinstall"):
        hibari.TTS()


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [])
    with pytest.raises(ConfigurationError, match=r"pip install 'vivavoce\[hibari\]'"):
        hibari.TTS()


@pytest.mark.parametrize("damaged", [voices.NETWORK, voices.VOCABULARY])
def test_a_damaged_file_is_refused_when_it_is_loaded(damaged: Path, tmp_path: Path) -> None:
    file = tmp_path / voices.NETWORK
    file.parent.mkdir(parents=True)
    for name in (voices.NETWORK, voices.VOCABULARY):
        whole = (FOLDER / name).read_bytes()
        (tmp_path / name).write_bytes(whole[:-100] if name == damaged else whole)
    with pytest.raises(ConfigurationError, match=rf"{damaged.name}.*damaged or of another version.*--force-reinstall"):
        voices.Voice(tmp_path)


def test_a_package_that_cannot_be_loaded_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hibari.dsp", None)
    with pytest.raises(ConfigurationError, match=r"hibari\.TTS cannot load .*--force-reinstall"):
        voices.Voice(FOLDER)


def test_a_speed_out_of_bounds_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"0\.5 … 2, got 3"):
        hibari.TTS(speed=3)
    with pytest.raises(ConfigurationError, match=r"speed.*'fast'"):
        hibari.TTS(speed="fast")  # type: ignore[arg-type]


def _pauses(samples: npt.NDArray[np.int16], least: float) -> list[tuple[float, float]]:
    """Return when it is silent, for `least` seconds or more."""
    size = voices.SAMPLE_RATE // 100
    levels = np.abs(samples[: len(samples) // size * size].reshape(-1, size)).max(axis=1)
    found: list[tuple[float, float]] = []
    begin: int | None = None
    for at, is_loud in enumerate([*(levels > 300), True]):
        if is_loud and begin is not None and (at - begin) / 100 >= least:
            found.append((begin / 100, at / 100))
        begin = None if is_loud else at if begin is None else begin
    return found

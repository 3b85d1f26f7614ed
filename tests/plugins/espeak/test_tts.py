"""espeak-ng speaking for real: audio, word times, variants, cancelling, its helper process from start to end."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import anyio
import anyio.to_thread
import pytest
from anyio.lowlevel import checkpoint
from hypothesis import given
from hypothesis import strategies as st

from kit.children import own_children
from kit.speech import PATIENT
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderConnectionError, ProviderTimeoutError
from vivavoce.pipelines.tts.base import AudioChunk, Word
from vivavoce.plugins import espeak
from vivavoce.plugins.espeak.words import MAX_PIECE, pieces

SENTENCE = 'Hello, a table for when? Dr. Smith paid $25.50 at 7:30 p.m. — it\'s "fine", naïve 🙂 ok.'
LIMIT = 60.0


async def speak(tts: espeak.TTS, text: str) -> list[AudioChunk]:
    return [chunk async for chunk in tts.synthesize(text)]


async def rest(speech: AsyncGenerator[AudioChunk, None]) -> None:
    """Read the rest."""
    async for _ in speech:
        pass


def words_of(chunks: list[AudioChunk]) -> list[Word]:
    return [word for chunk in chunks for word in chunk.words]


def seconds_of(chunks: list[AudioChunk]) -> float:
    return sum(chunk.frame.duration for chunk in chunks)


def helpers() -> set[int]:
    """Return the helper processes among this process's children."""
    module = b"vivavoce.plugins.espeak.helper"
    return {pid for pid in own_children() if module in Path(f"/proc/{pid}/cmdline").read_bytes()}


async def is_reaped(pid: int) -> None:
    """Wait until a child has ended and the loop has read its status; a loop that is closed before warns of it."""
    with anyio.fail_after(LIMIT):
        while pid in own_children():  # noqa: ASYNC110 - the loop tells only the helper's own code
            await anyio.sleep(0.01)


def children(pid: int) -> list[int]:
    """Return the child processes of a process with one thread that has any."""
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def ends(pid: int) -> bool:
    """Wait until a process, not necessarily ours, is over."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([handle], [], [], LIMIT)[0])
    finally:
        os.close(handle)


def runs(pid: int) -> bool:
    """Whether `pid` is a process that has not ended (a zombie has)."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_words_cover_the_text_in_order_and_lie_inside_the_audio() -> None:
    async with espeak.TTS(options=PATIENT) as tts:
        chunks = await speak(tts, SENTENCE)
    words = words_of(chunks)
    assert " ".join(word.text for word in words).split() == SENTENCE.split()
    assert all(word.start < word.end for word in words)
    assert all(one.end <= other.start for one, other in zip(words, words[1:], strict=False))
    assert words[0].start < 0.05
    assert words[-1].end <= seconds_of(chunks)
    assert 5 < seconds_of(chunks) < 15
    assert chunks[0].text == SENTENCE
    assert all(chunk.text == "" for chunk in chunks[1:])
    assert {(chunk.frame.sample_rate, chunk.frame.num_channels) for chunk in chunks} == {(22050, 1)}


async def test_a_word_time_is_where_that_word_sounds() -> None:
    async with espeak.TTS(options=PATIENT) as tts:
        chunks = await speak(tts, "One, two.")
    one, two = words_of(chunks)
    samples = b"".join(chunk.frame.data for chunk in chunks)
    between = samples[2 * round(22050 * (one.end + 0.002)) : 2 * round(22050 * (two.start - 0.002))]
    assert len(between) > 2 * 1000
    assert max(abs(int.from_bytes(between[i : i + 2], "little", signed=True)) for i in range(0, len(between), 2)) < 500
    assert [one.text, two.text] == ["One,", "two."]


@pytest.mark.parametrize("text", ["", " \n ", "\0"])
async def test_nothing_to_say_is_no_audio(text: str) -> None:
    async with espeak.TTS(options=PATIENT) as tts:
        assert await speak(tts, text) == []


async def test_a_long_text_is_spoken_whole_with_times_that_go_on() -> None:
    text = "This is one more sentence of a very long speech. " * 30
    async with espeak.TTS(rate=300, options=PATIENT) as tts:
        chunks = await speak(tts, text)
    words = words_of(chunks)
    assert [word.text for word in words] == text.split()
    assert [word.start for word in words] == sorted(word.start for word in words)
    assert seconds_of(chunks) - 0.5 < words[-1].end <= seconds_of(chunks)
    assert "".join(chunk.text for chunk in chunks) == text


@given(st.text(alphabet=st.sampled_from("ab .,\n"), max_size=3 * MAX_PIECE))
def test_pieces_of_a_text_are_short_and_lose_no_word(text: str) -> None:
    cut = pieces(text)
    assert all(len(piece) <= MAX_PIECE for piece in cut)
    assert "".join("".join(cut).split()) == "".join(text.split())


async def test_rate_pitch_and_variant_change_the_speech() -> None:
    speech = {}
    for name, options in {
        "plain": {},
        "fast": {"rate": 300},
        "high": {"pitch": 90},
        "female": {"voice": "en-us+f2"},
        "british": {"voice": "en-gb"},
    }.items():
        async with espeak.TTS(options=PATIENT, **options) as tts:  # type: ignore[arg-type]
            speech[name] = b"".join(chunk.frame.data for chunk in await speak(tts, "A table for four."))
    assert len(speech["fast"]) < 0.8 * len(speech["plain"])
    assert len(set(speech.values())) == len(speech)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"voice": "xx-none"}, "such as"),
        ({"voice": "en-us+f22"}, "such as f2"),
        ({"rate": 20}, "80 … 450"),
        ({"pitch": 100}, "0 … 99"),
    ],
)
def test_a_voice_that_is_not_there_is_refused_at_once(options: dict[str, str | int], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        espeak.TTS(**options)  # type: ignore[arg-type]


def test_options_out_of_bounds_are_refused() -> None:
    with pytest.raises(ValueError, match="volume"):
        espeak.TTSOptions(volume=300)
    with pytest.raises(ValueError, match="chunk_timeout"):
        espeak.TTSOptions(chunk_timeout=0)


def test_a_missing_extra_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "espeakng_loader", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'vivavoce\[espeak\]'"):
        espeak.TTS()


async def test_closing_a_synthesis_stops_it_and_the_next_one_is_whole() -> None:
    async with espeak.TTS(options=PATIENT) as tts:
        async with aclosing(tts.synthesize("A long sentence that nobody wants to hear. " * 8)) as speech:
            async for _ in speech:
                break
        chunks = await speak(tts, "Yes.")
        assert [word.text for word in words_of(chunks)] == ["Yes."]
        assert seconds_of(chunks) < 1.0


async def test_sentences_spoken_at_once_do_not_mix() -> None:
    texts = [f"Sentence number {number} is about {'tables ' * number}." for number in range(1, 9)]
    found: dict[str, list[AudioChunk]] = {}

    async def one(tts: espeak.TTS, text: str) -> None:
        found[text] = await speak(tts, text)

    async with espeak.TTS(options=PATIENT) as tts:
        async with anyio.create_task_group() as tasks:
            for text in texts:
                tasks.start_soon(one, tts, text)
        assert len(helpers()) == 1
        for text in texts:
            assert " ".join(word.text for word in words_of(found[text])).split() == text.split()
            alone = await speak(tts, text)
            assert seconds_of(alone) == pytest.approx(seconds_of(found[text]), rel=0.05)


async def test_a_killed_helper_is_an_error_that_may_be_tried_again_and_the_next_sentence_works() -> None:
    async with espeak.TTS(options=PATIENT) as tts:
        await tts.start()
        (pid,) = helpers()
        speech = tts.synthesize("A sentence of several pieces of audio. " * 60)
        await anext(speech)
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(ProviderConnectionError) as caught:
            await rest(speech)
        assert caught.value.retryable
        assert words_of(await speak(tts, "Yes."))
        assert helpers() != {pid}


async def test_a_helper_that_stands_still_is_a_timeout_and_closing_kills_it() -> None:
    tts = espeak.TTS(options=espeak.TTSOptions(start_timeout=60.0, chunk_timeout=0.2, close_timeout=2.0))
    await tts.start()
    (pid,) = helpers()
    os.kill(pid, signal.SIGSTOP)
    with pytest.raises(ProviderTimeoutError, match="within 0.2 s"):
        await speak(tts, "Yes.")
    await tts.aclose()
    await is_reaped(pid)


async def test_closing_goes_on_if_the_killed_helper_has_not_ended_in_time() -> None:
    tts = espeak.TTS(options=espeak.TTSOptions(start_timeout=60.0, close_timeout=1e-9))
    await tts.start()
    (pid,) = helpers()
    os.kill(pid, signal.SIGSTOP)
    await tts.aclose()
    await is_reaped(pid)


async def test_a_start_that_is_cancelled_or_late_leaves_no_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "program"  # in place of Python: it starts and says nothing
    program.write_text("#!/bin/sh\nexec sleep infinity\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    before = own_children()  # a child of another test may end meanwhile
    async with espeak.TTS(options=PATIENT) as tts, anyio.create_task_group() as tasks:
        tasks.start_soon(tts.start)
        while own_children() <= before:
            await checkpoint()
        tasks.cancel_scope.cancel()
    assert own_children() <= before
    async with espeak.TTS(options=espeak.TTSOptions(start_timeout=0.05, close_timeout=LIMIT)) as tts:
        with pytest.raises(ProviderTimeoutError):
            await tts.start()
    assert own_children() <= before


async def test_no_process_is_left_after_closing() -> None:
    tts = espeak.TTS(options=PATIENT)
    await speak(tts, "Yes.")
    (pid,) = helpers()
    await tts.aclose()
    await tts.aclose()
    assert not runs(pid)
    with pytest.raises(ConfigurationError, match="closed"):
        await speak(tts, "Yes.")


async def test_closing_in_the_middle_of_a_sentence_ends_that_sentence_with_an_error() -> None:
    tts = espeak.TTS(options=PATIENT)
    speech = tts.synthesize("A sentence of several pieces of audio. " * 60)
    await anext(speech)
    await tts.aclose()
    with pytest.raises((ProviderConnectionError, ConfigurationError)):
        await rest(speech)


PARENT = """
import asyncio
from vivavoce.plugins import espeak

async def main():
    tts = espeak.TTS(options=espeak.TTSOptions(start_timeout=60))
    await tts.start()
    print("ready", flush=True)
    await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_the_helper_does_not_outlive_a_parent_that_is_killed() -> None:
    parent = await asyncio.create_subprocess_exec(sys.executable, "-c", PARENT, stdout=asyncio.subprocess.PIPE)
    assert parent.stdout is not None
    with anyio.fail_after(LIMIT):
        assert await parent.stdout.readline() == b"ready\n"
    (pid,) = children(parent.pid)
    assert runs(pid)
    parent.kill()
    assert await anyio.to_thread.run_sync(ends, pid)
    await parent.communicate()

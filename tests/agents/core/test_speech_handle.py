"""SpeechHandle: the result of `say` and `reply`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import anyio
import pytest

from vivavoce.agents import Agent, SpeechHandle
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, VirtualClock
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.media.frame import AudioFrame

TEN_WORDS = "one two three four five six seven eight nine ten."


def test_awaiting_a_failed_speech_does_not_raise_and_its_error_is_there() -> None:
    async def scenario(harness: SessionHarness) -> None:
        handle = harness.session.reply("Fail.")
        await handle
        assert handle.outcome == "failed"
        assert isinstance(handle.exception(), ProviderError)
        assert handle.heard_text == ""
        assert handle.played_seconds == 0.0
        assert handle.is_done

    step = [ProviderError("it broke", provider="scripted")]
    SessionHarness(Agent("x"), ScriptedLLM(step)).run(scenario)


def test_a_good_speech_has_no_error_and_is_awaited_as_often_as_one_likes() -> None:
    async def scenario(harness: SessionHarness) -> None:
        handle = harness.session.say("hello there")
        assert handle.outcome is None
        assert harness.session.current_speech is None  # nothing is decided on the caller's stack
        await handle
        await handle
        assert [handle.outcome, handle.exception(), handle.interrupted] == ["completed", None, False]
        assert handle.heard_text == "hello there"
        assert harness.now == pytest.approx(0.6)

    SessionHarness(Agent("x")).run(scenario)


def test_done_callbacks_run_once_also_when_added_late() -> None:
    seen: list[str] = []

    async def scenario(harness: SessionHarness) -> None:
        handle = harness.session.say("hello there")
        handle.add_done_callback(lambda done: seen.append(f"early {done.outcome}"))
        await handle
        handle.add_done_callback(lambda done: seen.append(f"late {done.outcome}"))

    SessionHarness(Agent("x")).run(scenario, until=2.0)
    assert seen == ["early completed", "late completed"]


def test_a_raising_done_callback_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[str] = []

    def broken(handle: SpeechHandle) -> None:
        raise ZeroDivisionError("mine")

    async def scenario(harness: SessionHarness) -> None:
        handle = harness.session.say("hello there")
        handle.add_done_callback(broken)
        handle.add_done_callback(lambda done: seen.append("second"))
        await handle
        await harness.session.say("still here")

    harness = SessionHarness(Agent("x")).run(scenario)
    assert seen == ["second"]
    harness.expect_outcomes("completed", "completed")
    assert "callback" in caplog.text


def test_the_current_speech_is_the_one_that_has_the_floor() -> None:
    async def scenario(harness: SessionHarness) -> None:
        first, second = harness.session.say("hello there"), harness.session.say("and again")
        await harness.until(0.3)
        assert harness.session.current_speech is first
        await first
        await harness.until(0.7)
        assert harness.session.current_speech is second
        await second
        await anyio.sleep(0.1)
        assert harness.session.current_speech is None

    SessionHarness(Agent("x")).run(scenario)


def test_a_reply_that_does_not_wait_for_playback_resolves_when_it_is_generated() -> None:
    async def scenario(harness: SessionHarness) -> None:
        handle = harness.session.reply("Count.", wait_for_playback=False)
        await handle
        assert harness.now == pytest.approx(0.5)
        assert handle.outcome is None
        await harness.until(4.0)
        assert handle.outcome == "completed"
        assert handle.heard_text == TEN_WORDS

    SessionHarness(Agent("x"), ScriptedLLM([0.5, TEN_WORDS])).run(scenario)


def test_one_queued_speech_can_be_taken_back() -> None:
    async def scenario(harness: SessionHarness) -> None:
        first, second, third = (harness.session.say(text) for text in ("hello there", "not this", "but this"))
        second.interrupt()
        await third
        assert [handle.outcome for handle in (first, second, third)] == ["completed", "cancelled", "completed"]

    SessionHarness(Agent("x")).run(scenario).expect_history(("assistant", "hello there"), ("assistant", "but this"))


def test_threads_may_say_and_interrupt_what_they_said() -> None:
    async def scenario(harness: SessionHarness) -> None:
        handles: list[SpeechHandle] = []
        errors: list[Exception] = []

        def from_a_thread() -> None:
            try:
                handles.append(harness.session.say(TEN_WORDS))
            except Exception as error:  # noqa: BLE001 - looked at below
                errors.append(error)

        async def in_thread(call: Callable[[], None]) -> None:
            with VirtualClock().hold():
                await anyio.to_thread.run_sync(call)

        await in_thread(from_a_thread)
        assert errors == []
        await harness.until(1.0)
        await in_thread(lambda: handles[0].interrupt())
        await handles[0]
        assert handles[0].outcome == "interrupted"
        assert harness.now == pytest.approx(1.0)

    SessionHarness(Agent("x")).run(scenario, until=3.0).expect_played((0.2, 0.85))


def test_spoken_text_that_comes_in_pieces_is_one_speech() -> None:
    async def pieces() -> AsyncIterator[str]:
        for piece in ("Hello ", "there. ", "How are ", "you?"):
            yield piece

    async def scenario(harness: SessionHarness) -> None:
        handle = harness.session.say(pieces())
        await handle
        assert handle.heard_text == "Hello there. How are you?"

    SessionHarness(Agent("x")).run(scenario).expect_history(("assistant", "Hello there. How are you?"))


def test_ready_audio_is_played_as_it_is_and_kept_out_of_the_history_on_request() -> None:
    audio = AudioFrame(b"\x10\x00" * 12000, 24000)

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.say("a jingle", audio=audio, add_to_history=False)

    harness = SessionHarness(Agent("x")).run(scenario)
    harness.expect_played((0.0, 0.5)).expect_history()
    assert harness.tts.texts == []

"""A cascade without a TTS is a text session: the sent text is the heard text."""

from __future__ import annotations

from typing import Any

from vivavoce.agents import Agent, ConversationFlow
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, ScriptedVAD, SessionHarness
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.testing import HANG


def texting(*answers: Any, hears: bool = False, **more: Any) -> SessionHarness:
    stt = ScriptedSTT()
    ears: dict[str, Any] = {"stt": stt, "vad": ScriptedVAD()} if hears else {}
    pipeline = CascadingPipeline(llm=ScriptedLLM(*answers, delay=0.1), **ears)
    return SessionHarness(Agent("Help."), stt=stt, pipeline=pipeline, **more)


def test_typed_words_are_answered_in_text_as_it_comes() -> None:
    harness = texting(["Hello ", "there, ", 0.5, "caller."])
    harness.caller.types("hello", 1.0)
    harness.run(until=4.0)
    harness.expect_history(("user", "hello"), ("assistant", "Hello there, caller."))
    shown = [segment.text for segment in harness.room.transcripts if segment.who == "agent"]
    assert shown[-1] == "Hello there, caller."
    assert "Hello there," in shown
    assert harness.session.turns[0].heard_text == "Hello there, caller."
    assert harness.session.usage.tts_characters == 0


def test_each_piece_is_shown_as_it_comes_and_not_with_the_next_one() -> None:
    harness = texting(["Hello ", 0.6, "there, ", 0.6, "caller."])
    harness.caller.types("hello", 1.0)
    harness.run(until=4.0)
    updates = zip(harness.room.transcripts, harness.room.transcript_times, strict=True)
    shown = [(segment.text, round(at, 2)) for segment, at in updates if segment.who == "agent" and not segment.is_final]
    assert shown == [
        ("Hello", 1.12),
        ("Hello there,", 1.72),
        ("Hello there, caller.", 2.32),
    ]


def test_spoken_words_are_answered_in_text_and_say_goes_to_the_text_stream() -> None:
    harness = texting("Sure.", hears=True)
    harness.caller.says("a table please", 2.0, 3.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.say("Welcome. What can I do?")

    harness.run(scenario, until=6.0)
    harness.expect_history(("assistant", "Welcome. What can I do?"), ("user", "a table please"), ("assistant", "Sure."))


def test_an_interrupted_answer_keeps_the_text_that_was_sent() -> None:
    harness = texting(["One two ", HANG], "Ok.")
    harness.caller.types("count", 1.0)
    harness.caller.types("stop", 3.0)
    harness.run(until=6.0)
    harness.expect_history(("user", "count"), ("assistant", "One two"), ("user", "stop"), ("assistant", "Ok."))
    assert [turn.outcome for turn in harness.session.turns] == ["interrupted", "completed"]


def test_a_flow_answers_in_text_too() -> None:
    harness = texting("Hi.", conversation_flow=ConversationFlow())
    harness.caller.types("hello", 1.0)
    harness.run(until=4.0)
    harness.expect_history(("user", "hello"), ("assistant", "Hi."))


def test_a_text_session_gets_a_voice_in_the_middle_of_the_call() -> None:
    voice = ScriptedTTS()
    harness = texting("Hi.", "Ho.")
    harness.caller.types("hello", 1.0)
    harness.caller.types("and now", 4.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        await harness.session.update_components(tts=voice)

    harness.run(scenario, until=7.0)
    assert voice.texts == ["Ho."]

"""Whole calls in virtual time on the twin: turns by the service, an early answer, a barge-in, lost connections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from kit.limits import LIMIT
from vivavoce.agents import Agent, SessionOptions
from vivavoce.agents.events import TurnCompleted, UserTranscript
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness, run_virtual
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.stt.base import STT
from vivavoce.pipelines.testing import ScriptedVAD
from vivavoce.plugins import assemblyai
from vivavoce.plugins.assemblyai.twin import AssemblyAITwin

WORD, GAP = 0.24, 0.02


def speaks(harness: SessionHarness, twin: AssemblyAITwin, text: str, start: float) -> float:
    """Have the caller say words that the twin hears; return the time of their end."""
    for word in text.split():
        harness.caller.makes_noise(round(start, 2), round(start + WORD, 2), level=twin.level(word))
        start += WORD + GAP
    return round(start - GAP, 2)


async def completed(harness: SessionHarness, count: int) -> None:
    while len(harness.session.turns) < count:
        await harness.next(TurnCompleted, limit=LIMIT)


def in_a_call(
    make: Callable[[AssemblyAITwin], STT],
    act: Callable[[SessionHarness, AssemblyAITwin], Awaitable[None]],
    llm: ScriptedLLM,
    vad: ScriptedVAD | None,
    preemptive: bool = False,
    options: SessionOptions | None = None,
) -> SessionHarness:
    """Run a call on a recogniser, and return its record."""

    async def main() -> SessionHarness:
        async with AssemblyAITwin() as twin, make(twin) as stt:
            pipeline = CascadingPipeline(stt=stt, llm=llm, tts=ScriptedTTS(), vad=vad)
            harness = SessionHarness(Agent("Be brief."), llm, pipeline=pipeline, options=options)
            harness.preemptive = preemptive
            async with harness:
                await act(harness, twin)
        return harness

    return run_virtual(main())


def pro(twin: AssemblyAITwin) -> STT:
    return assemblyai.STT(base_url=twin.url, api_key=twin.key)


def eager(twin: AssemblyAITwin) -> STT:
    return assemblyai.STT(
        base_url=twin.url, api_key=twin.key, options=assemblyai.STTOptions(eager_threshold=0.2, min_silence=0.1)
    )


def by_word(twin: AssemblyAITwin) -> STT:
    return assemblyai.STT("universal-streaming-english", base_url=twin.url, api_key=twin.key)


def settling(twin: AssemblyAITwin) -> STT:
    return assemblyai.STT(base_url=twin.url, api_key=twin.key, options=assemblyai.STTOptions(decides_turns=False))


def test_a_call_without_vad_and_detector_answers_at_the_vendors_end_of_turn() -> None:
    async def act(harness: SessionHarness, twin: AssemblyAITwin) -> None:
        end = speaks(harness, twin, "A table", 0.5)
        speaks(harness, twin, "for two, please.", round(end + 0.5, 2))  # a pause behind no full stop
        await completed(harness, 1)
        speaks(harness, twin, "Thank you.", round(harness.now + 0.5, 1))
        await completed(harness, 2)

    llm = ScriptedLLM(default="Begun too soon.").when("please", "For when?").when("Thank you.", "Bye.")
    harness = in_a_call(eager, act, llm, vad=None, preemptive=True)
    assert harness.messages == [
        ("user", "A table for two, please."),
        ("assistant", "For when?"),
        ("user", "Thank you."),
        ("assistant", "Bye."),
    ]
    words = [request.context.messages("user")[-1].content for request in harness.llm.requests]
    assert "A table" in words, "begun ahead, and dropped"
    assert all(turn.ended_by == "recogniser" for turn in harness.session.turns)


def test_an_answer_to_an_unformatted_end_is_used_for_the_formatted_words() -> None:
    async def act(harness: SessionHarness, twin: AssemblyAITwin) -> None:
        speaks(harness, twin, "Two, please.", 0.5)
        await completed(harness, 1)

    llm = ScriptedLLM(default="Begun too soon.").when("please", "For when?")
    harness = in_a_call(by_word, act, llm, vad=None, preemptive=True)
    assert harness.messages == [("user", "Two, please."), ("assistant", "For when?")]
    words = [request.context.messages("user")[-1].content for request in harness.llm.requests]
    assert [text for text in words if "please" in text] == ["two please"]
    assert harness.session.turns[0].preemptive


def test_a_barge_in_leaves_the_heard_text_in_the_history() -> None:
    async def act(harness: SessionHarness, twin: AssemblyAITwin) -> None:
        speaks(harness, twin, "A table for two, please.", 0.5)
        await harness.until(4.0)
        speaks(harness, twin, "No, wait a moment.", 4.2)
        await completed(harness, 2)

    long = "We have one by the window at seven, one by the door at eight, and the large one in the garden at nine."
    harness = in_a_call(pro, act, ScriptedLLM(long, "Sure."), vad=ScriptedVAD())
    (first, asked), (_, heard), *rest = harness.messages
    assert (first, asked) == ("user", "A table for two, please.")
    assert long.startswith(heard)
    assert 0 < len(heard) < len(long)
    assert rest == [("user", "No, wait a moment."), ("assistant", "Sure.")]
    finals = [event for event in harness.recording.of(UserTranscript) if event.is_final]
    assert [event.text for event in finals] == ["A table for two, please.", "No, wait a moment."]


def test_a_call_whose_turns_the_vad_decides_answers_once_for_several_settled_pieces() -> None:
    async def act(harness: SessionHarness, twin: AssemblyAITwin) -> None:
        end = speaks(harness, twin, "A table", 0.5)
        speaks(harness, twin, "for two, please.", round(end + 0.2, 2))
        await completed(harness, 1)

    harness = in_a_call(settling, act, ScriptedLLM("For when?"), vad=ScriptedVAD())
    assert harness.messages == [("user", "A table for two, please."), ("assistant", "For when?")]


def test_a_connection_lost_in_mid_turn_does_not_show_in_the_call() -> None:
    async def act(harness: SessionHarness, twin: AssemblyAITwin) -> None:
        speaks(harness, twin, "A table for two, please.", 0.5)
        await harness.until(1.2)
        twin.connection.abort()
        await completed(harness, 1)

    harness = in_a_call(pro, act, ScriptedLLM("Sure."), vad=ScriptedVAD())
    assert harness.messages == [("user", "A table for two, please."), ("assistant", "Sure.")]


def test_the_key_terms_of_a_session_reach_the_vendor_with_those_of_the_recogniser() -> None:
    def with_terms(twin: AssemblyAITwin) -> STT:
        return assemblyai.STT(base_url=twin.url, api_key=twin.key, options=assemblyai.STTOptions(key_terms=("Ada",)))

    async def act(harness: SessionHarness, twin: AssemblyAITwin) -> None:
        speaks(harness, twin, "Hello there.", 0.5)
        await completed(harness, 1)
        assert twin.connection.session.key_terms == ["Ada", "Vivavoce"]

    options = SessionOptions(key_terms=["Vivavoce"])
    in_a_call(with_terms, act, ScriptedLLM("Hi."), vad=None, options=options)

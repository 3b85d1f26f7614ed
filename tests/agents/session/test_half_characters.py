"""Half a character (a lone surrogate) in any text: the halves of two pieces are one character, a lone one is replaced,
and neither a turn nor a report, an item of a store or a request is lost."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from vivavoce.agents import Agent, MemoryOptions, SessionOptions, function_tool
from vivavoce.agents.agent import CompletedTurn
from vivavoce.agents.events import ToolCalled, UserTranscript
from vivavoce.agents.memory import InProcessStore, SqliteStore
from vivavoce.agents.memory.stores.store import SessionStore
from vivavoce.agents.reports.read import read_report
from vivavoce.agents.speech.flow import ConversationFlow
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, SessionHarness, VirtualClock
from vivavoce.pipelines import CascadingPipeline, RealtimePipeline
from vivavoce.pipelines.llm.base import GenerateRequest, TextDelta
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedVAD, Step

HIGH, LOW, FACE, LOST = "\ud83d", "\ude00", "\U0001f600", "\ufffd"
KINDS = pytest.mark.parametrize("kind", ["cascading", "realtime, text", "realtime"])


def session_of(
    kind: str, *steps: Step, agent: Agent | None = None, options: SessionOptions | None = None, **more: Any
) -> SessionHarness:
    agent, stt = agent or Agent("Help."), ScriptedSTT()
    if kind == "realtime":
        can = RealtimeCapabilities(turn_detection=frozenset({"local"}))
        model = ScriptedRealtimeModel(*steps, delay=0.1, capabilities=can)
        return SessionHarness(agent, model=model, options=options, **more)
    pipeline: CascadingPipeline | RealtimePipeline
    if kind == "cascading":
        pipeline = CascadingPipeline(stt=stt, llm=ScriptedLLM(*steps, delay=0.1), tts=ScriptedTTS(), vad=ScriptedVAD())
    else:
        can = RealtimeCapabilities(
            generates_audio=False, generates_text=True, turn_detection=frozenset({"local"}), starts_replies=False
        )
        model = ScriptedRealtimeModel(*steps, delay=0.1, capabilities=can)
        pipeline = RealtimePipeline(model, vad=ScriptedVAD(), stt=stt, tts=ScriptedTTS())
    return SessionHarness(agent, stt=stt, pipeline=pipeline, options=options, **more)


def check_whole(harness: SessionHarness) -> None:
    """Check that all that the session has given away can be encoded."""
    session, transport = harness.session, harness.room
    texts = [
        *(json.dumps(record.to_json(), ensure_ascii=False) for record in session.turns),
        *(segment.text for segment in transport.transcripts),
        json.dumps(session.history.copy().to_json(), ensure_ascii=False),
        *(str(vars(event) if hasattr(event, "__dict__") else event) for event in harness.recording.of(UserTranscript)),
    ]
    for text in texts:
        text.encode()
        assert "\\ud83d" not in text


@KINDS
def test_an_answer_in_pieces_keeps_the_character_that_a_piece_cuts(kind: str, tmp_path: Path) -> None:
    options = SessionOptions(report_path=f"{tmp_path}/")
    step: Step = [f"Well {HIGH}", f"{LOW} fine. And {HIGH}", f" no {HIGH}"]
    harness = session_of(kind, step, options=options)
    harness.caller.says("hello", 0.5, 1.5)
    harness.run(until=8.0)
    said = f"Well {FACE} fine. And {LOST} no {LOST}"
    harness.expect_outcomes("completed").expect_history(("user", "hello"), ("assistant", said))
    assert harness.session.turns[0].agent_text == said
    check_whole(harness)
    (path,) = tmp_path.iterdir()
    assert read_report(path) == harness.session.report()


@KINDS
def test_words_of_a_recogniser_and_typed_ones_lose_only_the_half(kind: str) -> None:
    harness = session_of(kind, "One.", "Two.")
    harness.caller.says(f"a table {HIGH} please", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(5.0)
        harness.session.input.text(f"and {HIGH}{LOW} {LOW}")
        await harness.until(8.0)

    harness.run(scenario)
    harness.expect_history(
        ("user", f"a table {LOST} please"), ("assistant", "One."), ("user", f"and {FACE} {LOST}"), ("assistant", "Two.")
    )
    assert [turn.user_text for turn in harness.session.turns] == [f"a table {LOST} please", f"and {FACE} {LOST}"]
    check_whole(harness)


@dataclass
class Found:
    name: str
    near: list[str]


@KINDS
@pytest.mark.parametrize(
    ("result", "output"),
    [
        (f"found {HIGH}", f"found {LOST}"),
        ({"k": [HIGH, 1, {"x": f"{HIGH}{LOW}"}]}, f'{{"k":["{LOST}",1,{{"x":"{FACE}"}}]}}'),
        (Found(HIGH, [LOW]), f'{{"name":"{LOST}","near":["{LOST}"]}}'),
        ({"k": [{HIGH: 1}]}, f'{{"k":[{{"{LOST}":1}}]}}'),
    ],
    ids=["text", "data", "dataclass", "key"],
)
def test_a_tool_gets_and_gives_texts_of_whole_characters(kind: str, result: object, output: str) -> None:
    class Finder(Agent):
        @function_tool
        async def find(self, what: str) -> Any:
            """Find something."""
            assert what == f"a {LOST}"
            return result

    call = ToolCall(call_id="c1", name="find", arguments='{"what": "a \\ud83d"}')
    harness = session_of(kind, [call], "Here.", agent=Finder("Help."))
    harness.caller.says("hello", 0.5, 1.5)
    harness.run(until=8.0)
    (called,) = harness.recording.of(ToolCalled)
    assert (called.output, called.is_error) == (output, False)
    harness.expect_outcomes("completed")
    assert harness.messages[-1] == ("assistant", "Here.")
    check_whole(harness)


def test_texts_of_the_application_are_whole_in_the_request_the_history_and_the_voice() -> None:
    async def pieces() -> AsyncIterator[str]:
        for piece in (f"And {HIGH}", f"{LOW}. Or {HIGH}"):
            yield piece

    class Host(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            turn.text, turn.instructions = f"edited {HIGH}", f"note {HIGH}"

    harness = session_of("cascading", "One.", "Two.", agent=Host(f"Help {HIGH}."))

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        session.history.add_message("system", f"about {HIGH}", speaker=f"Ada {HIGH}")
        await session.say(f"Hello {HIGH}{LOW} {HIGH}.")
        await session.say(pieces())
        await session.reply(f"Ask {HIGH}.")
        session.input.text("hello")
        await harness.until(12.0)

    harness.run(scenario)
    said = [f"Hello {FACE} {LOST}.", f"And {FACE}. Or {LOST}", "One.", "Two."]
    assert [text for who, text in harness.messages if who == "assistant"] == said
    assert [text for who, text in harness.messages if who != "assistant"] == [f"about {LOST}", f"edited {LOST}"]
    first, second = harness.llm.requests if harness.llm.requests else harness.pipeline.llm.requests  # type: ignore[attr-defined]
    assert (first.instructions, first.extra_instructions) == (f"Help {LOST}.", f"Ask {LOST}.")
    assert second.extra_instructions == f"note {LOST}"
    check_whole(harness)


def test_a_flow_s_text_keeps_the_character_that_a_piece_cuts() -> None:
    class Flow(ConversationFlow):
        async def run(self, transcript: str) -> AsyncGenerator[str, None]:
            yield f"Well {HIGH}"
            yield f"{LOW}. "
            await self.session.say("Between.")
            yield f"End {HIGH}"

    harness = session_of("cascading", conversation_flow=Flow())
    harness.caller.says("hello", 0.5, 1.5)
    harness.run(until=9.0)
    assert [text for who, text in harness.messages if who == "assistant"] == [
        f"Well {FACE}.",
        "Between.",
        f"End {LOST}",
    ]
    check_whole(harness)


def test_what_a_hook_of_the_model_yields_is_whole_and_the_hook_reads_whole_texts() -> None:
    class Host(Agent):
        async def llm_stage(self, request: GenerateRequest, generate: Any) -> AsyncGenerator[TextDelta, None]:
            async for event in generate(request):
                if isinstance(event, TextDelta):
                    event.text.encode()
                    yield TextDelta(event.text + HIGH)
                    yield TextDelta(LOW)

    harness = session_of("cascading", [f"Well {HIGH}", f"{LOW}."], agent=Host("Help."))
    harness.caller.says("hello", 0.5, 1.5)
    harness.run(until=8.0)
    assert harness.messages[-1] == ("assistant", f"Well {FACE}{FACE}.{FACE}")


@pytest.mark.parametrize("kind", ["in process", "sqlite"])
def test_a_store_keeps_each_item_the_transcripts_and_the_snapshot(kind: str, tmp_path: Path) -> None:
    store: SessionStore = InProcessStore(clock=VirtualClock())
    if kind == "sqlite":
        store = SqliteStore(tmp_path / "calls.sqlite")
    options = SessionOptions(memory=MemoryOptions(store=store))
    harness = session_of(
        "cascading", f"Well {HIGH}.", options=options, userdata={"name": HIGH, "near": [Found(LOW, [])]}
    )
    harness.caller.says(f"a table {HIGH}", 0.5, 1.5)
    taken: list[dict[str, Any]] = []

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.memory.data.set("begun", True)  # from now on it keeps transcripts
        await harness.until(6.0)
        taken.append(dict(harness.session.snapshot()))

    harness.run(scenario)
    assert harness.close_report is not None
    assert (harness.close_report.lost_writes, harness.close_report.is_clean) == (0, True)
    kept = anyio.run(store.history, harness.session.id)
    assert [message.content for message in kept.messages()] == [f"a table {LOST}", f"Well {LOST}."]
    assert taken[0]["userdata"] == {"name": LOST, "near": [{"name": LOST, "near": []}]}
    json.dumps(taken[0], ensure_ascii=False).encode()

"""A guard of the caller: cut verdicts, late transcripts and edits let no word through to a model unjudged."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from kit.guards import Judge
from kit.telemetry import Watching
from vivavoce.agents import Agent, ContentGuard, GuardVerdict, SessionOptions, StopResponse
from vivavoce.agents.agent import CompletedTurn
from vivavoce.agents.events import ErrorOccurred, TurnCompleted
from vivavoce.agents.history.snapshot import read_snapshot
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, SessionHarness
from vivavoce.pipelines import CascadingPipeline, RealtimePipeline
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.chat_context import ChatMessage
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedVAD

KINDS = pytest.mark.parametrize("kind", ["cascading", "realtime, text"])

SECRET = "my secret is blue"
REMOVED = GuardVerdict("replace", "[removed]")


def secretive(
    judge: Judge,
    kind: str = "cascading",
    agent: Agent | None = None,
    session: Mapping[str, Any] = MappingProxyType({}),
    **options: Any,
) -> tuple[SessionHarness, Callable[[], list[str]]]:
    """Return a session with a guard of the caller, and a call that returns all words of the caller that models got.

    Args:
        session: Options of the session; `options` are those of the guard.
    """
    stt, tts, steps = ScriptedSTT(), ScriptedTTS(), [[0.1, text] for text in ("One.", "Two.", "Three.")]
    pipeline: CascadingPipeline | RealtimePipeline
    model: ScriptedLLM | ScriptedRealtimeModel
    if kind == "cascading":
        model = ScriptedLLM(*steps)
        pipeline = CascadingPipeline(stt=stt, llm=model, tts=tts, vad=ScriptedVAD())
    else:
        can = RealtimeCapabilities(
            generates_audio=False, generates_text=True, turn_detection=frozenset({"local"}), starts_replies=False
        )
        model = ScriptedRealtimeModel(*steps, delay=0.0, capabilities=can)
        pipeline = RealtimePipeline(model, vad=ScriptedVAD(), stt=stt, tts=tts)
    guard = ContentGuard(judge=judge, agent=False, limit=2.0, **options)
    options_of_session = SessionOptions(guard=guard, preemptive=False, **session)
    harness = SessionHarness(agent or Agent("Help."), stt=stt, pipeline=pipeline, options=options_of_session)

    def got() -> list[str]:
        items = [message for request in model.requests for message in request.context.messages("user")]
        if isinstance(model, ScriptedRealtimeModel):
            appended = model.connections[-1].record.appended
            items += [item for item in appended if isinstance(item, ChatMessage) and item.role == "user"]
        return [item.content for item in items]

    return harness, got


@KINDS
def test_words_of_a_turn_that_the_agent_takes_are_judged_before_the_next_request(kind: str) -> None:
    class Host(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            if turn.text == SECRET:
                raise StopResponse(is_taken=True)

    harness, got = secretive(Judge(0.1, secret=REMOVED), kind, Host("Help."))
    harness.caller.says(SECRET, 0.5, 1.5)
    harness.caller.says("and now", 8.0, 9.0)
    harness.run(until=14.0)
    assert set(got()) == {"[removed]", "and now"}
    assert [text for who, text in harness.messages if who == "user"] == ["[removed]", "and now"]


@KINDS
@pytest.mark.parametrize("by", ["interrupt", "reply"])
def test_words_whose_judging_was_cut_are_judged_before_the_next_request(kind: str, by: str) -> None:
    judge = Judge(1.5, secret=REMOVED)
    harness, got = secretive(judge, kind)
    harness.caller.says(SECRET, 0.5, 1.5)
    harness.caller.says("and now", 8.0, 9.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.5)
        if by == "interrupt":
            await harness.session.interrupt()
        else:
            await harness.session.reply("say something", when_busy="interrupt")
        await harness.until(14.0)

    harness.run(scenario)
    assert SECRET not in got()
    assert set(got()) == {"[removed]", "and now"}
    assert judge.texts.count(SECRET) == 2  # the first time it was cut
    assert [text for who, text in harness.messages if who == "user"] == ["[removed]", "and now"]


@KINDS
@pytest.mark.parametrize(("fate", "kept"), [("hold", set()), ("pass", {SECRET})])
def test_words_left_unjudged_have_the_fate_of_a_guard_that_fails(kind: str, fate: str, kept: set[str]) -> None:
    harness, got = secretive(Judge(5.0), kind, on_failure=fate)
    harness.caller.says(SECRET, 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.5)
        await harness.session.interrupt()
        await harness.session.reply("say something")

    harness.expects_error("guard").run(scenario)
    assert set(got()) == kept


@KINDS
@pytest.mark.parametrize("fate", ["hold", "pass"])
def test_a_guard_of_the_caller_that_hangs_costs_its_limit_and_the_next_turn_is_judged_anew(
    kind: str, fate: str
) -> None:
    harness, got = secretive(Judge(60.0, first=GuardVerdict()), kind, on_failure=fate)
    harness.caller.says("first", 0.5, 1.5)
    harness.caller.says("second", 9.0, 10.0)
    harness.expects_error("guard").run(until=18.0)
    assert [text for who, text in harness.messages if who == "user"] == ([] if fate == "hold" else ["first", "second"])
    assert [error.source for error in harness.recording.of(ErrorOccurred)] == ["guard", "guard"]
    assert [round(turn.guards[0].seconds, 6) for turn in harness.session.turns] == [2.0, 2.0]


@KINDS
def test_a_late_spelling_does_not_bring_replaced_words_back(kind: str) -> None:
    judge = Judge(0.1, secret=REMOVED)
    harness, got = secretive(judge, kind)
    harness.caller.makes_noise(0.5, 1.5)
    harness.caller.is_recognised(SECRET, 1.2, is_final=False)
    harness.caller.is_recognised("My secret is blue.", 6.0)
    harness.caller.says("and now", 9.0, 10.0)
    harness.run(until=14.0)
    assert set(got()) == {"[removed]", "and now"}
    assert judge.texts == [SECRET, "and now"]


def test_a_late_spelling_does_not_bring_back_words_that_the_hook_replaced() -> None:
    class Host(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            assert turn.text in [message.content for message in turn.history.messages("user")]
            turn.text = turn.text.replace("secret", "[...]")

    harness, got = secretive(Judge(0.1), agent=Host("Help."))
    harness.caller.makes_noise(0.5, 1.5)
    harness.caller.is_recognised(SECRET, 1.2, is_final=False)
    harness.caller.is_recognised("My secret is blue.", 6.0)
    harness.caller.says("and now", 9.0, 10.0)
    harness.run(until=14.0)
    assert set(got()) == {"my [...] is blue", "and now"}


@KINDS
def test_a_late_correction_is_judged_before_a_model_gets_it(kind: str) -> None:
    judge = Judge(0.1, secret=REMOVED)
    harness, got = secretive(judge, kind)
    harness.caller.makes_noise(0.5, 1.5)
    harness.caller.is_recognised("my name is", 1.2, is_final=False)
    harness.caller.is_recognised("my name is secret", 6.0)
    harness.run(until=12.0)
    assert "my name is secret" in judge.texts
    assert "my name is secret" not in got()
    assert harness.messages[0] == ("user", "[removed]")


@pytest.mark.parametrize("late", ["My name is.", "my name is secret"])
def test_a_correction_that_comes_while_its_words_are_judged_is_judged_too(late: str) -> None:
    judge = Judge(1.8, secret=REMOVED)
    harness, got = secretive(judge)
    harness.caller.makes_noise(0.5, 1.5)
    harness.caller.is_recognised("my name is", 1.2, is_final=False)
    harness.caller.is_recognised(late, 4.0)
    harness.run(until=14.0)
    assert judge.texts == ["my name is", late]
    assert got() == [late if late == "My name is." else "[removed]"]


@KINDS
def test_words_without_a_verdict_in_a_snapshot_are_judged_before_a_resumed_session_s_model_gets_them(kind: str) -> None:
    taken: list[dict[str, Any]] = []
    first, _ = secretive(Judge(1.5, secret=REMOVED), kind)
    first.caller.says(SECRET, 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.5)
        taken.append(json.loads(json.dumps(harness.session.snapshot())))

    first.run(scenario)
    judge = Judge(0.1, secret=REMOVED)
    second, got = secretive(judge, kind)
    second.resume_from = taken[0]
    second.caller.says("and now", 0.5, 1.5)
    second.run(until=5.0)
    assert SECRET in judge.texts
    assert "and now" in got()
    assert SECRET not in got()
    assert second.messages[0] == ("user", "[removed]")


def test_a_snapshot_with_wrong_ids_of_unjudged_words_is_refused() -> None:
    harness, _ = secretive(Judge())

    async def scenario(harness: SessionHarness) -> None:
        data = harness.session.snapshot()
        for wrong in ("item_1", [1]):
            with pytest.raises(ConfigurationError, match="needs 'unjudged' as a list of ids"):
                read_snapshot({**data, "unjudged": wrong}, agent=harness.agent.id, userdata=None)
        assert read_snapshot(data, agent=harness.agent.id, userdata=None).unjudged == frozenset()

    harness.run(scenario)


# --- what is kept of a turn


class Kept:
    """All that a session keeps of its turns with `capture_content`: report, spans, records for the room."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._watching = Watching()
        self.options = {"report_path": f"{folder}/", "telemetry": self._watching.telemetry}

    @property
    def report(self) -> str:
        """The text of the report."""
        (path,) = self._folder.iterdir()
        return path.read_text()

    def texts(self, harness: SessionHarness) -> list[str]:
        """Return it as texts; a record as the text of the caller in it."""
        spans = [str(value) for span in self._watching.spans for value in (span.attributes or {}).values()]
        sent = [json.loads(text)["user_text"] for text in harness.room.turn_records]
        told = [event.record.user_text for event in harness.recording.of(TurnCompleted)]
        return [self.report, *spans, *sent, *told, *(turn.user_text for turn in harness.session.turns)]


@KINDS
@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (REMOVED, "[removed]"),
        (GuardVerdict("hold"), ""),
        (GuardVerdict("end", "Ask a person."), ""),
        (GuardVerdict(), SECRET),
    ],
    ids=["replace", "hold", "end", "pass"],
)
def test_record_report_and_spans_have_the_words_that_the_guard_left(
    kind: str, verdict: GuardVerdict, words: str, tmp_path: Path
) -> None:
    kept = Kept(tmp_path)
    harness, _ = secretive(Judge(0.1, secret=verdict), kind, session=kept.options)
    harness.caller.says(SECRET, 0.5, 1.5)
    harness.run(until=8.0)
    assert [turn.user_text for turn in harness.session.turns] == [words]
    assert any(SECRET in text for text in kept.texts(harness)) is (verdict.action == "pass")


@KINDS
@pytest.mark.parametrize(("text", "words"), [("my [...] is blue", "my [...] is blue"), ("", "")])
def test_record_report_and_spans_have_the_words_that_the_hook_left(
    kind: str, text: str, words: str, tmp_path: Path
) -> None:
    class Host(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            turn.text = text

    kept = Kept(tmp_path)
    harness, _ = secretive(Judge(0.1), kind, Host("Help."), session=kept.options)
    harness.caller.says(SECRET, 0.5, 1.5)
    harness.run(until=8.0)
    assert [turn.user_text for turn in harness.session.turns] == [words]
    assert not [found for found in kept.texts(harness) if SECRET in found]


@KINDS
def test_a_late_spelling_brings_replaced_words_back_into_no_record(kind: str, tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    harness, _ = secretive(Judge(0.1, secret=REMOVED), kind, session=kept.options)
    harness.caller.makes_noise(0.5, 1.5)
    harness.caller.is_recognised(SECRET, 1.2, is_final=False)
    harness.caller.is_recognised("My secret is blue.", 2.75)
    harness.run(until=8.0)
    assert [turn.user_text for turn in harness.session.turns] == ["[removed]"]
    assert not [found for found in kept.texts(harness) if "secret is blue" in found]


@KINDS
def test_a_verdict_that_comes_when_the_turn_is_over_changes_its_record(kind: str, tmp_path: Path) -> None:
    kept = Kept(tmp_path)
    harness, _ = secretive(Judge(1.5, secret=REMOVED), kind, session=kept.options)
    harness.caller.says(SECRET, 0.5, 1.5)
    harness.caller.says("and now", 8.0, 9.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.5)
        await harness.session.interrupt()
        await harness.until(14.0)

    harness.run(scenario)
    assert [turn.user_text for turn in harness.session.turns] == ["[removed]", "and now"]
    assert SECRET not in kept.report


@KINDS
@pytest.mark.parametrize("at", [2.95, 6.0], ids=["while it is answered", "later"])
def test_words_that_the_application_replaces_in_the_history_are_in_no_record(
    kind: str, at: float, tmp_path: Path
) -> None:
    kept = Kept(tmp_path)
    harness, _ = secretive(Judge(0.1), kind, session=kept.options)
    harness.caller.says(SECRET, 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(at)
        history = harness.session.history
        history.replace_text(history.messages("user")[0], "[gone]")
        await harness.until(8.0)

    harness.run(scenario)
    assert [turn.user_text for turn in harness.session.turns] == ["[gone]"]
    assert SECRET not in kept.report

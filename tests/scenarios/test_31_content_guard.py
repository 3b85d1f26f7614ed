"""The content guard: sentences and turns that pass, are held back, replaced or end the answer; a guard that fails."""

from __future__ import annotations

import json

import anyio
import pytest

from kit.guards import Judge
from kit.telemetry import Watching
from vivavoce.agents import Agent, ContentGuard, GuardedText, GuardVerdict, SessionOptions, function_tool
from vivavoce.agents.agent import CompletedTurn, EmptyReply
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.guard import ModelJudge
from vivavoce.agents.speech.flow import ConversationFlow
from vivavoce.agents.testing import HANG, ScriptedLLM, ScriptedSTT, ScriptedTTS, SessionHarness
from vivavoce.pipelines import CascadingPipeline, RealtimePipeline
from vivavoce.pipelines.core.errors import CapabilityError, ProviderConnectionError
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedVAD, Step

HOLD, END = GuardVerdict("hold"), GuardVerdict("end", "Ask a person.")
REPLACE = GuardVerdict("replace", "I cannot say.")


KINDS = pytest.mark.parametrize("kind", ["cascading", "realtime, text"])


def session_of(
    guard: ContentGuard, *steps: Step, kind: str = "cascading", agent: Agent | None = None, preemptive: bool = False
) -> tuple[SessionHarness, ScriptedTTS]:
    stt, tts = ScriptedSTT(), ScriptedTTS()
    pipeline: CascadingPipeline | RealtimePipeline
    if kind == "cascading":
        pipeline = CascadingPipeline(stt=stt, llm=ScriptedLLM(*steps), tts=tts, vad=ScriptedVAD())
    else:
        can = RealtimeCapabilities(
            generates_audio=False, generates_text=True, turn_detection=frozenset({"local"}), starts_replies=False
        )
        model = ScriptedRealtimeModel(*steps, delay=0.0, capabilities=can)
        pipeline = RealtimePipeline(model, vad=ScriptedVAD(), stt=stt, tts=tts)
    options = SessionOptions(guard=guard, preemptive=preemptive)
    harness = SessionHarness(agent or Agent("Help."), stt=stt, pipeline=pipeline, options=options)
    harness.preemptive = preemptive
    harness.caller.says("first question", 0.5, 1.5)
    return harness, tts


def of_agent(judge: Judge, **options: float) -> ContentGuard:
    return ContentGuard(judge=judge, caller=False, **options)  # type: ignore[arg-type]


@KINDS
@pytest.mark.parametrize(
    ("verdict", "said"),
    [
        (GuardVerdict(), "One is fine. Two is bad. Three is fine."),
        (HOLD, "One is fine. Three is fine."),
        (REPLACE, "One is fine. I cannot say. Three is fine."),
        (END, "One is fine. Ask a person."),
        (GuardVerdict("end"), "One is fine."),
    ],
    ids=["pass", "hold", "replace", "end", "end without words"],
)
def test_a_sentence_is_judged_before_the_voice_gets_it(kind: str, verdict: GuardVerdict, said: str) -> None:
    judge = Judge(bad=verdict)
    step: Step = (0.1, "One is fine. Two is ", 0.1, "bad. Three is fine.")
    harness, tts = session_of(of_agent(judge), step, kind=kind)
    harness.run(until=9.0)
    harness.expect_outcomes("completed")
    harness.expect_history(("user", "first question"), ("assistant", said))
    assert " ".join(tts.texts) == said
    assert harness.session.turns[0].agent_text.strip() == said
    assert "bad" not in harness.session.turns[0].heard_text or verdict.action == "pass"
    assert judge.texts[:2] == ["One is fine.", "Two is bad."]
    assert judge.given[1].before == "One is fine."
    assert [record.action for record in harness.session.turns[0].guards][1] == verdict.action


@KINDS
def test_its_time_is_a_stage_of_the_turn_and_the_stages_still_add_up(kind: str) -> None:
    harness, _ = session_of(of_agent(Judge(0.3)), [0.1, "One is fine. Two is fine."], kind=kind)
    harness.run(until=9.0)
    (turn,) = harness.session.turns
    stages = {stage.name: stage.seconds for stage in turn.stages}
    assert stages["guard"] == pytest.approx(0.3)
    assert stages["model_first_token"] == pytest.approx(0.1)
    assert sum(stages.values()) == pytest.approx(turn.e2e_latency)
    assert [record.said_by for record in turn.guards] == ["agent", "agent"]
    assert [record.seconds for record in turn.guards] == [pytest.approx(0.3)] * 2


def test_text_goes_on_as_it_was_written() -> None:
    text = "A list:\n\n- one thing\n- **two** things.\n\nDr. Smith says 3.5 is `x.y`!  Done"
    harness, _ = session_of(of_agent(Judge()), [0.1, *text], kind="cascading")
    harness.run(until=12.0)
    assert harness.messages[-1] == ("assistant", text)


@KINDS
@pytest.mark.parametrize("failure", ["hangs", "raises", "is wrong"])
@pytest.mark.parametrize("fate", ["hold", "pass"])
def test_a_guard_that_fails_has_a_limit_and_the_outcome_of_the_option(kind: str, failure: str, fate: str) -> None:
    async def judge(given: GuardedText) -> GuardVerdict | None:
        if "bad" in given.text:
            if failure == "raises":
                raise KeyError("secret")
            if failure == "is wrong":
                return "hold"  # type: ignore[return-value]
            await anyio.sleep_forever()
        return None

    guard = ContentGuard(judge=judge, caller=False, limit=0.5, on_failure=fate)  # type: ignore[arg-type]
    harness, tts = session_of(guard, [0.1, "One is bad. Two is fine."], kind=kind)
    harness.expects_error("guard").run(until=9.0)
    harness.expect_outcomes("completed")
    said = "Two is fine." if fate == "hold" else "One is bad. Two is fine."
    assert harness.messages[-1] == ("assistant", said)
    assert " ".join(tts.texts) == said
    (error,) = harness.recording.of(ErrorOccurred)
    assert error.source == "guard"
    first = harness.session.turns[0].guards[0]
    assert (first.action, bool(first.error)) == (fate, True)
    assert "secret" not in first.error
    assert first.seconds <= 0.5 + 1e-6


@KINDS
def test_a_guard_that_ignores_its_end_is_left_behind(kind: str) -> None:
    ends = anyio.Event()

    async def clings(given: GuardedText) -> None:
        with anyio.CancelScope(shield=True):
            await ends.wait()

    harness, tts = session_of(ContentGuard(judge=clings, caller=False, limit=0.5), [0.1, "One is fine."], kind=kind)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(8.0)
        ends.set()

    harness.expects_error("guard").run(scenario, until=9.0)
    harness.expect_outcomes("completed")
    assert tts.texts == []
    assert harness.session.turns[0].guards[0].seconds <= 3.0


@KINDS
def test_an_answer_that_is_held_back_as_a_whole_is_an_empty_one(kind: str) -> None:
    class Host(Agent):
        async def on_empty_reply(self, reply: EmptyReply) -> None:
            await self.session.say("Pardon?")

    harness, tts = session_of(of_agent(Judge(bad=HOLD)), [0.1, "All is bad."], kind=kind, agent=Host("Help."))
    harness.run(until=9.0)
    harness.expect_history(("user", "first question"), ("assistant", "Pardon?"))
    assert tts.texts == ["Pardon?"]
    assert harness.session.turns[0].is_empty


@KINDS
def test_an_end_runs_no_tool_and_a_hold_does(kind: str) -> None:
    ran: list[str] = []

    class Host(Agent):
        @function_tool
        async def book(self) -> str:
            """Book."""
            ran.append("book")
            return "booked"

    call = ToolCall(call_id="1", name="book", arguments="{}")
    for verdict, runs in ((END, []), (HOLD, ["book"])):
        ran.clear()
        harness, _ = session_of(
            of_agent(Judge(bad=verdict)), [0.1, "This is bad.", call], [0.1, "Done."], kind=kind, agent=Host("Help.")
        )
        harness.run(until=9.0)
        assert ran == runs


def test_the_text_of_a_flow_is_judged_and_words_of_say_are_not() -> None:
    judge = Judge(bad=HOLD)

    class Flow(ConversationFlow):
        async def run(self, transcript: str):  # type: ignore[no-untyped-def]
            yield "One is fine. "
            yield "Two is bad."

    stt, tts = ScriptedSTT(), ScriptedTTS()
    pipeline = CascadingPipeline(stt=stt, tts=tts, vad=ScriptedVAD())
    options = SessionOptions(guard=of_agent(judge), preemptive=False)
    harness = SessionHarness(Agent("Help."), stt=stt, pipeline=pipeline, options=options, conversation_flow=Flow())
    harness.caller.says("first question", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(6.0)
        await harness.session.say("This is bad too.")

    harness.run(scenario, until=9.0)
    assert [text for who, text in harness.messages if who == "assistant"] == ["One is fine.", "This is bad too."]


@KINDS
def test_an_interruption_while_the_guard_judges_leaves_nothing_behind(kind: str) -> None:
    judge = Judge(5.0)
    harness, tts = session_of(of_agent(judge, limit=9.0), [0.1, "One is fine."], [0.1, "Two is fine."], kind=kind)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        await harness.session.interrupt()

    harness.run(scenario, until=12.0)
    harness.expect_outcomes("cancelled")
    assert tts.texts == []


@pytest.mark.parametrize("preemptive_tts", [False, True])
def test_an_answer_begun_ahead_is_judged_too(preemptive_tts: bool) -> None:
    judge = Judge(bad=HOLD)
    stt, tts = ScriptedSTT(), ScriptedTTS()
    llm = ScriptedLLM(default=[0.1, "One is bad. Two is fine."])
    pipeline = CascadingPipeline(stt=stt, llm=llm, tts=tts, vad=ScriptedVAD())
    options = SessionOptions(guard=of_agent(judge), preemptive=True, preemptive_tts=preemptive_tts)
    harness = SessionHarness(Agent("Help."), stt=stt, pipeline=pipeline, options=options)
    harness.preemptive = True
    harness.caller.says("first question", 0.5, 1.5)
    harness.run(until=9.0)
    assert harness.session.turns[0].preemptive
    assert tts.texts == ["Two is fine."]


# --- the caller


def of_caller(judge: Judge) -> ContentGuard:
    return ContentGuard(judge=judge, agent=False)


@pytest.mark.parametrize(
    ("verdict", "history", "asked"),
    [
        (GuardVerdict(), [("user", "first question"), ("assistant", "Sure.")], ["first question"]),
        (REPLACE, [("user", "I cannot say."), ("assistant", "Sure.")], ["I cannot say."]),
        (END, [("assistant", "Ask a person.")], []),
        (HOLD, [], []),
    ],
    ids=["pass", "replace", "end", "hold"],
)
def test_a_turn_of_the_caller_is_judged_before_the_model_gets_it(
    verdict: GuardVerdict, history: list[tuple[str, str]], asked: list[str]
) -> None:
    judge = Judge(0.1, question=verdict)
    stt, llm = ScriptedSTT(), ScriptedLLM([0.1, "Sure."])
    pipeline = CascadingPipeline(stt=stt, llm=llm, tts=ScriptedTTS(), vad=ScriptedVAD())
    harness = SessionHarness(
        Agent("Help."), stt=stt, pipeline=pipeline, options=SessionOptions(guard=of_caller(judge), preemptive=True)
    )
    harness.preemptive = True
    harness.caller.says("first question", 0.5, 1.5)
    harness.run(until=9.0)
    assert judge.texts == ["first question"]
    assert judge.given[0].said_by == "caller"
    harness.expect_history(*history)
    assert [request.context.messages()[-1].content for request in llm.requests] == asked
    (turn,) = harness.session.turns
    assert turn.outcome == ("discarded" if verdict is HOLD else "completed")
    assert turn.guards[0].action == verdict.action
    if asked:
        assert {stage.name: stage.seconds for stage in turn.stages}["guard"] == pytest.approx(0.1)


@KINDS
def test_the_guard_judges_the_words_that_the_hook_has_left(kind: str) -> None:
    class Host(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            turn.text = "edited"

    judge = Judge()
    harness, _ = session_of(of_caller(judge), [0.1, "Sure."], kind=kind, agent=Host("Help."))
    harness.run(until=6.0)
    assert judge.texts == ["edited"]


def test_a_model_that_hears_the_caller_itself_refuses_a_guard_of_the_caller() -> None:
    with pytest.raises(CapabilityError, match=r"a guard of the caller.*ContentGuard\(caller=False\)"):
        SessionHarness(
            Agent("Help."), model=ScriptedRealtimeModel(), options=SessionOptions(guard=of_caller(Judge()))
        ).run(until=1.0)


# --- a realtime model that speaks


def speaking(judge: Judge, *steps: Step) -> SessionHarness:
    capabilities = RealtimeCapabilities(turn_detection=frozenset({"local"}), starts_replies=False, says_verbatim=True)
    model = ScriptedRealtimeModel(*steps, hears=["first question"], capabilities=capabilities)
    harness = SessionHarness(Agent("Help."), model=model, options=SessionOptions(guard=of_agent(judge)))
    harness.caller.makes_noise(0.5, 1.5)
    return harness


def test_the_audio_of_a_realtime_model_is_held_back_until_its_answer_has_passed() -> None:
    harness = speaking(Judge(0.2), [0.1, "One is fine. ", 1.0, "Two is fine."])
    harness.run(until=9.0)
    harness.expect_outcomes("completed")
    harness.expect_history(("user", "first question"), ("assistant", "One is fine. Two is fine."))
    (turn,) = harness.session.turns
    stages = {stage.name: stage.seconds for stage in turn.stages}
    assert stages["guard"] >= 1.0  # its cost: the answer is made before it is heard
    assert sum(stages.values()) == pytest.approx(turn.e2e_latency)


def test_an_answer_of_a_realtime_model_that_does_not_pass_is_not_heard() -> None:
    harness = speaking(Judge(bad=HOLD), [0.1, "One is fine. ", "Two is bad."])
    harness.run(until=9.0)
    assert harness.messages == [("user", "first question")]
    (turn,) = harness.session.turns
    assert turn.played_seconds == 0
    assert turn.is_empty


def test_instead_of_such_an_answer_the_text_of_the_verdict_is_spoken() -> None:
    harness = speaking(Judge(bad=REPLACE), [0.1, "This is bad."], [0.1, "I cannot say."])
    harness.run(until=9.0)
    assert [text for who, text in harness.messages if who == "assistant"] == ["I cannot say."]
    assert harness.session.turns[0].played_seconds > 0


# --- a model as the judge


@KINDS
def test_a_model_judges_by_rules(kind: str) -> None:
    model = ScriptedLLM('Sure: {"action": "pass"}', '```{"action": "replace", "text": "No comment."}```')
    guard = ContentGuard(judge=ModelJudge(model, "No gossip."), caller=False)
    harness, _ = session_of(guard, [0.1, "One is fine. Two is gossip."], kind=kind)
    harness.run(until=9.0)
    assert harness.messages[-1] == ("assistant", "One is fine. No comment.")
    assert "No gossip." in model.requests[0].instructions
    asked = json.loads(model.requests[1].context.messages()[0].content)
    assert asked == {"said_by": "agent", "before": "One is fine.", "text": "Two is gossip."}


@pytest.mark.parametrize("answer", ["I think so.", ProviderConnectionError("down", provider="judge"), HANG])
def test_a_model_that_gives_no_verdict_is_a_guard_that_fails(answer: str | Exception | float) -> None:
    guard = ContentGuard(judge=ModelJudge(ScriptedLLM(default=[answer]), "No gossip."), caller=False)
    harness, tts = session_of(guard, [0.1, "One is fine."])
    harness.expects_error("guard").run(until=9.0)
    assert tts.texts == []


@KINDS
def test_a_guard_may_take_longer_than_the_limits_of_the_model(kind: str) -> None:
    judge = Judge(12.0)
    harness, tts = session_of(of_agent(judge, limit=15.0), "One thing. And another.", kind=kind)
    harness.run(until=40.0)
    assert [turn.outcome for turn in harness.session.turns] == ["completed"]
    assert " ".join(tts.texts) == "One thing. And another."


@KINDS
def test_a_model_that_hangs_behind_a_slow_guard_keeps_its_limit(kind: str) -> None:
    harness, _ = session_of(of_agent(Judge(12.0), limit=15.0), ["One thing. And", HANG], kind=kind)
    harness.expects_error()
    harness.run(until=40.0)
    assert [turn.outcome for turn in harness.session.turns] == ["failed"]


def test_a_guard_that_judges_words_left_before_for_long_does_not_end_a_flow_s_turn() -> None:
    judge = Judge(12.0)
    harness = SessionHarness(
        Agent("Help."),
        ScriptedLLM("Sure.", delay=0.1),
        conversation_flow=ConversationFlow(),
        options=SessionOptions(guard=ContentGuard(judge=judge, agent=False, limit=15.0)),
    )
    harness.caller.says("first words", 0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(5.0)
        await harness.session.interrupt()  # so that the words wait for their verdict
        harness.caller.says("second words", 6.0, 7.0)

    harness.run(scenario, until=45.0)
    assert [turn.outcome for turn in harness.session.turns][-1] == "completed"
    assert judge.texts.count("first words") == 2


def test_the_span_of_an_answer_begun_ahead_has_no_words_that_the_guard_held_back() -> None:
    watching = Watching()
    stt, tts, vad = ScriptedSTT(), ScriptedTTS(), ScriptedVAD()
    pipeline = CascadingPipeline(stt=stt, llm=ScriptedLLM([0.1, "One is fine. Two is bad."]), tts=tts, vad=vad)
    options = SessionOptions(guard=of_agent(Judge(bad=REPLACE)), telemetry=watching.telemetry)
    harness = SessionHarness(Agent("Help."), stt=stt, pipeline=pipeline, options=options)
    harness.preemptive = True
    harness.caller.says("first question", 0.5, 1.5)
    harness.run(until=9.0)
    assert harness.session.turns[0].preemptive
    assert harness.session.turns[0].agent_text.strip() == "One is fine. I cannot say."
    assert not [span.name for span in watching.spans if "Two is bad" in str(span.attributes)]

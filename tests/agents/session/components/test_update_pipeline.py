"""`update_pipeline`: its effect on words, speech, tools and handoffs, and failures of the new or old pipeline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio
import pytest

from vivavoce.agents import (
    Agent,
    CompletedTurn,
    ConversationFlow,
    PipelineChange,
    RunContext,
    SessionOptions,
    function_tool,
)
from vivavoce.agents.events import ErrorOccurred, PipelineChanged
from vivavoce.agents.session.session import AgentSession
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness, run_virtual
from vivavoce.agents.turn.options import EndpointingOptions
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.errors import (
    CapabilityError,
    ConfigurationError,
    ProviderConnectionError,
    SessionClosedError,
    SessionError,
    SessionNotStartedError,
)
from vivavoce.pipelines.llm.chat_context import FunctionCall, FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.realtime import RealtimePipeline
from vivavoce.pipelines.realtime_model.base import RealtimeSetup
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedSTT, ScriptedVAD
from vivavoce.pipelines.testing.scripted_realtime import ScriptedRealtimeConnection

NUMBERS = "one two three four five six seven eight nine ten."


def realtime(model: ScriptedRealtimeModel, **parts: Any) -> RealtimePipeline:
    """A model that hears the caller; the session ends its turns."""
    return RealtimePipeline(model, vad=ScriptedVAD(), **parts)


def cascade(llm: ScriptedLLM, stt: ScriptedSTT | None = None) -> CascadingPipeline:
    return CascadingPipeline(stt=stt or ScriptedSTT(), llm=llm, tts=ScriptedTTS(), vad=ScriptedVAD())


def cascading(*script: Any, agent: Agent | None = None, **session: Any) -> SessionHarness:
    return SessionHarness(agent or Agent("Help."), ScriptedLLM(*script, delay=0.1), **session)


def hearing(model: ScriptedRealtimeModel, agent: Agent | None = None, **parts: Any) -> SessionHarness:
    return SessionHarness(agent or Agent("Help."), model=model, pipeline=realtime(model, **parts))


def changing(
    at: float, make: Callable[[], Any], changes: list[PipelineChange], **options: Any
) -> Callable[[SessionHarness], Any]:
    """A scenario that changes the pipeline at `at` and waits for the outcome."""

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(at)
        changes.append(harness.session.update_pipeline(make(), **options))
        await changes[-1]

    return scenario


def errors(harness: SessionHarness) -> list[str]:
    return [f"{event.source}: {event.error}" for event in harness.recording.of(ErrorOccurred)]


def changed_at(harness: SessionHarness) -> list[float]:
    return [round(event.at, 3) for event in harness.recording.of(PipelineChanged)]


# --- when


def test_in_the_middle_of_the_user_s_words_they_are_answered_first_by_who_has_heard_them() -> None:
    model = ScriptedRealtimeModel("Six.", hears=["and then"], delay=0.1)
    changes: list[PipelineChange] = []
    harness = cascading("Five.")
    harness.caller.says("what is two and three", 0.5, 2.5)
    harness.caller.makes_noise(4.5, 5.5)
    harness.run(changing(1.0, lambda: realtime(model), changes), until=8.0)
    harness.expect_history(
        ("user", "what is two and three"), ("assistant", "Five."), ("user", "and then"), ("assistant", "Six.")
    )
    harness.expect_played((3.2, 0.2), (6.0, 0.2))
    assert changed_at(harness) == [3.4]


def test_while_the_agent_speaks_it_is_heard_to_its_end() -> None:
    model = ScriptedRealtimeModel("Sure.", hears=["thanks"], delay=0.1)
    harness = cascading(NUMBERS)
    harness.caller.says("count please", 0.5, 1.0)
    harness.caller.makes_noise(5.0, 6.0)
    harness.run(changing(2.5, lambda: realtime(model), []), until=8.0)
    harness.expect_played((1.7, 2.0), (6.5, 0.2)).expect_outcomes("completed", "completed")
    assert changed_at(harness) == [3.7]


def test_words_that_begin_as_the_pipeline_changes_are_heard_from_their_onset() -> None:
    model = ScriptedRealtimeModel("Sure.", hears=["hello"], delay=0.1)
    harness = cascading()
    harness.caller.makes_noise(2.46, 3.5)  # the vad knows it at 2.52
    harness.run(changing(2.0, lambda: realtime(model), []), until=5.0)
    assert changed_at(harness) == [2.5]  # when half a second of the caller is kept for it
    harness.expect_history(("user", "hello"), ("assistant", "Sure."))
    harness.expect_states("user", ("speaking", 2.46), ("idle", 3.5), ("listening", 4.0), ("idle", 4.2))


@pytest.mark.parametrize("transcript_delay", [1.3, 3.3])
def test_from_a_realtime_model_to_a_cascade_words_that_come_late_enter_their_turn(transcript_delay: float) -> None:
    hears = ["what is two and three"]
    model = ScriptedRealtimeModel("Five.", hears=hears, delay=0.1, transcript_delay=transcript_delay)
    llm = ScriptedLLM("Six.", delay=0.1)
    stt = ScriptedSTT()
    harness = hearing(model)
    harness.caller.makes_noise(0.5, 1.5)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        await harness.session.update_pipeline(cascade(llm, stt))
        assert harness.messages == [("assistant", "Five.")] or harness.messages[0] == ("user", "[no transcript]")
        await harness.until(4.0)
        harness.caller.makes_noise(4.0, 5.0)
        await harness.until(5.2)
        stt.final("and one more")

    harness.run(scenario, until=8.0)
    harness.expect_history(
        ("user", "what is two and three"), ("assistant", "Five."), ("user", "and one more"), ("assistant", "Six.")
    )
    assert [message.content for message in llm.requests[0].context.messages()] == [
        "what is two and three",
        "Five.",
        "and one more",
    ]
    assert model.connections[0].is_closed


def test_a_tool_that_runs_is_answered_by_the_new_model() -> None:
    class Looking(Agent):
        @function_tool
        async def look_up(self) -> str:
            """Look something up."""
            await anyio.sleep(3.0)
            return "a blue whale"

    call = ToolCall(call_id="c1", name="look_up", arguments="{}")
    model = ScriptedRealtimeModel("It is a blue whale.", delay=0.1)
    harness = cascading([call], agent=Looking("Help."))
    harness.caller.says("what is the biggest animal", 0.5, 1.5)
    harness.run(changing(2.5, lambda: realtime(model), []), until=8.0)
    assert changed_at(harness) == [3.0]
    harness.expect_history(("user", "what is the biggest animal"), ("assistant", "It is a blue whale."))
    appended = model.connections[0].record.appended
    assert [type(item) for item in appended] == [FunctionCall, FunctionCallOutput]


def test_a_tool_of_a_realtime_model_is_answered_by_the_cascade_and_may_itself_change_the_pipeline() -> None:
    llm = ScriptedLLM("It is done.", delay=0.1)
    outcomes: list[Any] = []

    class Changing(Agent):
        @function_tool
        async def change(self, context: RunContext) -> str:
            """Change how it speaks."""
            change = context.session.update_pipeline(cascade(llm))
            await change
            outcomes.append(change.outcome)
            return "changed"

    call = ToolCall(call_id="c1", name="change", arguments="{}")
    model = ScriptedRealtimeModel([call], hears=["change it"], delay=0.1)
    harness = hearing(model, Changing("Help."))
    harness.caller.makes_noise(0.5, 1.5)
    harness.run(until=6.0)
    assert outcomes == ["completed"]
    harness.expect_history(("user", "change it"), ("assistant", "It is done.")).expect_outcomes("completed")


def test_an_agent_that_comes_may_bring_its_own_pipeline_and_wait_for_it() -> None:
    model = ScriptedRealtimeModel("Billing here.", delay=0.1)

    class Billing(Agent):
        async def on_enter(self) -> None:
            await self.session.update_pipeline(realtime(model))
            await self.session.reply("Greet the caller.")

    harness = cascading()

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        _ = harness.session.say("One moment.")
        handoff = harness.session.update_agent(Billing("You are billing.", id="billing"))
        await handoff
        assert handoff.outcome == "completed"

    harness.run(scenario, until=4.0)
    harness.expect_history(("assistant", "One moment."), ("assistant", "Billing here."))
    assert model.connections[0].record.updates[-1][0] == "You are billing."


def test_an_agent_that_came_while_the_pipeline_was_opened_is_told_to_it() -> None:
    model = ScriptedRealtimeModel("Hello.", delay=0.1, open_delay=2.0)
    harness = cascading()

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        change = harness.session.update_pipeline(realtime(model))
        await harness.session.update_agent(Agent("You are billing.", id="billing"))
        await change
        await harness.session.reply("Greet the caller.")

    harness.run(scenario)
    assert [update[0] for update in model.connections[0].record.updates] == ["Help.", "You are billing."]


def test_a_message_that_was_changed_after_the_model_was_told_it_has_the_model_begin_anew() -> None:
    model = ScriptedRealtimeModel("Sure.", delay=0.1)
    harness = cascading(NUMBERS)

    async def scenario(harness: SessionHarness) -> None:
        item = harness.session.history.add_message("user", "my name is Jo")
        speech = harness.session.say(NUMBERS)
        await harness.until(0.5)
        change = harness.session.update_pipeline(realtime(model))
        await harness.until(1.0)
        harness.session.history.replace_text(item, "my name is Joe")
        await speech
        await change
        await harness.session.reply("Greet the caller.")

    harness.run(scenario)
    last = model.connections[-1]
    assert len(model.connections) == 2
    assert [message.content for message in last.setup.history.messages()] == ["my name is Joe", NUMBERS]
    assert last.record.appended == []


def test_two_changes_at_once_follow_each_other_and_one_to_the_same_pipeline_does_nothing() -> None:
    model = ScriptedRealtimeModel(open_delay=0.5)
    llm = ScriptedLLM("Hello.", delay=0.1)
    harness = cascading()

    async def scenario(harness: SessionHarness) -> None:
        last = cascade(llm)
        changes = [harness.session.update_pipeline(pipeline) for pipeline in (realtime(model), last, last)]
        for change in changes:
            await change
            assert change.outcome == "completed"
        assert harness.session.pipeline is last
        await harness.session.reply("Greet the caller.")

    harness.run(scenario)
    assert [(event.old, event.pipeline) for event in harness.recording.of(PipelineChanged)] == [
        ("cascading", "realtime"),
        ("realtime", "cascading"),
    ]
    harness.expect_history(("assistant", "Hello."))


def test_there_and_back_again_at_once() -> None:
    model = ScriptedRealtimeModel()
    harness = cascading("Hello.")

    async def scenario(harness: SessionHarness) -> None:
        first = harness.session.pipeline
        await harness.session.update_pipeline(realtime(model))
        back = harness.session.update_pipeline(first)
        await back
        assert back.outcome == "completed"
        await harness.session.reply("Greet the caller.")

    harness.run(scenario)
    harness.expect_history(("assistant", "Hello."))


# --- failures


LOST = ProviderConnectionError("cut", provider="scripted")


def test_a_pipeline_that_cannot_be_opened_leaves_the_session_as_it_was() -> None:
    model = ScriptedRealtimeModel()
    model.fail_open(LOST, LOST, LOST)
    changes: list[PipelineChange] = []
    harness = cascading("Five.")
    harness.caller.says("what is two and three", 4.0, 5.0)
    harness.run(changing(1.0, lambda: realtime(model), changes), until=8.0)
    assert changes[0].outcome == "failed"
    assert changes[0].exception() is not None
    assert errors(harness) == [f"pipeline: {changes[0].exception()}"]
    assert harness.recording.of(ErrorOccurred)[0].is_recovered
    harness.expect_history(("user", "what is two and three"), ("assistant", "Five."))
    assert harness.session.pipeline is harness.pipeline


def test_one_that_hangs_as_it_is_opened_is_given_up_within_the_limit() -> None:
    model = ScriptedRealtimeModel(open_delay=1000.0)
    changes: list[PipelineChange] = []
    harness = cascading("Five.", options=SessionOptions(start_step=3.0))
    harness.caller.says("what is two and three", 2.0, 3.0)
    harness.run(changing(1.0, lambda: realtime(model), changes), until=8.0)
    assert changes[0].outcome == "failed"
    assert errors(harness) == ["pipeline: pipeline was not ready within 3 s"]
    harness.expect_history(("user", "what is two and three"), ("assistant", "Five."))


def test_without_a_silent_moment_in_time_the_session_goes_on_as_before() -> None:
    model = ScriptedRealtimeModel()
    changes: list[PipelineChange] = []
    harness = cascading()

    async def scenario(harness: SessionHarness) -> None:
        _ = harness.session.say(" ".join(["word"] * 20))
        await changing(0.5, lambda: realtime(model), changes, within=2.0)(harness)

    harness.run(scenario, until=6.0)
    assert changes[0].outcome == "failed"
    assert "no moment came within 2 s" in str(changes[0].exception())
    assert model.connections[0].is_closed
    harness.expect_outcomes("completed")


def test_one_that_is_lost_while_it_waits_never_takes_over() -> None:
    model = ScriptedRealtimeModel()
    changes: list[PipelineChange] = []
    harness = cascading()

    async def scenario(harness: SessionHarness) -> None:
        _ = harness.session.say(" ".join(["word"] * 20))
        await harness.until(0.5)
        changes.append(harness.session.update_pipeline(realtime(model)))
        await harness.until(1.0)
        model.fail_open(*[LOST] * 9)
        model.fail()
        await changes[0]
        assert harness.now < 3.0

    harness.run(scenario, until=6.0)
    assert changes[0].outcome == "failed"
    assert harness.session.pipeline is harness.pipeline
    harness.expect_outcomes("completed")


class Stubborn(ScriptedRealtimeConnection):
    """Does not end."""

    async def aclose(self) -> None:
        """Take its time."""
        await super().aclose()
        await anyio.sleep(1000.0)


class StubbornModel(ScriptedRealtimeModel):
    """Its connections do not end."""

    async def open(self, setup: RealtimeSetup) -> ScriptedRealtimeConnection:
        """Return one."""
        connection = Stubborn(self, setup)
        self.connections.append(connection)
        return connection


def test_one_that_does_not_end_holds_up_neither_the_call_nor_its_close() -> None:
    model = StubbornModel("One.", hears=["hello"], delay=0.1)
    stt, llm = ScriptedSTT(), ScriptedLLM("Two.", delay=0.1)
    harness = hearing(model)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(1.0)
        await harness.session.update_pipeline(cascade(llm, stt))
        assert harness.now == pytest.approx(1.5)
        await harness.session.reply("Say two.")

    harness.run(scenario, until=2.0)
    harness.expect_history(("assistant", "Two."))
    assert harness.close_report is not None
    assert harness.close_report.seconds < 3.0


@pytest.mark.parametrize("at", [0.2, 0.8])
def test_closing_in_the_middle_of_a_change_leaves_nothing_behind(at: float) -> None:
    model = ScriptedRealtimeModel(open_delay=0.5)  # at 0.8 it is open, and waits
    harness = cascading()
    changes: list[PipelineChange] = []

    async def scenario(harness: SessionHarness) -> None:
        _ = harness.session.say(" ".join(["word"] * 20))
        changes.extend(harness.session.update_pipeline(each) for each in (realtime(model), harness.pipeline))
        await harness.until(at)

    harness.run(scenario)
    assert [change.outcome for change in changes] == ["cancelled", "cancelled"]
    assert harness.close_report is not None
    assert harness.close_report.is_clean
    assert harness.close_report.seconds < 0.3
    assert all(connection.is_closed for connection in model.connections)
    with pytest.raises(SessionClosedError):
        _ = harness.session.update_pipeline(realtime(model))


def test_a_pipeline_of_another_session_is_refused() -> None:
    first, second = cascading(), cascading()

    async def main() -> None:
        async with first, second:
            change = second.session.update_pipeline(first.pipeline)
            await change
            assert change.outcome == "failed"
            assert isinstance(change.exception(), ConfigurationError)

    run_virtual(main())


# --- refusals


def test_what_cannot_work_is_refused_at_once() -> None:
    class Flow(ConversationFlow):
        async def run(self, transcript: str) -> Any:
            """Say it."""
            yield transcript

    session = AgentSession[None](Agent("Help."), cascade(ScriptedLLM()))
    with pytest.raises(SessionNotStartedError):
        _ = session.update_pipeline(cascade(ScriptedLLM()))

    async def scenario(harness: SessionHarness) -> None:
        change = harness.session.update_pipeline
        with pytest.raises(ConfigurationError, match="must be a Pipeline"):
            _ = change("realtime")  # type: ignore[arg-type]
        with pytest.raises(ConfigurationError, match="within"):
            _ = change(cascade(ScriptedLLM()), within=0.0)
        with pytest.raises(CapabilityError, match="manual"):
            _ = change(RealtimePipeline(ScriptedRealtimeModel()))
        harness.session.update_flow(Flow())
        with pytest.raises(CapabilityError, match="takes_flow"):
            _ = change(realtime(ScriptedRealtimeModel()))
        harness.session.update_flow(None)
        going = change(realtime(ScriptedRealtimeModel()))
        with pytest.raises(CapabilityError, match="takes_flow"):
            harness.session.update_flow(Flow())
        await going

    manual = SessionOptions(endpointing=EndpointingOptions(mode="manual"))
    cascading(options=manual).run(scenario)


def test_it_cannot_be_awaited_where_it_would_never_come() -> None:
    caught: list[SessionError] = []
    changes: list[Any] = []
    model = ScriptedRealtimeModel()

    class Front(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            changes.append(self.session.update_pipeline(realtime(model)))
            try:
                await changes[0]
            except SessionError as error:
                caught.append(error)

    harness = cascading("Five.", agent=Front("Help."))
    harness.caller.says("what is two and three", 0.5, 1.5)
    harness.run(until=5.0)
    assert len(caught) == 1
    assert changes[0].outcome == "completed"
    harness.expect_history(("user", "what is two and three"), ("assistant", "Five."))

"""A conversation flow answers the caller in place of the model."""

from __future__ import annotations

import gc
import weakref
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest

from vivavoce.agents import (
    Agent,
    AgentSession,
    CompletedTurn,
    ConversationFlow,
    EmptyReply,
    SessionOptions,
    SpeechLimits,
)
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import (
    Caller,
    ScriptedLLM,
    ScriptedRealtimeModel,
    ScriptedSTT,
    ScriptedTTS,
    ScriptedVAD,
    VirtualClock,
    run_virtual,
)
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError, SessionClosedError, SessionError
from vivavoce.pipelines.realtime import RealtimePipeline


class Echo(ConversationFlow):
    """Repeats the user's words after 0.1 s; `log` has its calls."""

    def __init__(self, *answer: object, name: str = "") -> None:
        self.answer = answer
        self.name = name
        self.log: list[str] = []

    async def on_turn_start(self, transcript: str) -> None:
        self.log.append(f"start {transcript}")

    async def run(self, transcript: str) -> AsyncIterator[str]:
        self.log.append(f"run {transcript}")
        await anyio.sleep(0.1)
        for piece in self.answer or (f"You said {transcript}.",):
            if isinstance(piece, Exception):
                raise piece
            if isinstance(piece, float):
                await anyio.sleep(piece)
            else:
                yield piece  # type: ignore[misc]  # one test yields what is no text

    async def on_turn_end(self) -> None:
        self.log.append(f"end {self.session.turns[-1].outcome}")

    async def cleanup(self) -> None:
        self.log.append("cleanup")


class Talk:
    """A session on virtual time with a caller, a flow and a cascade, by default without a model."""

    def __init__(self, flow: ConversationFlow | None, *, llm: ScriptedLLM | None = None, agent: Agent | None = None):
        self.flow = flow
        self.stt = ScriptedSTT()
        self.pipeline = CascadingPipeline(stt=self.stt, llm=llm, tts=ScriptedTTS(), vad=ScriptedVAD())
        self.agent = agent or Agent("Help.")
        self.caller = Caller(lambda text, is_final, item_id: self.stt.final(text))
        self.errors: list[str] = []

    def run(self, scenario: Any = None, *, until: float = 6.0, **limits: float) -> Talk:
        """Run the session, and `scenario(session)` in it, until `until`."""

        async def main() -> None:
            clock = VirtualClock()
            options = SessionOptions(clock=clock, speech=SpeechLimits(**limits))  # type: ignore[arg-type]
            self.session: AgentSession[None] = AgentSession(self.agent, self.pipeline, self.flow, options=options)
            self.session.on(ErrorOccurred, lambda event: self.errors.append(f"{event.source}: {event.error!r}"))
            room = LocalTransport(clock, participant="caller")
            self.caller.begin(room, clock)
            await self.session.start(room)
            if scenario is not None:
                await scenario(self.session)
            await anyio.sleep(max(0.0, until - clock.now()))
            self.report = await self.session.close()
            self.caller.stop()

        run_virtual(main())
        return self

    @property
    def messages(self) -> list[tuple[str, str]]:
        """(role, text) of the history."""
        return [(message.role, message.content) for message in self.session.history.messages()]

    @property
    def outcomes(self) -> list[str]:
        """Of the turns."""
        return [turn.outcome for turn in self.session.turns]


def test_a_flow_answers_the_caller_without_any_model() -> None:
    flow = Echo()
    talk = Talk(flow)
    talk.caller.says("hello there", 0.5, 1.5)
    talk.run()
    assert talk.messages == [("user", "hello there"), ("assistant", "You said hello there.")]
    assert flow.log == ["start hello there", "run hello there", "end completed", "cleanup"]
    assert "conversation_flow.cleanup" in [step.name for step in talk.report.steps]
    (turn,) = talk.session.turns
    assert {stage.name: round(stage.seconds, 6) for stage in turn.stages} == {
        "vad_silence": 0.2,
        "endpointing_wait": 0.2,
        "flow_first_text": 0.1,
        "tts_first_byte": 0.2,
    }
    assert turn.e2e_latency == pytest.approx(0.7)
    assert [stage.owner for stage in turn.stages if stage.name == "flow_first_text"] == ["user_code"]


def test_a_finished_sentence_does_not_wait_for_the_flows_next_piece() -> None:
    talk = Talk(Echo("One moment please. ", 1.5, "Here it is."))
    talk.caller.says("hello there", 0.5, 1.5)
    talk.run()
    (turn,) = talk.session.turns
    assert {stage.name: round(stage.seconds, 6) for stage in turn.stages}["first_sentence"] == 0.15
    assert turn.e2e_latency == pytest.approx(0.7 + 0.15)
    assert talk.messages[-1] == ("assistant", "One moment please. Here it is.")


def test_an_interrupted_answer_keeps_what_was_heard_and_closes_the_flow_s_run() -> None:
    closed: list[float] = []

    class Endless(Echo):
        async def run(self, transcript: str) -> AsyncIterator[str]:
            try:
                while True:
                    yield "One two three four five. "
                    await anyio.sleep(0.2)
            finally:
                closed.append(round(anyio.current_time(), 6))

    flow = Endless()
    talk = Talk(flow)
    talk.caller.says("hello there", 0.5, 1.5)

    async def scenario(session: AgentSession[None]) -> None:
        await anyio.sleep(3.0)
        await session.interrupt()

    talk.run(scenario)
    assert talk.outcomes == ["interrupted"]
    assert talk.messages[1][1].startswith("One two")
    assert closed == [3.0]
    assert flow.log == ["start hello there", "end interrupted", "cleanup"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((RuntimeError("no"),), "RuntimeError"),
        (("Well. ", RuntimeError("no")), "RuntimeError"),
        ((7,), "yield str, got int"),
        ((60.0, "late"), "sent nothing for 2 s"),
    ],
)
def test_a_run_that_fails_ends_its_turn_and_the_next_one_works(answer: tuple[object, ...], error: str) -> None:
    flow = Echo(*answer)
    talk = Talk(flow)
    talk.caller.says("hello there", 0.5, 1.5)

    async def scenario(session: AgentSession[None]) -> None:
        await anyio.sleep(5.0)
        flow.answer = ()
        talk.caller.says("again", 5.5, 6.0)

    talk.run(scenario, until=9.0, llm_first_token=2.0)
    assert talk.outcomes == ["failed", "completed"]
    assert len(talk.errors) == 1
    assert talk.errors[0].startswith("flow: ")
    assert error in talk.errors[0]
    assert talk.messages[-1] == ("assistant", "You said again.")
    assert flow.log.count("end failed") == 1


class ReturnsText(ConversationFlow):
    def run(self, transcript: str) -> Any:
        return "hi"


class AwaitedText(ConversationFlow):
    async def run(self, transcript: str) -> Any:  # type: ignore[override]  # the mistake of the test
        return "hi"


class SyncGenerator(ConversationFlow):
    def run(self, transcript: str) -> Any:
        yield "hi"


@pytest.mark.parametrize("kind", [ReturnsText, AwaitedText])
def test_a_run_that_returns_its_text_fails_its_turn_with_the_remedy(kind: type[ConversationFlow]) -> None:
    talk = Talk(kind())
    talk.caller.says("hello there", 0.5, 1.5)
    talk.run()
    assert talk.outcomes == ["failed"]
    form = "an async generator (`async def run(self, transcript)` with `yield`)"
    assert len(talk.errors) == 1
    assert f"{kind.__name__}.run must be {form}, got a str" in talk.errors[0]


def test_a_run_that_is_a_sync_generator_is_refused_with_the_flow() -> None:
    with pytest.raises(ConfigurationError, match=r"SyncGenerator\.run must be an async generator"):
        AgentSession(Agent("Help."), CascadingPipeline(tts=ScriptedTTS()), SyncGenerator())


def test_failing_turn_hooks_are_told_and_cost_the_turn_nothing() -> None:
    class Clumsy(Echo):
        async def on_turn_start(self, transcript: str) -> None:
            raise RuntimeError("start")

        async def on_turn_end(self) -> None:
            await anyio.sleep_forever()

    talk = Talk(Clumsy())
    talk.caller.says("hello there", 0.5, 1.5)
    talk.caller.says("again", 4.0, 4.5)
    talk.run(until=12.0, hook_timeout=1.0)
    assert talk.outcomes == ["completed", "completed"]
    assert [error.partition("(")[0] for error in talk.errors] == ["hook: RuntimeError", "hook: TimeoutError"] * 2


def test_the_agent_s_hook_edits_what_the_flow_gets() -> None:
    class Tidy(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            turn.text = turn.text.upper()

    talk = Talk(Echo(), agent=Tidy("Help."))
    talk.caller.says("hello", 0.5, 1.5)
    assert talk.run().messages == [("user", "HELLO"), ("assistant", "You said HELLO.")]


def test_a_reply_is_the_model_s_and_the_caller_s_turn_the_flow_s() -> None:
    llm = ScriptedLLM("Welcome.")
    talk = Talk(Echo(), llm=llm)
    talk.caller.says("hello", 2.5, 3.0)

    async def scenario(session: AgentSession[None]) -> None:
        await session.reply("Greet the caller.")

    talk.run(scenario)
    assert [text for role, text in talk.messages] == ["Welcome.", "hello", "You said hello."]
    assert len(llm.requests) == 1


def test_a_reply_without_a_model_is_refused() -> None:
    async def scenario(session: AgentSession[None]) -> None:
        with pytest.raises(CapabilityError, match="can_reply"):
            _ = session.reply("Greet the caller.")

    Talk(Echo()).run(scenario)


def test_a_flow_that_is_exchanged_finishes_its_turn_and_is_cleaned_up_once() -> None:
    first, second = Echo("One two three four five six.", name="first"), Echo(name="second")
    talk = Talk(first, llm=ScriptedLLM("The model."))
    talk.caller.says("hello", 0.5, 1.5)
    talk.caller.says("again", 5.0, 5.5)
    talk.caller.says("and again", 8.0, 8.5)

    async def scenario(session: AgentSession[None]) -> None:
        await anyio.sleep(2.5)
        session.update_flow(second)
        session.update_flow(second)
        assert session.conversation_flow is second
        assert first.log == ["start hello", "run hello"]
        await anyio.sleep(4.5)
        session.update_flow(None)
        await anyio.sleep(0.5)
        assert second.log == ["start again", "run again", "end completed", "cleanup"]

    talk.run(scenario, until=12.0)
    assert [text for role, text in talk.messages if role == "assistant"] == [
        "One two three four five six.",
        "You said again.",
        "The model.",
    ]
    assert first.log == ["start hello", "run hello", "end completed", "cleanup"]
    assert second.log.count("cleanup") == 1


def test_flows_that_were_exchanged_are_not_kept() -> None:
    talk = Talk(Echo())
    gone: list[weakref.ref[Echo]] = []

    async def scenario(session: AgentSession[None]) -> None:
        for _ in range(5):
            flow = Echo()
            gone.append(weakref.ref(flow))
            session.update_flow(flow)
            await anyio.sleep(0.1)
        session.update_flow(None)
        del flow
        await anyio.sleep(0.1)
        gc.collect()
        assert [ref() for ref in gone] == [None] * 5

    talk.run(scenario)


def test_a_flow_and_an_agent_whose_session_is_over_say_so() -> None:
    flow, agent = Echo(), Agent("Help.")
    Talk(flow, agent=agent).run(lambda session: anyio.sleep(0.1))
    for of_session in (flow, agent):
        with pytest.raises(SessionClosedError, match="no longer in its session"):
            _ = of_session.session


def test_an_empty_answer_of_a_flow_is_an_outcome_that_the_agent_may_speak_to() -> None:
    class Caring(Agent):
        async def on_empty_reply(self, reply: EmptyReply) -> None:
            await self.session.say("I have nothing to say to that.")

    talk = Talk(Echo(0.1), agent=Caring("Help."))
    talk.caller.says("hello", 0.5, 1.5)
    talk.run()
    assert talk.outcomes == ["completed", "completed"]
    assert talk.messages == [("user", "hello"), ("assistant", "I have nothing to say to that.")]


def test_no_answer_is_begun_ahead_of_a_flow_s_turn() -> None:
    llm = ScriptedLLM(default="The model.")
    talk = Talk(Echo(), llm=llm)
    talk.caller.says("hello", 0.5, 1.5, final_at=1.4)
    talk.run()
    assert llm.requests == []
    assert talk.messages[1] == ("assistant", "You said hello.")


def test_a_flow_may_hand_the_conversation_to_another_agent() -> None:
    other = Agent("Be another.", id="other")

    class Handing(Echo):
        async def run(self, transcript: str) -> AsyncIterator[str]:
            yield "One moment."
            handoff = self.session.update_agent(other)
            with pytest.raises(SessionError, match="begins after this code"):
                await handoff

    talk = Talk(Handing())
    talk.caller.says("hello", 0.5, 1.5)
    talk.run()
    assert talk.session.agent is other
    assert talk.outcomes == ["completed"]


def test_a_cleanup_that_raises_or_hangs_is_named_in_the_report() -> None:
    class Dirty(Echo):
        async def cleanup(self) -> None:
            raise RuntimeError("no")

    report = Talk(Dirty()).run(until=1.0).report
    assert [(step.name, step.error) for step in report.steps if step.error] == [
        ("conversation_flow.cleanup", "RuntimeError")
    ]


def test_a_pipeline_that_cannot_use_a_flow_refuses_it_in_the_constructor() -> None:
    realtime = RealtimePipeline(ScriptedRealtimeModel(), vad=ScriptedVAD())
    with pytest.raises(CapabilityError, match="takes_flow.*CascadingPipeline with a tts"):
        AgentSession(Agent("x"), realtime, Echo())
    pipeline = CascadingPipeline(stt=ScriptedSTT(), tts=ScriptedTTS(), vad=ScriptedVAD())
    with pytest.raises(ConfigurationError, match="must be a ConversationFlow, got 'no flow'"):
        AgentSession(Agent("x"), pipeline, "no flow")  # type: ignore[arg-type]


def test_a_flow_serves_one_session_at_a_time_and_is_set_before_the_start_too() -> None:
    flow, unused = Echo(), Echo()

    async def main() -> None:
        clock = VirtualClock()
        options = SessionOptions(clock=clock)
        pipelines = [CascadingPipeline(stt=ScriptedSTT(), tts=ScriptedTTS(), vad=ScriptedVAD()) for _ in range(2)]
        first: AgentSession[None] = AgentSession(Agent("x"), pipelines[0], unused, options=options)
        first.update_flow(flow)
        await first.start(LocalTransport(clock))
        second: AgentSession[None] = AgentSession(Agent("x"), pipelines[1], options=options)
        await second.start(LocalTransport(clock))
        with pytest.raises(SessionError, match="one session at a time"):
            second.update_flow(flow)
        await second.close()
        await first.close()
        with pytest.raises(SessionClosedError):
            first.update_flow(None)
        with pytest.raises(SessionClosedError, match="no longer in its session"):
            _ = flow.session

    run_virtual(main())
    assert (flow.log, unused.log) == (["cleanup"], ["cleanup"])


@pytest.mark.parametrize("hook", ["on_turn_end", "cleanup"])
def test_a_hook_that_closes_the_session_does_not_hold_the_close_up(hook: str) -> None:
    class Closing(Echo):
        async def on_turn_end(self) -> None:
            await super().on_turn_end()
            if hook == "on_turn_end":
                await self.session.close()

        async def cleanup(self) -> None:
            await super().cleanup()
            if hook == "cleanup":
                await self.session.close()

    async def exchange(session: AgentSession[None]) -> None:
        await anyio.sleep(5.0)
        if hook == "cleanup":
            session.update_flow(None)
            await session.wait_closed()

    talk = Talk(Closing())
    talk.caller.says("hello", 0.5, 1.5)
    talk.run(exchange, until=8.0)
    assert talk.report.reason == "user_initiated"
    assert talk.report.seconds < 0.1
    assert [step.name for step in talk.report.steps if step.error] == []
    assert talk.flow.log == ["start hello", "run hello", "end completed", "cleanup"]  # type: ignore[union-attr]


def test_a_session_that_cannot_have_a_flow_leaves_it_to_the_one_that_has_it() -> None:
    flow = Echo()

    async def main() -> None:
        options = SessionOptions(clock=VirtualClock())
        first, second, third = (
            AgentSession[None](
                Agent("x"),
                CascadingPipeline(stt=ScriptedSTT(), tts=ScriptedTTS(), vad=ScriptedVAD()),
                flow,
                options=options,
            )
            for _ in range(3)
        )
        await first.start(LocalTransport(options.clock))
        with pytest.raises(SessionError, match="one session at a time"):
            await second.start(LocalTransport(options.clock))
        third.update_flow(None)
        await third.start(LocalTransport(options.clock))
        await third.close()
        assert flow.log == []
        assert flow.session is first
        await first.close()

    run_virtual(main())
    assert flow.log == ["cleanup"]


def test_a_flow_that_is_taken_back_before_its_turn_is_over_goes_on() -> None:
    flow = Echo("One two three four five six.")

    async def scenario(session: AgentSession[None]) -> None:
        await anyio.sleep(2.5)
        session.update_flow(None)
        session.update_flow(flow)

    talk = Talk(flow)
    talk.caller.says("hello", 0.5, 1.5)
    talk.caller.says("again", 5.0, 5.5)
    talk.run(scenario, until=10.0)
    assert talk.outcomes == ["completed", "completed"]
    assert flow.log.count("cleanup") == 1
    assert flow.log[-1] == "cleanup"

"""Scenario 26: every turn has one record; its stages sum to the silence felt and are the providers' own times."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import pytest

from kit.handoff import TRANSFER, Desk
from vivavoce.agents import Agent, AgentSession, SessionOptions, function_tool
from vivavoce.agents.events import TurnCompleted
from vivavoce.agents.records import TurnRecord
from vivavoce.agents.testing import (
    ScriptedLLM,
    ScriptedRealtimeModel,
    ScriptedSTT,
    ScriptedTTS,
    SessionHarness,
)
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.core.errors import ProviderConnectionError
from vivavoce.pipelines.llm.base import Usage
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities
from vivavoce.pipelines.testing import VirtualClock, run_virtual

LOOK_UP = ToolCall(call_id="c1", name="look_up", arguments='{"what": "my secret"}')
LONG = "one two three four five six seven eight nine ten"


class Finder(Agent):
    @function_tool
    async def look_up(self, what: str = "") -> str:
        """Look something up."""
        await anyio.sleep(0.7)
        return f"found {what}"


def stages(turn: TurnRecord) -> dict[str, float]:
    """Return the stages, in whole milliseconds' precision; they must sum to the latency."""
    assert turn.e2e_latency is not None
    assert sum(stage.seconds for stage in turn.stages) == pytest.approx(turn.e2e_latency, abs=1e-9)
    return {stage.name: round(stage.seconds, 3) for stage in turn.stages if stage.seconds >= 0.001}


def cascading(*script: object) -> SessionHarness:
    return SessionHarness(Finder("Help."), ScriptedLLM(*script), tts=ScriptedTTS(first_byte=0.2))  # type: ignore[arg-type]


def local_turns(*script: object) -> SessionHarness:
    model = ScriptedRealtimeModel(*script, capabilities=RealtimeCapabilities(turn_detection="local"))  # type: ignore[arg-type]
    return SessionHarness(Finder("Help."), model=model)


@pytest.mark.parametrize(("make", "voice"), [(cascading, {"tts_first_byte": 0.2}), (local_turns, {})])
def test_the_stages_of_a_turn_with_a_tool_sum_and_are_the_scripted_times(
    make: Callable[..., SessionHarness], voice: dict[str, float]
) -> None:
    harness = make([0.1, LOOK_UP], [0.3, "Found."])
    harness.caller.says("where is it", 0.5, 2.5)
    harness.run(until=8.0)
    (turn,) = harness.session.turns
    assert {
        "vad_silence": 0.2,
        "endpointing_wait": 0.2,
        "model_first_token": 0.4,
        "tools": 0.7,
        **voice,
    } == stages(turn)
    assert turn.e2e_latency == pytest.approx(harness.played[0].start - 2.5, abs=1e-6)
    (tool,) = turn.tools
    assert (tool.call_id, round(tool.started_at, 6), round(tool.seconds, 6)) == ("c1", 3.0, 0.7)


def test_the_stages_of_a_turn_that_a_server_ends_have_names_of_their_own() -> None:
    model = ScriptedRealtimeModel()
    harness = SessionHarness(Finder("Help."), model=model)
    harness.caller.says("hello there", 0.5, 2.5, final_at=2.7)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(2.9)
        model.start_reply([0.3, "Hi."])

    harness.run(scenario, until=6.0)
    (turn,) = harness.session.turns
    # the session's own VAD reports the speech, but the server does not wait for it
    assert stages(turn) == {"server_end_of_turn": 0.4, "server_first_output": 0.3}
    assert {stage.owner for stage in turn.stages} == {"provider"}
    assert turn.ended_by == "remote_reply"
    assert turn.waits == ()
    assert turn.llm_first_token == pytest.approx(0.3)


def test_the_silence_that_the_server_waits_for_is_a_stage_where_it_alone_hears_the_user() -> None:
    from vivavoce.pipelines.realtime import RealtimePipeline

    model = ScriptedRealtimeModel()
    harness = SessionHarness(Finder("Help."), model=model, pipeline=RealtimePipeline(model))

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(0.6)
        model.speech_started(0.1)
        await harness.until(3.0)
        model.speech_ended(0.5)
        await harness.until(3.1)
        model.start_reply([0.3, "Hi."])

    harness.run(scenario, until=6.0)
    (turn,) = harness.session.turns
    assert stages(turn) == {"server_vad_silence": 0.5, "server_end_of_turn": 0.1, "server_first_output": 0.3}
    assert [turn.user_started_at, turn.user_ended_at] == pytest.approx([0.5, 2.5])


def test_the_turn_that_hands_off_sums_up_to_what_the_new_agent_says_first() -> None:
    desk = Desk([TRANSFER], ["Billing here."], enters="Hello from billing.").asked()
    desk.harness.run(until=10.0)
    turn = next(record for record in desk.harness.session.turns if record.kind == "turn")
    assert "handoff" in stages(turn)
    assert turn.handoffs[0].new == "billing"
    assert turn.agent_id == "front"
    assert next(record for record in desk.harness.session.turns if record.kind == "say").agent_id == "billing"


def test_what_the_configured_waits_cost_is_told_by_option() -> None:
    harness = cascading([0.1, "Hi."])
    harness.caller.says("hello there", 0.5, 2.5, final_at=2.75)
    harness.run(until=6.0)
    (turn,) = harness.session.turns
    assert [(wait.option, wait.configured, round(wait.seconds, 6)) for wait in turn.waits] == [
        ("vad.min_silence", 0.2, 0.2),
        ("endpointing.min_delay", 0.4, 0.15),
    ]
    times = [turn.user_started_at, turn.user_ended_at, turn.committed_at, turn.first_audio_at]
    assert times == pytest.approx([0.5, 2.5, 2.9, 3.2], abs=1e-6)
    assert (turn.session_id, turn.speech_id) == (harness.session.id, "answer_1")


@pytest.mark.parametrize("make", [cascading, local_turns])
def test_an_interruption_is_told_with_its_candidate_its_silence_and_what_was_heard(
    make: Callable[..., SessionHarness],
) -> None:
    harness = make([0.1, LONG], [0.1, "Yes?"])
    harness.caller.says("count please", 0.5, 1.5)
    harness.caller.says("wait stop", 3.0, 3.6, final_at=3.8)
    harness.run(until=8.0)
    turn = harness.session.turns[0]
    (cut,) = turn.interruptions
    assert (cut.by, cut.policy, cut.decision) == ("voice", "pause", "interrupted")
    assert cut.candidate_at == pytest.approx(3.0)
    assert cut.paused_at == pytest.approx(3.5, abs=0.02)  # at min_duration
    assert cut.decided_at == pytest.approx(3.8, abs=0.02)  # with the words
    assert cut.stopped_at == pytest.approx(3.55, abs=0.02)  # its fade included
    assert turn.first_audio_at is not None
    assert cut.heard_position == pytest.approx(3.5 - turn.first_audio_at, abs=0.03) == turn.played_seconds
    assert turn.generated_seconds == pytest.approx(2.0, abs=0.05)
    assert turn.heard_text
    assert LONG.startswith(turn.heard_text)


def test_a_false_interruption_is_told_too_and_so_is_who_cut_the_agent() -> None:
    harness = cascading([0.1, LONG])
    harness.caller.says("count please", 0.5, 1.5)
    harness.caller.makes_noise(2.5, 3.2)

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(4.6)
        await harness.session.interrupt()

    harness.run(scenario, until=6.0)
    false, cut = harness.session.turns[0].interruptions
    assert (false.by, false.decision, cut.by, cut.policy, cut.decision) == (
        "voice",
        "resumed",
        "request",
        "",
        "interrupted",
    )
    assert cut.candidate_at is None
    assert cut.paused_at is None
    assert cut.decided_at == pytest.approx(4.6, abs=0.01)
    assert cut.stopped_at == pytest.approx(4.65, abs=0.02)
    assert false.decided_at > (false.paused_at or 9.9)


def test_retries_and_usage_are_counted_in_the_turn_that_caused_them() -> None:
    lost = ProviderConnectionError("the line is down", provider="scripted")
    used = Usage(input_tokens=11, output_tokens=3)
    harness = cascading([lost], ["Hi there.", used], ["Bye.", Usage(input_tokens=5)])
    harness.caller.says("hello there", 0.5, 1.5)
    harness.caller.says("bye then", 4.0, 5.0)
    harness.run(until=9.0)
    first, second = harness.session.turns
    (retry,) = first.retries
    assert (retry.provider, retry.attempt) == ("scripted", 1)
    assert "the line is down" in retry.error
    assert (first.usage.llm_input_tokens, first.usage.llm_output_tokens) == (11, 3)
    assert (second.usage.llm_input_tokens, second.retries) == (5, ())
    assert first.usage.tts_characters == len("Hi there.")
    assert harness.session.usage.llm_input_tokens == 16
    assert harness.session.usage.tts_audio_seconds == pytest.approx(
        first.usage.tts_audio_seconds + second.usage.tts_audio_seconds
    )


def test_every_speech_has_one_record_whatever_becomes_of_it() -> None:
    harness = cascading([0.1, ValueError("no")], [5.0, "Late."])

    async def scenario(harness: SessionHarness) -> None:
        session = harness.session
        await session.say("Hello there.")
        unasked = session.reply(" ")
        running = session.reply("Count.")
        second = session.reply("Count.")  # while one runs
        await running
        left = [session.say("never heard"), session.reply("too late", when_busy="queue")]
        assert (unasked.outcome, len(left)) == ("discarded", 2)
        await second
        assert second.outcome == "discarded"

    harness.run(scenario)
    found = sorted((turn.kind, turn.outcome) for turn in harness.session.turns)
    assert found == [
        ("reply", "cancelled"),
        ("reply", "discarded"),
        ("reply", "discarded"),
        ("reply", "failed"),
        ("say", "cancelled"),
        ("say", "completed"),
    ]
    told = [event.record for event in harness.recording.of(TurnCompleted)]
    assert told == list(harness.session.turns)
    assert len({turn.turn_id for turn in told}) == len(told)


def test_records_hold_no_content_unless_asked_to() -> None:
    async def call(captures: bool) -> AgentSession[None]:
        clock, stt = VirtualClock(), ScriptedSTT()
        llm = ScriptedLLM([LOOK_UP], ["That is a secret."])
        pipeline = SessionHarness.pipeline_of(llm, stt, ScriptedTTS())
        options = SessionOptions(clock=clock, capture_content=captures)
        session = AgentSession[None](Finder("Secret orders."), pipeline, options=options)
        async with session:
            await session.start(LocalTransport(clock))
            session.input.text("a secret question")
            await anyio.sleep(5.0)
        return session

    silent = run_virtual(call(False))
    (turn,) = silent.turns
    assert "secret" not in str(silent.report().to_json()).lower()
    assert (turn.outcome, turn.tools[0].name, turn.usage.tts_characters > 0) == ("completed", "look_up", True)
    open_report = str(run_virtual(call(True)).report().to_json())
    assert all(text in open_report for text in ("a secret question", "my secret", "That is a secret."))

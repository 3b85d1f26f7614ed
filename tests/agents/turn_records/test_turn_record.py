"""TurnRecordBuilder: stages without gaps that sum to the latency."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.agents.records import ToolRecord
from vivavoce.agents.turn.effects import Cause, TurnTiming
from vivavoce.agents.turn_records.interruptions import AgentAt
from vivavoce.agents.turn_records.parts import PlayedStep
from vivavoce.agents.turn_records.turn_record import TurnFrame, TurnRecordBuilder

NAMES = ["hook", "model_first_token", "first_sentence", "tts_first_byte", "tools", "queue"]


def timing(**times: float | None) -> TurnTiming:
    known: dict[str, float | None] = {"end_reported_at": None, "final_at": None, "predicted_at": None, **times}
    return TurnTiming(**known)  # type: ignore[arg-type]  # the two that are not optional are in `times`


def builder() -> TurnRecordBuilder:
    return TurnRecordBuilder("turn_1", "turn", frame=TurnFrame(session_start=100.0), now=103.0)


def test_a_turn_is_cut_into_stages_from_the_true_end_of_speech_to_the_first_frame() -> None:
    record = builder()
    record.committed(timing(speech_ended_at=102.5, end_reported_at=102.7, final_at=102.8, committed_at=102.9), "hello")
    record.mark("model_first_token", "provider", 103.0)
    record.mark("tts_first_byte", "provider", 103.2)
    record.played(103.2)
    built = record.build("completed", 105.2)
    assert built.e2e_latency == pytest.approx(0.7)
    assert [(stage.name, stage.owner, round(stage.seconds, 6)) for stage in built.stages] == [
        ("vad_silence", "config", 0.2),
        ("transcript_wait", "provider", 0.1),
        ("endpointing_wait", "config", 0.1),
        ("model_first_token", "provider", 0.1),
        ("tts_first_byte", "provider", 0.2),
    ]
    assert (round(built.started_at, 6), round(built.ended_at, 6)) == (2.5, 5.2)


def test_a_final_before_the_end_of_speech_costs_nothing() -> None:
    record = builder()
    record.committed(timing(speech_ended_at=102.5, end_reported_at=102.7, final_at=102.3, committed_at=102.9), "x")
    record.played(103.0)
    assert "transcript_wait" not in {stage.name for stage in record.build("completed", 104.0).stages}


def test_stages_of_one_name_add_up_and_what_comes_after_the_first_frame_does_not_count() -> None:
    record = builder()
    record.committed(timing(speech_ended_at=102.0, committed_at=102.4), "x")
    record.mark("model_first_token", "provider", 102.5)
    record.mark("tools", "user_code", 103.0)
    record.mark("model_first_token", "provider", 103.2)
    record.played(103.2)
    record.mark("tts_first_byte", "provider", 104.0)
    record.played(104.5)
    built = record.build("completed", 105.0)
    found = {stage.name: round(stage.seconds, 6) for stage in built.stages}
    assert found == {"endpointing_wait": 0.4, "model_first_token": 0.3, "tools": 0.5}
    assert built.e2e_latency == pytest.approx(1.2)


def test_a_turn_that_was_never_heard_has_no_latency_and_no_stages() -> None:
    record = builder()
    record.committed(timing(speech_ended_at=102.0, committed_at=102.4), "x")
    record.mark("model_first_token", "provider", 102.5)
    built = record.build("failed", 103.0)
    assert built.e2e_latency is None
    assert built.stages == ()


def test_what_goes_by_before_a_provider_is_asked_is_not_booked_to_it() -> None:
    record = builder()
    record.committed(timing(speech_ended_at=102.0, committed_at=102.4), "x")
    record.mark("queue", "runtime", 102.4)
    record.mark("unattributed", "runtime", 107.4)  # the model is asked
    record.mark("model_first_token", "provider", 107.5)
    record.played(107.5)
    found = {(stage.name, stage.owner): round(stage.seconds, 6) for stage in record.build("completed", 108.0).stages}
    assert found == {
        ("endpointing_wait", "config"): 0.4,
        ("unattributed", "runtime"): 5.0,
        ("model_first_token", "provider"): 0.1,
    }


def test_speech_that_answers_no_user_has_no_latency() -> None:
    record = TurnRecordBuilder("speech_1", "say", frame=TurnFrame(session_start=100.0), now=103.0)
    record.mark("tts_first_byte", "provider", 103.2)
    record.played(103.2)
    built = record.build("completed", 104.0)
    assert built.e2e_latency is None
    assert built.started_at == pytest.approx(3.0)


def test_a_record_is_plain_json_and_its_repr_has_no_content() -> None:
    record = builder()
    record.committed(timing(speech_ended_at=102.0, committed_at=102.4), "secret question")
    record.agent_text.append("secret answer")
    record.heard_text.append("secret")
    record.add_tool(ToolRecord(name="book", arguments="secret", output="secret", is_error=False, seconds=0.1))
    built = record.build("completed", 103.0)
    assert "secret" not in repr(built)
    assert json.loads(json.dumps(built.to_json()))["user_text"] == "secret question"


@given(
    st.lists(st.tuples(st.sampled_from(NAMES), st.floats(-1.0, 10.0)), max_size=12),
    st.floats(0.0, 10.0),
)
def test_stages_always_sum_to_the_latency(marks: list[tuple[str, float]], played: float) -> None:
    record = builder()
    record.committed(timing(speech_ended_at=102.5, end_reported_at=102.7, committed_at=102.9), "x")
    at = 102.9
    for name, step in marks:  # a clock that stumbles must not make a stage negative
        record.mark(name, "provider", at + step)
        at = max(at, at + step)
    record.played(at + played)
    built = record.build("completed", at + played + 1.0)
    assert built.e2e_latency is not None
    assert sum(stage.seconds for stage in built.stages) == pytest.approx(built.e2e_latency, abs=1e-9)
    assert all(stage.seconds > 0 for stage in built.stages)


def test_a_speech_that_is_cut_behind_the_sound_before_it_has_an_empty_playout() -> None:
    record = TurnRecordBuilder("speech_1", "say", frame=TurnFrame(session_start=100.0), now=103.0)
    record.played(103.04)
    record.build("cancelled", 103.01)
    assert record.parts.playouts == [PlayedStep(103.01, 103.01, is_cut=True)]


def test_each_step_of_a_speech_has_its_playout_and_one_that_is_taken_back_has_none() -> None:
    record = TurnRecordBuilder("speech_1", "say", frame=TurnFrame(session_start=100.0), now=103.0)
    record.played(103.5)
    record.step_played(104.0)
    record.played(105.0)
    record.taken_back(105.0)
    record.played(106.0)
    record.step_played(107.0)
    record.build("completed", 107.0)
    assert record.parts.playouts == [PlayedStep(103.5, 104.0), PlayedStep(106.0, 107.0)]


def test_a_hold_that_nothing_decided_ends_with_its_speech() -> None:
    record = TurnRecordBuilder("speech_1", "say", frame=TurnFrame(session_start=100.0), now=103.0)
    record.played(103.5)
    agent = AgentAt(104.0, 104.05, is_audible=True, speaking_since=102.0)
    record.interruptions.held(Cause("voice", 102.0), agent)
    assert record.build("failed", 105.0).interruptions == ()
    (hold,) = record.parts.interruptions
    assert (hold.began_at, hold.ended_at, hold.outcome, hold.latency) == (103.0, 105.0, "interrupted", 1.0)

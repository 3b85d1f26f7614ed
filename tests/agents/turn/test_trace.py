"""Traces: all inputs and effects of a machine come back from plain data, and a replay finds the first difference."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import Any, get_args

import pytest

from vivavoce.agents.states import AgentState
from vivavoce.agents.turn import effects as fx
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.machine import TurnMachine
from vivavoce.agents.turn.options import InterruptionOptions, TurnOptions
from vivavoce.agents.turn.policy import Decision, InterruptionMoment
from vivavoce.agents.turn.trace.codec import opaque_parts
from vivavoce.agents.turn.trace.record import (
    TURN,
    RecordedMachine,
    TraceStep,
    end_line,
    header_line,
    step_line,
)
from vivavoce.agents.turn.trace.replay import Trace, read_trace, replay
from vivavoce.pipelines.core.errors import TraceError

OPTIONS = TurnOptions(interruption=InterruptionOptions(backchannels=frozenset({"mhm", "ok"}), max_pause=None))


def lines(*told: tuple[float, i.TurnInput], options: TurnOptions = OPTIONS, end: str = "closed") -> list[str]:
    """Return the trace of a machine that receives these inputs."""
    steps: list[TraceStep] = []
    machine = RecordedMachine(options, steps.append)
    for now, event in told:
        machine.handle(event, now=now)
    written = [header_line(options, session_id="session_1", version="0.1.0", began_at=7.5), *map(step_line, steps)]
    return [*written, end_line(end)] if end else written


CALL: tuple[tuple[float, i.TurnInput], ...] = (
    (1.1, i.SessionStarting()),
    (1.2, i.SessionStarted()),
    (2.05, i.UserSpeechStarted(2.0)),
    (3.2, i.UserSpeechEnded(3.0)),
    (3.2, i.UserFinal(text='für "zwei"\n', item_id="a")),
    (3.4, i.Tick()),
    (9.0, i.SessionClosing()),
    (9.0, i.SessionClosed()),
)


def changed(line: str, change: Callable[[dict[str, Any]], object]) -> str:
    plain = json.loads(line)
    change(plain)
    return json.dumps(plain) + "\n"


# --- values


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        3,
        0.1 + 0.2,
        math.inf,
        "text \u2028 ü",
        (1, ("a", 2.0)),
        [1, [2]],
        frozenset({"b", "a"}),
        {("a", 1): [True]},
        AgentState.SPEAKING,
        fx.SetAgentState(AgentState.IDLE, AgentState.LISTENING, 1.5),
        OPTIONS,
    ],
    ids=repr,
)
def test_a_value_comes_back_from_json_as_it_was(value: object) -> None:
    back = TURN.decode(json.loads(json.dumps(TURN.encode(value), allow_nan=False)))
    assert back == value
    assert type(back) is type(value)


def test_every_input_and_effect_is_known_with_all_that_it_is_made_of() -> None:
    known = TURN.types
    for kind in (*get_args(i.TurnInput), *get_args(fx.Effect), TurnOptions, fx.TurnTiming, AgentState):
        assert known[kind.__name__] is kind
    assert {"name": "encode"}.get("name") not in known


def test_what_cannot_come_back_is_named_with_its_place() -> None:
    class Mood(Enum):
        GOOD = 1

    @dataclass(frozen=True)
    class Policy:
        limit: int

    def decides(text: str) -> bool:
        return not text

    plain = TURN.encode(({"policy": [Policy(1)]}, decides, Mood.GOOD, b"x"))
    assert opaque_parts(plain, "options") == [
        f"options[0][0][1][0]: {Policy.__module__}.{Policy.__qualname__}",
        f"options[1]: function {decides.__module__}.{decides.__qualname__}",
        f"options[2]: {Mood.__module__}.{Mood.__qualname__}",
        "options[3]: builtins.bytes",
    ]
    with pytest.raises(TraceError, match="which a trace can only name"):
        TURN.decode(plain)


def test_a_class_that_does_not_exist_is_refused() -> None:
    with pytest.raises(TraceError, match="got 'UserSang'; the trace is of another version"):
        TURN.decode({"is": "UserSang", "text": "la"})
    with pytest.raises(TraceError, match="got None"):
        TURN.decode({"text": "la"})


def test_fields_that_a_class_does_not_have_or_refuses_are_named() -> None:
    with pytest.raises(TraceError, match=r"cannot make a Tick of \['at'\]"):
        TURN.decode({"is": "Tick", "at": 1.0})
    with pytest.raises(TraceError, match="need max_errors >= 1"):
        TURN.decode({"is": "TurnOptions", "max_errors": 0})


# --- recording and replaying


def test_a_recorded_machine_decides_as_one_that_is_not() -> None:
    plain, recorded = TurnMachine(OPTIONS), RecordedMachine(OPTIONS, lambda step: None)
    for now, event in CALL:
        assert plain.handle(event, now=now) == recorded.handle(event, now=now)


def test_the_first_line_says_what_the_trace_is_of() -> None:
    trace = read_trace(lines(*CALL))
    assert (trace.session_id, trace.version, trace.began_at, trace.end) == ("session_1", "0.1.0", 7.5, "closed")
    assert TURN.decode(trace.options) == OPTIONS
    assert trace.not_replayable == ()


def test_words_stand_in_a_line_as_they_were_said_whatever_their_script() -> None:
    (line,) = [line for line in lines((1.0, i.UserFinal(text="für 二"))) if "UserFinal" in line]
    assert "für 二" in line


@pytest.mark.parametrize("number", [math.nan, math.inf])
def test_a_time_for_which_json_has_no_number_makes_no_line(number: float) -> None:
    with pytest.raises(ValueError, match="JSON"):
        header_line(OPTIONS, session_id="session_1", version="0.1.0", began_at=number)
    with pytest.raises(ValueError, match="JSON"):
        step_line(TraceStep(now=number, event=i.Tick(), effects=(), deadline=None))


def test_a_replay_wants_the_same() -> None:
    trace = read_trace(lines(*CALL))
    assert [step.event["is"] for step in trace.steps] == [type(event).__name__ for _, event in CALL]
    assert any(effect["is"] == "CommitUserTurn" for step in trace.steps for effect in step.effects or [])
    assert replay(trace) is None


def test_the_first_step_that_wants_something_else_is_found() -> None:
    written = lines(*CALL)
    written[6] = changed(written[6], lambda plain: plain["effects"][0].update(text="another"))
    difference = replay(read_trace(written))
    assert difference is not None
    assert (difference.step.line, difference.what) == (7, "effects")
    assert difference.recorded[0]["text"] == "another"
    assert difference.replayed[0]["text"] == 'für "zwei"\n'


def test_another_deadline_is_a_difference_too() -> None:
    written = lines(*CALL)
    written[5] = changed(written[5], lambda plain: plain.update(deadline=99.0))
    difference = replay(read_trace(written))
    assert difference is not None
    assert (difference.what, difference.recorded, difference.replayed) == ("deadline", 99.0, 3.4)


class Broken(TurnMachine):
    """Raises at the second input; represents a bug."""

    calls = 0

    def handle(self, event: i.TurnInput, *, now: float) -> list[fx.Effect]:
        self.calls += 1
        if self.calls == 2:
            raise AssertionError("a bug")
        return super().handle(event, now=now)


class RecordedBroken(RecordedMachine, Broken):
    """The same, recorded."""


def test_an_input_that_made_the_machine_raise_is_recorded_and_raises_again(monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[TraceStep] = []
    machine = RecordedBroken(OPTIONS, steps.append)
    machine.handle(i.SessionStarting(), now=1.0)
    with pytest.raises(AssertionError, match="a bug"):
        machine.handle(i.SessionStarted(), now=2.0)
    machine.handle(i.SessionClosing(), now=3.0)
    assert [step.effects is None for step in steps] == [False, True, False]
    trace = read_trace([header_line(OPTIONS, session_id="s", version="", began_at=0.0), *map(step_line, steps)])
    mended = replay(trace)
    assert mended is not None
    assert (mended.step.line, mended.recorded, mended.replayed[0]["is"]) == (3, None, "SetAgentState")
    monkeypatch.setattr("vivavoce.agents.turn.trace.replay.TurnMachine", Broken)
    assert replay(trace) is None
    sound = read_trace(lines(*CALL))
    broken = replay(sound)
    assert broken is not None
    assert (broken.step.line, broken.replayed, broken.error) == (3, None, "AssertionError: a bug")


def test_a_trace_whose_options_are_only_named_is_read_and_not_replayed() -> None:
    words: Any = len
    options = replace(OPTIONS, interruption=replace(OPTIONS.interruption, backchannels=words))
    header = header_line(options, session_id="s", version="0.1.0", began_at=0.0)
    trace = read_trace([header, *lines(*CALL)[1:]])
    assert len(trace.steps) == len(CALL)
    assert trace.not_replayable == ("options.interruption.backchannels: builtin_function_or_method builtins.len",)
    with pytest.raises(TraceError, match=r"it only names options\.interruption\.backchannels"):
        replay(trace)


class Never:
    """An application's policy: a word of its own for the machine."""

    def decide(self, moment: InterruptionMoment, /) -> Decision:
        return "ignore"


def test_a_policy_that_comes_with_an_agent_makes_the_trace_not_replayable_and_is_named_by_its_line() -> None:
    own = i.TurnOptionsChanged(endpointing=OPTIONS.endpointing, interruption=InterruptionOptions(mode=Never()))
    trace = read_trace(lines(*CALL[:2], (1.5, own), *CALL[2:]))
    assert len(trace.steps) == len(CALL) + 1
    (named,) = trace.not_replayable
    assert named == f"line 4: input.interruption.mode: {Never.__module__}.Never"
    with pytest.raises(TraceError, match=r"cannot be replayed; it only names line 4: input\.interruption\.mode"):
        replay(trace)


def test_a_trace_of_other_rules_keeps_their_fingerprint_and_is_replayed_all_the_same() -> None:
    for told in ("000000000000", ""):
        header = header_line(OPTIONS, session_id="s", version="0.1.0", began_at=0.0, rules=told)
        trace = read_trace([header, *lines(*CALL)[1:]])
        assert trace.rules == told
        assert replay(trace) is None


def test_an_input_that_is_unknown_is_named_by_its_line() -> None:
    written = lines(*CALL)
    written[3] = changed(written[3], lambda plain: plain["input"].update({"is": "UserSang"}))
    with pytest.raises(TraceError, match="line 4 cannot be replayed: needed a class of the turn machine"):
        replay(read_trace(written))


# --- reading incomplete traces


def check_prefix(trace: Trace, count: int) -> None:
    assert len(trace.steps) == count
    assert trace.end == ""
    assert replay(trace) is None


def test_a_trace_without_an_end_is_read_as_far_as_it_goes() -> None:
    trace = read_trace(lines(*CALL, end=""))
    check_prefix(trace, len(CALL))
    assert (trace.cut_line, trace.damaged_line) == (0, 0)


def test_a_last_line_that_was_cut_off_is_told() -> None:
    written = lines(*CALL, end="")
    trace = read_trace([*written[:-1], written[-1][:20]])
    check_prefix(trace, len(CALL) - 1)
    assert (trace.cut_line, trace.damaged_line) == (len(written), 0)


@pytest.mark.parametrize(
    "line", ["{oops", "[]", '{"at": "noon"}', '{"at": 1.0, "input": {"is": "Tick"}, "effects": [3], "deadline": null}']
)
def test_behind_a_damaged_line_nothing_is_read(line: str) -> None:
    written = lines(*CALL)
    trace = read_trace([*written[:4], "\n", line, *written[4:]])
    check_prefix(trace, 3)
    assert (trace.cut_line, trace.damaged_line) == (0, 6)


@pytest.mark.parametrize("text", ["", "\n", "hello", "[]", "{}", '{"trace": "another"}'])
def test_what_is_no_trace_is_refused(text: str) -> None:
    with pytest.raises(TraceError, match="this is no trace"):
        read_trace([text])


def test_a_trace_of_another_format_is_refused() -> None:
    written = lines(*CALL)
    with pytest.raises(TraceError, match=r"needed a trace of format 1 to 3, got 9; .* that wrote it, 0\.1\.0"):
        read_trace([changed(written[0], lambda plain: plain.update(format=9))])
    with pytest.raises(TraceError, match="got None; .* of unknown version"):
        read_trace(['{"trace": "vivavoce"}'])


def test_a_trace_of_the_older_format_is_read_and_not_replayed() -> None:
    written = lines(*CALL)
    trace = read_trace([changed(written[0], lambda plain: plain.update(format=1)), *written[1:]])
    assert len(trace.steps) == len(CALL)
    with pytest.raises(TraceError, match=r"can be shown and not replayed: needed format 3, got 1.* wrote it, 0\.1\.0"):
        replay(trace)


def test_options_have_a_plain_form_field_by_field() -> None:
    plain = TURN.encode(TurnOptions())
    assert isinstance(plain, dict)
    assert set(plain) == {"is", *(field.name for field in fields(TurnOptions))}

"""Options name their need: a value that is no number, switch or object of its kind causes one kind of error."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vivavoce.agents import BackgroundAudioConfig, ContextWindow, SessionOptions
from vivavoce.agents.speech.limits import SpeechLimits
from vivavoce.agents.turn.options import EndpointingOptions, InterruptionOptions, TurnOptions, WakeUp
from vivavoce.agents.turn.policy import Decision, InterruptionMoment
from vivavoce.pipelines.core.checks import (
    check_choice,
    check_flag,
    check_instance,
    check_number,
    check_text,
    check_whole,
)
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.retry import RetryOptions
from vivavoce.pipelines.vad.base import VADOptions

OPTIONS: list[Callable[..., Any]] = [
    EndpointingOptions,
    InterruptionOptions,
    TurnOptions,
    SpeechLimits,
    SessionOptions,
    VADOptions,
    lambda **given: WakeUp(**{"after": 1.0, **given}),
    lambda **given: BackgroundAudioConfig("x.wav", **given),
    lambda **given: ContextWindow(**{"max_items": 1, **given}),
]


def made_of_numbers() -> list[tuple[Callable[..., Any], str]]:
    """Every field of every option class whose default is a number or a bool, with its class."""
    found = []
    for make in OPTIONS:
        options = make()
        found += [
            (make, field.name)
            for field in dataclasses.fields(options)
            if isinstance(getattr(options, field.name), int | float)
        ]
    return found


@pytest.mark.parametrize(("make", "name"), made_of_numbers())
@pytest.mark.parametrize("value", [math.nan, "no", None, [1.0]])
def test_no_field_of_numbers_or_switches_takes_anything_else(
    make: Callable[..., Any], name: str, value: object
) -> None:
    allows_none = name in ("max_pause", "away_after", "max_turn_words", "max_turn_duration", "max_items", "max_tokens")
    if value is None and allows_none:
        return
    with pytest.raises(ConfigurationError, match=name.split("_")[0]):
        make(**{name: value})


def test_the_fields_looked_at_are_those_of_turns_speech_and_sessions() -> None:
    names = {name for _, name in made_of_numbers()}
    assert {"preemptive", "enabled", "min_delay", "max_tool_steps", "threshold", "after", "volume"} <= names


class Patient:
    def decide(self, moment: InterruptionMoment) -> Decision:
        return moment.default


@pytest.mark.parametrize("options", [{"mode": Patient}, {"backchannels": {"mhm"}}])
def test_policies_are_objects_that_can_be_asked(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="got"):
        InterruptionOptions(**options)
    assert isinstance(InterruptionOptions(mode=Patient()).mode, Patient)


@pytest.mark.parametrize("waits", [(math.nan,), ("1",), [0.1], (-1.0,)])
def test_waits_are_a_tuple_of_numbers(waits: Any) -> None:
    with pytest.raises(ConfigurationError, match="waits"):
        RetryOptions(waits=waits)


@pytest.mark.parametrize(
    "options",
    [{"apology": None}, {"clock": object()}, {"trace_path": 3}, {"endpointing": EndpointingOptions}],
    ids=str,
)
def test_a_session_says_which_of_its_options_is_of_the_wrong_kind(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        SessionOptions(**options)


def test_numbers_of_numpy_are_numbers_and_infinity_is_one() -> None:
    check_number("seconds", np.float32(0.5), above=0)
    check_number("seconds", math.inf, above=0)
    check_whole("count", np.int64(3), at_least=3)


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (lambda: check_number("a", 0, above=0, unit="s"), "need a > 0 (s), got 0"),
        (lambda: check_number("a", -1, at_least=0, or_none=True, remedy="ask"), "need a >= 0 or None, got -1; ask"),
        (lambda: check_number("a", True, at_least=0), "need a >= 0, a number, got True"),
        (lambda: check_whole("a", 1.0, at_least=1), "need a >= 1, a whole number, got 1.0"),
        (lambda: check_whole("a", True, at_least=1), "need a >= 1, a whole number, got True"),
        (lambda: check_flag("a", 1), "need a True or False, got 1"),
        (lambda: check_text("a", b"x"), "need a as a str, got b'x'"),
        (lambda: check_choice("a", "z", ("x", "y", None)), "need a 'x', 'y' or None, got 'z'"),
        (lambda: check_instance("a", int, WakeUp, or_none=True), "a must be WakeUp(…) or None, got <class 'int'>"),
    ],
)
def test_the_message_says_what_was_needed_and_what_came(check: Callable[[], None], message: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        check()
    assert str(raised.value) == message


def test_a_text_that_looks_like_a_number_is_refused_as_none() -> None:
    with pytest.raises(ConfigurationError, match=r"^need tool_timeout > 0 \(s\), a number, got '3'$"):
        SessionOptions(tool_timeout="3")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=r"^need tool_timeout > 0 \(s\), got -3$"):
        SessionOptions(tool_timeout=-3)

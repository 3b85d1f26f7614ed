"""Turn-taking with default options, and the bounds of options."""

from __future__ import annotations

import dataclasses

import pytest

from vivavoce.agents.turn.options import EndpointingOptions, InterruptionOptions, TurnOptions, WakeUp
from vivavoce.agents.turn.policy import Decision, InterruptionMoment
from vivavoce.pipelines.core.errors import ConfigurationError

DAY = 24 * 3600.0


def shown(options: object, *names: str) -> dict[str, object]:
    return {name: getattr(options, name) for name in names}


def test_the_defaults_are_those_of_a_telephone_conversation() -> None:
    assert shown(EndpointingOptions(), "mode", "min_delay", "max_delay", "transcript_timeout") == {
        "mode": "fixed",
        "min_delay": 0.4,
        "max_delay": 3.0,
        "transcript_timeout": 1.0,
    }
    interruption = shown(
        InterruptionOptions(), "enabled", "mode", "min_duration", "min_words", "false_timeout", "fade", "echo_warm_up"
    )
    assert interruption == {
        "enabled": True,
        "mode": "pause",
        "min_duration": 0.5,
        "min_words": 0,
        "false_timeout": 1.0,
        "fade": 0.05,
        "echo_warm_up": 0.0,
    }
    assert shown(InterruptionOptions(), "thinking_min_duration", "stable_interim") == {
        "thinking_min_duration": 0.3,
        "stable_interim": 0.2,
    }
    assert shown(TurnOptions(), "max_errors", "away_after", "wake_up") == {
        "max_errors": 3,
        "away_after": 15.0,
        "wake_up": None,
    }
    assert WakeUp(after=10.0) == WakeUp(after=10.0, repeat=1, backoff=1.0, then=None)


@pytest.mark.parametrize("kind", [EndpointingOptions, InterruptionOptions, TurnOptions, WakeUp])
def test_options_are_frozen_and_named(kind: type) -> None:
    options = kind(after=1.0) if kind is WakeUp else kind()
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(options, dataclasses.fields(options)[0].name, 1.0)
    with pytest.raises(TypeError, match="positional"):
        kind(1.0)


def test_a_wake_up_may_wait_for_weeks_and_not_for_a_year() -> None:
    assert WakeUp(after=30 * DAY).after == 30 * DAY
    with pytest.raises(ValueError, match="need waits below a year"):
        WakeUp(after=366 * DAY)


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_waits_that_end_before_they_begin_are_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="need away_after > 0"):
        TurnOptions(away_after=seconds)
    with pytest.raises(ValueError, match="need after > 0"):
        WakeUp(after=seconds)
    with pytest.raises(ValueError, match="need transcript_timeout > 0"):
        EndpointingOptions(transcript_timeout=seconds)
    assert TurnOptions(away_after=0.5).away_after == 0.5


@pytest.mark.parametrize("name", ["min_delay", "max_delay"])
def test_a_delay_below_nothing_is_refused_by_its_own_name(name: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"need {name} >= 0 \(s\), got -0.5"):
        EndpointingOptions(**{name: -0.5})  # type: ignore[arg-type]


def test_the_bounds_of_what_is_learned_may_be_the_delays_themselves() -> None:
    options = EndpointingOptions(mode="dynamic", min_delay=0.5, max_delay=0.5, learned=(0.5, 0.5))

    assert options.learned == (options.min_delay, options.max_delay)


def test_a_pause_may_be_limited_to_less_than_a_second() -> None:
    assert InterruptionOptions(max_pause=0.5).max_pause == 0.5


def test_a_wait_of_a_year_is_the_longest() -> None:
    assert WakeUp(after=365 * DAY).after == 365 * DAY
    with pytest.raises(ValueError, match="below a year"):
        WakeUp(after=365 * DAY + 1)


@pytest.mark.parametrize("kind", [EndpointingOptions, InterruptionOptions, TurnOptions, WakeUp])
def test_neither_nan_nor_text_is_a_number_or_a_switch(kind: type) -> None:
    needed = {"after": 1.0} if kind is WakeUp else {}
    options = kind(**needed)
    names = [f.name for f in dataclasses.fields(options) if isinstance(getattr(options, f.name), int | float)]
    assert names
    for name in names:
        for value in (float("nan"), "no"):
            with pytest.raises(ConfigurationError, match=f"need .*{name}.*got"):
                kind(**{**needed, name: value})


@pytest.mark.parametrize("learned", [(float("nan"), 1.0), (0.3,), [0.3, 1.2], (0.3, "1"), (-0.1, 1.0)])
def test_what_is_learned_lies_between_two_numbers(learned: object) -> None:
    with pytest.raises(ConfigurationError, match=r"need 0 <= learned"):
        EndpointingOptions(learned=learned)  # type: ignore[arg-type]


@pytest.mark.parametrize("part", ["endpointing", "interruption", "wake_up"])
def test_the_parts_of_the_options_are_objects_of_their_classes(part: str) -> None:
    with pytest.raises(ConfigurationError, match=f"{part} must be "):
        TurnOptions(**{part: "fast"})  # type: ignore[arg-type]


def test_a_policy_is_an_object_and_not_its_class() -> None:
    class Patient:
        def decide(self, moment: InterruptionMoment) -> Decision:
            return moment.default

    with pytest.raises(ConfigurationError, match="got the class"):
        InterruptionOptions(mode=Patient)  # type: ignore[arg-type]

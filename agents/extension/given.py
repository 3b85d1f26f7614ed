"""Checks of the values that an extension's part gives: it is an application's code."""

from __future__ import annotations

import json
from typing import Any, get_args

from vivavoce.agents.extension.extension import Attached, CloseAfter, Judges
from vivavoce.agents.records import StageOwner
from vivavoce.pipelines.core.checks import check_choice, check_number, check_text, check_whole, shown
from vivavoce.pipelines.core.errors import ConfigurationError, describe


def judges_of(attached: Attached) -> Judges:
    """Return what the part must know before an answer begins.

    Raises:
        ConfigurationError: It is none of `Judges`.
    """
    check_choice("judges", given := attached.judges, get_args(Judges))
    return given


def turn_limit_of(attached: Attached) -> float | None:
    """Return the limit of `on_turn` and `on_tool_result` in seconds, or None for the session's limit.

    Raises:
        ConfigurationError: It is no number of seconds.
    """
    check_number("turn_limit", given := attached.turn_limit, above=0, unit="s", or_none=True)
    return given


def stage_of(attached: Attached) -> tuple[str, StageOwner] | None:
    """Return name and owner of the wait for `on_turn`, or None for those of each extension.

    Raises:
        ConfigurationError: They are none.
    """
    given: Any = attached.stage
    if given is None:
        return None
    if not isinstance(given, tuple) or len(given) != 2:
        raise ConfigurationError(f'need stage as a name and owner, such as ("orders", "network"), got {shown(given)}')
    check_text("stage[0]", given[0])
    check_choice("stage[1]", given[1], get_args(StageOwner))
    return given[0], given[1]


def close_after_of(attached: Attached) -> CloseAfter:
    """Return the step of the close after which the part is closed.

    Raises:
        ConfigurationError: There is no such step.
    """
    check_choice("close_after", given := attached.close_after, get_args(CloseAfter))
    return given


def lost_writes_of(attached: Attached) -> int:
    """Return the number of the part's writes that were not made.

    Raises:
        ConfigurationError: It is no whole number.
    """
    check_whole("lost_writes", given := attached.lost_writes, at_least=0)
    return given


def check_json(key: str, data: object) -> None:
    """Check the data for a snapshot.

    Raises:
        ConfigurationError: They are not JSON.
    """
    try:
        json.dumps(data)
    except (TypeError, ValueError, RecursionError) as error:
        raise ConfigurationError(
            f"take() of the extension {key!r} needs to make JSON data, got {shown(data)}: {describe(error)}"
        ) from error

"""RoomOptions: wrong values are refused with advice, and naming the options loads no room client."""

from __future__ import annotations

import subprocess
import sys

import pytest

from vivavoce.agents.transports.options import RoomOptions
from vivavoce.pipelines.core.errors import ConfigurationError


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("participant_grace", -1.0, r"need participant_grace >= 0 \(s\), got -1.0"),
        ("audible_limit", -0.1, r"need audible_limit >= 0 \(s\), got -0.1"),
        ("publish_limit", 0.0, r"need publish_limit > 0 \(s\), got 0.0"),
        ("participant_kinds", frozenset({"human"}), r"participant_kinds must be of .*got \['human'\] too"),
        ("participant_kinds", frozenset(), "no participant could ever be linked"),
        ("input_rate", 44100, "input_rate must be one of .*got 44100"),
        ("output_rate", 11025, "output_rate must be one of .*got 11025"),
    ],
)
def test_wrong_value_is_refused_with_advice(option: str, value: object, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        RoomOptions(**{option: value})  # type: ignore[arg-type]  # wrong on purpose


def test_agents_are_not_linked_by_default() -> None:
    assert "agent" not in RoomOptions().participant_kinds


def test_naming_the_options_loads_no_room_client() -> None:
    code = (
        "import sys, vivavoce.agents.transports.options, vivavoce.agents.transports.local; "
        "print([name for name in ('livekit', 'numpy', 'aiohttp') if name in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"

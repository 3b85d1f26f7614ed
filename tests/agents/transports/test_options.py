"""RoomOptions: wrong values are refused with advice, and naming the options loads no room client."""

from __future__ import annotations

from typing import Any

import pytest

from vivavoce.agents.transports.options import AvatarOptions, RoomOptions, VideoInputOptions
from vivavoce.pipelines.core.errors import ConfigurationError


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("participant_grace", -1.0, r"need participant_grace >= 0 \(s\), got -1.0"),
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


BAD_AVATARS: list[dict[str, Any]] = [
    {"identity": ""},
    {"identity": "a", "join_limit": 0},
    {"identity": "a", "is_required": 1},
]


@pytest.mark.parametrize("bad", BAD_AVATARS, ids=str)
def test_an_avatar_that_could_not_play_is_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=list(bad)[-1]):
        AvatarOptions(**bad)


def test_an_avatar_and_video_are_given_as_their_options() -> None:
    with pytest.raises(ConfigurationError, match="avatar must be AvatarOptions"):
        RoomOptions(avatar="avatar")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="video_input must be VideoInputOptions"):
        RoomOptions(video_input="screen")  # type: ignore[arg-type]
    assert RoomOptions(video_input=True).video == VideoInputOptions()
    assert RoomOptions().video is None

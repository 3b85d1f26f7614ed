"""Turns that were committed as a guess: by an interim whose final has not come."""

from __future__ import annotations

from typing import Any

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i


def guessed(text: str = "a table", **options: Any) -> Conversation:
    """A turn committed at 2.5 by its interim."""
    talk = Conversation(**options).starts(0.5).at(1.0, i.UserInterim(text=text)).stops(1.5).until(2.5)
    assert talk.take()[0] == (2.5, "commit", "turn_1", text)
    return talk


def named(**options: Any) -> Conversation:
    """A turn committed at 2.5 by an interim of the item "one", and heard to be answered."""
    talk = Conversation(**options).starts(0.5).at(1.0, i.UserInterim(text="a table", item_id="one")).stops(1.5)
    talk.until(2.5).plays(2.6).take()
    return talk


def two_guesses(first: str, second: str, *, names: tuple[str, str] = ("", ""), is_heard: bool = True) -> Conversation:
    """Two utterances with requested ends: `first` at 1.1, `second` at 1.9. Heard answers make them two turns."""
    talk = Conversation().starts(0.5).at(1.0, i.UserInterim(text=first, item_id=names[0])).stops(1.05)
    talk.at(1.3, i.TurnCommitRequested())
    if is_heard:
        talk.plays(1.35)
    talk.starts(1.4).at(1.6, i.UserInterim(text=second, item_id=names[1])).stops(1.65).at(1.9, i.TurnCommitRequested())
    if is_heard:
        talk.plays(1.95)
    talk.take()
    return talk

"""The machine's records are small machines: each refuses an act that makes no sense in its state."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from vivavoce.agents.turn.floor.floor import Floor
from vivavoce.agents.turn.floor.speech import Speech
from vivavoce.agents.turn.user.burst import Burst
from vivavoce.agents.turn.user.turn import UserTurn
from vivavoce.agents.turn.user.user_side import UserSide


def closed_turn() -> UserTurn:
    turn = UserTurn("turn_1", 1.0, segments=["hello"])
    turn.close(2.0)
    return turn


def ended_burst() -> Burst:
    burst = Burst(1.0)
    burst.end(2.0, 2.2)
    return burst


def speaking() -> Speech:
    speech = Floor([]).add("talk", "say", asked_at=0.5)
    speech.take_floor()
    speech.sound(1.0)
    return speech


def side_with_turn() -> UserSide:
    return UserSide(turn=UserTurn("turn_1", 1.0), burst=Burst(1.0))


@pytest.mark.parametrize(
    "act",
    [
        lambda: closed_turn().add_final("more", 3.0),
        lambda: closed_turn().add_interim("more", 3.0, ""),
        lambda: closed_turn().add_typed("more", 3.0),
        lambda: closed_turn().end(3.0),
        lambda: closed_turn().merge(UserTurn("turn_0", 0.0).close(0.5)),
        lambda: closed_turn().close(3.0),
        lambda: UserTurn("turn_1", 1.0).trust_interim(),
        lambda: UserTurn("turn_1", 1.0).without_news(),
        lambda: UserTurn("turn_1", 1.0).join_ended(Burst(1.0)),
        lambda: ended_burst().end(3.0, 3.0),
        lambda: ended_burst().turn_to_noise(3.0),
        lambda: ended_burst().take_word(3.0),
        lambda: ended_burst().rest(3.0),
        lambda: speaking().take_floor(),
        lambda: speaking().prepare(),
        lambda: speaking().lapse(),
        lambda: speaking().sound(2.0),
        lambda: speaking().resume(),
        lambda: speaking().want_floor(),
        lambda: speaking().queue_behind(9),
        lambda: Floor([]).add("talk", "say", asked_at=0.5).finish(),
        lambda: Floor([]).add("talk", "say", asked_at=0.5).await_tools(),
        lambda: Floor([]).add("talk", "say", asked_at=0.5).stay_behind("handoff_1"),
        lambda: side_with_turn().open_turn(2.0, waits_for_request=False),
        lambda: side_with_turn().begin_speech(Burst(2.0), committed_at=None),
        lambda: UserSide().close_turn(2.0),
    ],
)
def test_an_act_that_makes_no_sense_is_refused(act: Callable[[], object]) -> None:
    with pytest.raises(AssertionError):
        act()


def test_a_turn_is_closed_with_its_facts_and_merged_from_them() -> None:
    closed = UserTurn("turn_1", 1.0, segments=["hello"], onset=0.9).close(2.0)
    turn = UserTurn("turn_2", 4.0, segments=["there"], onset=3.9)
    turn.merge(closed)
    assert (turn.turn_id, turn.text, turn.began_at, turn.onset) == ("turn_1", "hello there", 1.0, 0.9)
    assert turn.past.late_merges == 1


def test_to_have_the_floor_and_to_be_heard_are_two_facts() -> None:
    speech = speaking()
    speech.fall_silent()
    assert speech.has_floor
    assert not speech.is_playing
    assert speech.was_audible

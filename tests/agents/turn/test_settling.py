"""A step of the machine comes to an end, also if one of its rules is wrong."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.turn import Conversation
from vivavoce.agents.turn import inputs as i
from vivavoce.agents.turn.barge_in.guard import InterruptionGuard
from vivavoce.agents.turn.deadlines import Deadline
from vivavoce.agents.turn.effects import DeadlineDropped, Effect
from vivavoce.agents.turn.floor.preemption import Preemption
from vivavoce.agents.turn.settling import MOST_ACTS, MOST_GRANTS, Settling
from vivavoce.agents.turn.wake_up import WakeUps


def dropped(talk: Conversation) -> list[DeadlineDropped]:
    return [effect for effect in talk.effects if isinstance(effect, DeadlineDropped)]


def broken_rule(now: float) -> None:
    """Changes nothing; represents a bug."""


def due_at_one(_: object) -> Iterator[Deadline]:
    yield Deadline(1.0, broken_rule)


def test_a_deadline_that_changes_nothing_is_dropped_and_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(InterruptionGuard, "deadlines", due_at_one)
    talk = Conversation().until(1.0)
    assert dropped(talk) == [DeadlineDropped("broken_rule", 1.0)]
    assert talk.machine.next_deadline() is None
    talk.take()
    talk.says("hello", 1.5, 2.0).until(2.4)
    assert talk.take() == [(2.4, "commit", "turn_1", "hello"), (2.4, "grant", "answer_1")]


def test_a_dropped_deadline_is_asked_again_after_an_input_and_reported_once(monkeypatch: pytest.MonkeyPatch) -> None:
    acts: list[float] = []
    monkeypatch.setattr(InterruptionGuard, "deadlines", lambda _: iter([Deadline(1.0, acts.append)]))
    talk = Conversation().until(1.0)
    asked = len(acts)
    assert asked == 3
    talk.until(2.0)
    assert len(acts) == asked
    talk.at(2.0, i.ToolsRunning(False))
    assert len(acts) > asked
    assert len(dropped(talk)) == 1


def test_a_deadline_of_the_silence_that_changes_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(WakeUps, "deadlines", due_at_one)
    talk = Conversation().at(0.0, i.ParticipantLinked()).until(1.0)
    assert dropped(talk) == [DeadlineDropped("broken_rule", 1.0)]
    assert talk.machine.next_deadline() is None


def test_what_begins_and_ends_again_and_again_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = 0

    def restless(_: object) -> bool:
        nonlocal calls
        calls += 1
        return True

    monkeypatch.setattr(Preemption, "update", restless)
    talk = Conversation(max_attempts=1)
    assert calls == 2 * (1000 + 1)  # in each step of the beginning
    assert [effect.at for effect in dropped(talk)] == [0.0]


def test_a_deadline_acts_as_often_as_it_may_in_each_step() -> None:
    out: list[Effect] = []
    settling, acts = Settling(out), list[float]()
    deadline = Deadline(1.0, acts.append)
    for _ in range(3):
        settling.begin(is_input=True)
        for _ in range(MOST_ACTS):
            settling.act(deadline, 1.5)
    assert (acts, out) == ([1.5] * 3 * MOST_ACTS, [])
    settling.act(deadline, 1.5)
    settling.act(deadline, 1.5)
    assert len(acts) == 3 * MOST_ACTS
    assert out == [DeadlineDropped(deadline.name, 1.0)]


def test_as_much_may_begin_in_each_step() -> None:
    out: list[Effect] = []
    settling = Settling(out)
    for is_input in (False, True, False):
        settling.begin(is_input=is_input)
        assert all(settling.may_grant(1.0) for _ in range(MOST_GRANTS))
    assert out == []
    assert not settling.may_grant(1.0)
    assert len(out) == 1

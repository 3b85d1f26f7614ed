"""Restarts: how long `vivavoce dev` waits before it starts an agent's process again."""

from __future__ import annotations

from vivavoce.agents.cli.dev.restarts import MAX_PAUSE, STEADY_AFTER, Restarts


def test_each_crash_in_a_row_is_waited_for_longer_up_to_a_limit() -> None:
    restarts = Restarts()
    assert [restarts.pause(ran=0.5) for _ in range(7)] == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert MAX_PAUSE == 30.0


def test_a_process_that_ran_steadily_begins_with_the_first_pause_again() -> None:
    restarts = Restarts()
    for _ in range(4):
        restarts.pause(ran=0.5)
    assert restarts.pause(ran=STEADY_AFTER) == 1.0
    assert restarts.pause(ran=0.5) == 2.0

"""StateSender against a room that answers late, never, or with an error; time is virtual."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from vivavoce.agents.testing import run_virtual
from vivavoce.agents.transports.livekit.outbound import STATE_LIMIT, StateSender

KEY = "lk.agent.state"


class Unreliable:
    """The used part of an `rtc.LocalParticipant`; `answers` has the result of each call, then all calls succeed."""

    def __init__(self, *answers: str) -> None:
        self.attributes: dict[str, str] = {}
        self.sent: list[str] = []
        self._answers = list(answers)

    async def set_attributes(self, attributes: dict[str, str]) -> None:
        answer = self._answers.pop(0) if self._answers else "taken"
        self.sent.append(attributes[KEY])
        if answer == "refused":
            raise ConnectionError("engine is closed")
        if answer != "lost":
            self.attributes.update(attributes)
        if answer in ("lost", "answer lost"):
            await anyio.sleep_forever()


def shown(room: Unreliable, act: Callable[[StateSender], Awaitable[None]]) -> None:
    async def main() -> None:
        sender = StateSender(room)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sender.run)
            await act(sender)
            tasks.cancel_scope.cancel()

    run_virtual(main(), limit=100)


@pytest.mark.parametrize("failure", ["lost", "refused"])
def test_state_that_the_room_did_not_take_is_sent_once_more_after_a_pause(failure: str) -> None:
    async def act(sender: StateSender) -> None:
        sender.show("speaking")
        await anyio.sleep(10)

    room = Unreliable(failure)
    shown(room, act)
    assert (room.attributes, room.sent) == ({KEY: "speaking"}, ["speaking"] * 2)


def test_state_that_was_never_taken_is_given_up_with_one_warning_and_sent_at_the_next_change(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def act(sender: StateSender) -> None:
        sender.show("speaking")
        await anyio.sleep(60)
        assert room.sent == ["speaking"] * 3
        assert [record.getMessage() for record in caplog.records] == [
            "the room did not take the state 'speaking' in 3 tries: engine is closed"
        ]
        sender.show("speaking")
        await anyio.sleep(1)

    room = Unreliable(*["refused"] * 3)
    shown(room, act)
    assert room.attributes == {KEY: "speaking"}


def test_newer_state_does_not_wait_for_the_pause_after_a_failure() -> None:
    async def act(sender: StateSender) -> None:
        sender.show("thinking")
        await anyio.sleep(0.1)
        sender.show("speaking")
        await anyio.sleep(0.1)
        assert room.attributes == {KEY: "speaking"}

    room = Unreliable("refused")
    shown(room, act)


def test_state_that_the_room_shows_counts_as_taken_though_the_answer_is_lost(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def act(sender: StateSender) -> None:
        sender.show("thinking")
        sender_done = STATE_LIMIT + 0.1
        await anyio.sleep(0.1)
        sender.show("speaking")
        await anyio.sleep(sender_done)
        assert room.attributes == {KEY: "speaking"}

    room = Unreliable("answer lost")
    shown(room, act)
    assert room.sent == ["thinking", "speaking"]
    assert not caplog.records


def test_state_is_shown_again_to_a_server_that_forgot_it_while_it_was_sent() -> None:
    async def act(sender: StateSender) -> None:
        sender.show("thinking")
        await anyio.sleep(0.1)
        sender.show_again()
        await anyio.sleep(STATE_LIMIT + 0.1)

    room = Unreliable("answer lost")
    shown(room, act)
    assert room.sent == ["thinking"] * 2

"""TextSender against a room that answers late, never, or with an error; time is virtual."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal

import anyio
import pytest

from vivavoce.agents.testing import run_virtual
from vivavoce.agents.transports.livekit.outbound import SEND_LIMIT, TextSender
from vivavoce.pipelines.io import TranscriptSegment

ID, FINAL = "lk.segment_id", "lk.transcription_final"


class Unreliable:
    """The used part of an `rtc.LocalParticipant`; `answers` has the result of each step, then all steps succeed."""

    def __init__(self, *answers: str) -> None:
        self.shown: dict[str, tuple[str, str]] = {}
        """Text and final flag of each segment, as clients show it: by its newest stream."""
        self.streams = 0
        self._answers = list(answers)

    async def step(self) -> None:
        answer = self._answers.pop(0) if self._answers else "taken"
        if answer == "refused":
            raise ConnectionError("engine is closed")
        if answer == "lost":
            await anyio.sleep_forever()

    async def stream_text(self, *, topic: str, attributes: dict[str, str], sender_identity: str | None) -> Writer:
        await self.step()
        self.streams += 1
        return Writer(self, attributes)

    async def send_text(self, text: str, *, topic: str, destination_identities: list[str]) -> None:
        await self.step()
        self.streams += 1


class Writer:
    """One text stream."""

    def __init__(self, room: Unreliable, attributes: dict[str, str]) -> None:
        self._room = room
        self._attributes = attributes
        self._text = ""

    async def write(self, text: str) -> None:
        await self._room.step()
        self._text += text
        self._room.shown[self._attributes[ID]] = (self._text, "false")

    async def aclose(self, *, attributes: dict[str, str] | None = None) -> None:
        await self._room.step()
        self._room.shown[self._attributes[ID]] = (self._text, (self._attributes | (attributes or {}))[FINAL])


def sent(room: Unreliable, act: Callable[[TextSender], Awaitable[None]]) -> None:
    async def main() -> None:
        sender = TextSender(room)  # type: ignore[arg-type]  # the used part of it
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sender.run)
            await act(sender)
            tasks.cancel_scope.cancel()

    run_virtual(main(), limit=100)


def says(sender: TextSender, who: Literal["user", "agent"], text: str, *, is_final: bool) -> None:
    segment = TranscriptSegment(segment_id="s1", who=who, text=text, is_final=is_final)
    sender.add_transcript(segment, sender=None, track_sid=None)


@pytest.mark.parametrize("who", ["user", "agent"])
@pytest.mark.parametrize("step", [0, 1, 2])
@pytest.mark.parametrize("failure", ["lost", "refused"])
def test_final_words_that_the_room_did_not_take_are_sent_once_more_whole(
    who: Literal["user", "agent"], step: int, failure: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def act(sender: TextSender) -> None:
        says(sender, who, "Hello, there.", is_final=True)
        await anyio.sleep(10)

    room = Unreliable(*["taken"] * step, failure)
    sent(room, act)
    assert room.shown == {"s1": ("Hello, there.", "true")}
    assert caplog.records == []


def test_final_words_that_the_room_takes_at_no_try_are_given_up_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def act(sender: TextSender) -> None:
        says(sender, "user", "Hello, there.", is_final=True)
        await anyio.sleep(10)

    room = Unreliable("lost", "lost")
    sent(room, act)
    assert room.streams == 0
    assert [record.getMessage() for record in caplog.records] == [
        "the room did not take a transcript of the user: no answer in time"
    ]


@pytest.mark.parametrize("who", ["user", "agent"])
def test_final_words_on_their_way_to_a_room_that_goes_are_not_sent_again(who: Literal["user", "agent"]) -> None:
    async def act(sender: TextSender) -> None:
        says(sender, who, "Hello, there.", is_final=True)
        await anyio.wait_all_tasks_blocked()
        sender.drop()
        await anyio.sleep(10)

    room = Unreliable("lost")
    sent(room, act)
    assert room.streams == 0


def test_words_that_are_not_final_are_not_sent_again_since_newer_ones_come() -> None:
    async def act(sender: TextSender) -> None:
        says(sender, "agent", "Hello,", is_final=False)
        await anyio.sleep(10)
        assert room.streams == 0
        says(sender, "agent", "Hello, there.", is_final=True)
        await anyio.sleep(10)

    room = Unreliable("lost")
    sent(room, act)
    assert room.shown == {"s1": ("Hello, there.", "true")}


def test_final_words_that_are_sent_again_wait_behind_the_other_texts() -> None:
    async def act(sender: TextSender) -> None:
        says(sender, "user", "Hello, there.", is_final=True)
        sender.add_record("{}", receiver="caller")
        await anyio.sleep(SEND_LIMIT + 0.1)
        assert room.streams == 2

    room = Unreliable("lost")
    sent(room, act)


def test_a_record_that_the_room_did_not_take_is_not_sent_again_since_it_would_count_twice() -> None:
    async def act(sender: TextSender) -> None:
        sender.add_record("{}", receiver="caller")
        await anyio.sleep(10)

    room = Unreliable("lost")
    sent(room, act)
    assert room.streams == 0

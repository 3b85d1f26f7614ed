"""TextSender against a room that answers late, never, or with an error; time is virtual."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any, Literal

import anyio
import pytest
from livekit import rtc

from vivavoce.agents.testing import run_virtual
from vivavoce.agents.transports.livekit.outbound import SEND_LIMIT, TextSender
from vivavoce.agents.transports.livekit.remote import texts_arrived
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


@pytest.mark.parametrize(("speakers", "attribute"), [(("A", "B"), "A, B"), ((), None)])
def test_the_speakers_of_a_transcript_are_an_attribute_of_its_stream(
    speakers: tuple[str, ...], attribute: str | None
) -> None:
    seen: list[str | None] = []

    class Watched(Unreliable):
        async def stream_text(self, *, attributes: dict[str, str], **more: Any) -> Any:
            seen.append(attributes.get("vivavoce.speakers"))
            return await super().stream_text(attributes=attributes, **more)

    async def act(sender: TextSender) -> None:
        segment = TranscriptSegment(segment_id="s1", who="user", text="Hi.", is_final=True, speakers=speakers)
        sender.add_transcript(segment, sender=None, track_sid=None)
        await anyio.sleep(1)

    sent(Watched(), act)
    assert seen == [attribute]


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


def test_all_is_sent_when_no_text_waits() -> None:
    async def act(sender: TextSender) -> None:
        with anyio.fail_after(0.1):
            await sender.sent()
        says(sender, "agent", "Hello.", is_final=True)
        with anyio.fail_after(2 * SEND_LIMIT):
            await sender.sent()
        assert room.shown == {"s1": ("Hello.", "true")}
        says(sender, "agent", "Hello again.", is_final=True)
        sender.drop()
        with anyio.fail_after(0.1):
            await sender.sent()

    room = Unreliable("lost")
    sent(room, act)


Kind = rtc.ParticipantKind
PEOPLE = {
    "caller": Kind.PARTICIPANT_KIND_STANDARD,
    "gone": Kind.PARTICIPANT_KIND_STANDARD,
    "agent": Kind.PARTICIPANT_KIND_AGENT,
    "phone": Kind.PARTICIPANT_KIND_SIP,
    "recorder": Kind.PARTICIPANT_KIND_EGRESS,
}


class Answering:
    """The used part of an `rtc.Room` and of its local participant: clients answer calls one after the other."""

    def __init__(self) -> None:
        self.local_participant = self
        self.remote_participants = {name: SimpleNamespace(identity=name, kind=kind) for name, kind in PEOPLE.items()}
        self.answered: list[str] = []

    async def perform_rpc(self, *, destination_identity: str, method: str, payload: str) -> str:
        await anyio.sleep(0.1)
        self.answered.append(destination_identity)
        if destination_identity == "gone":
            raise ConnectionError("engine is closed")
        raise rtc.RpcError(rtc.RpcError.ErrorCode.UNSUPPORTED_METHOD, f"no {method} here")


def test_texts_have_arrived_when_each_client_has_answered_and_a_telephone_is_not_asked() -> None:
    room = Answering()

    async def main() -> None:
        with anyio.fail_after(0.15):  # all at once
            await texts_arrived(room, "agent")  # type: ignore[arg-type]  # the used part of it

    run_virtual(main(), limit=10)
    assert room.answered == ["agent", "caller", "gone"]


def test_a_large_room_is_asked_in_groups_the_caller_first() -> None:
    room = Answering()
    names = [f"listener {number}" for number in range(45)]
    room.remote_participants = {
        name: SimpleNamespace(identity=name, kind=Kind.PARTICIPANT_KIND_STANDARD) for name in [*names, "caller"]
    }

    async def main() -> None:
        with anyio.move_on_after(0.25):
            await texts_arrived(room, "caller")  # type: ignore[arg-type]  # the used part of it
            raise AssertionError("46 clients answered in two rounds of 20")

    run_virtual(main(), limit=10)
    assert room.answered[0] == "caller"
    assert len(room.answered) == 40

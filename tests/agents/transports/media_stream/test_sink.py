"""The count of what a telephone's vendor has played, against a vendor that plays in the loop's time."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from kit.telephone import Twilio, Wire
from vivavoce.agents.testing import run_virtual
from vivavoce.agents.transports.media_stream.sink import LOST_AFTER, MarkedSink
from vivavoce.agents.transports.media_stream.transport import wait_for_start
from vivavoce.agents.transports.media_stream.twilio.wire import TwilioWire
from vivavoce.agents.transports.media_stream.wire import MarkPlayed, Message
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.frame import AudioFrame

TOLERANCE = 320
"""Samples of 40 ms: a frame in the vendor's hand, and one on its way."""


class Call:
    """A sink whose messages go to a vendor, and an agent that keeps it filled."""

    def __init__(self, vendor: Twilio) -> None:
        self.vendor = vendor
        self.wire = TwilioWire()
        self.outbox: list[Message] = []
        self.sink: MarkedSink
        self.written = 0
        self.sent = anyio.Event()

    def post(self, message: Message) -> None:
        self.outbox.append(message)
        self.sent.set()

    async def carry(self) -> None:
        while True:
            await self.sent.wait()
            self.sent = anyio.Event()
            while self.outbox:
                await self.vendor.wire.send(self.outbox.pop(0))

    async def listen(self) -> None:
        while (message := await self.vendor.wire.receive()) is not None:
            for event in self.wire.receive(message):
                if isinstance(event, MarkPlayed):
                    self.sink.played(event.name)

    async def speak(self, seconds: float) -> None:
        """Write that much audio, as the playout does: never more than the lead ahead."""
        most = round(self.sink.capabilities.lead * 8000) - 160
        for _ in range(round(seconds * 50)):
            while (ahead := self.sink.queued() - most) > 0:  # noqa: ASYNC110 - time alone makes room
                await anyio.sleep(ahead / 8000)
            self.sink.write(AudioFrame(b"\x00\x10" * 160, 8000))
            self.written += 160

    @property
    def heard(self) -> int:
        return len(self.vendor.played) // 2


@asynccontextmanager
async def calling(delay: float = 0.05, **vendor: Any) -> AsyncIterator[Call]:
    call = Call(Twilio(Wire(delay), **vendor))
    call.vendor.begin()
    await wait_for_start(call.vendor.wire, call.wire)
    call.sink = MarkedSink(call.wire, call.post, LoopClock())
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(call.carry)
        tasks.start_soon(call.listen)
        tasks.start_soon(call.vendor.run)
        yield call
        tasks.cancel_scope.cancel()


@pytest.mark.parametrize("delay", [0.0, 0.02, 0.08, 0.2])
@pytest.mark.parametrize("at", [0.1, 0.73, 1.6, 3.05])
def test_a_clear_leaves_as_much_played_as_the_sink_counts(delay: float, at: float) -> None:
    async def main() -> None:
        async with calling(delay) as call:
            with anyio.move_on_after(at):
                await call.speak(10.0)
            counted = call.written - call.sink.clear()
            await anyio.sleep(1.0)
            assert abs(call.heard - counted) <= TOLERANCE
            assert call.vendor.clears == 1
            assert call.sink.queued() == 0

    run_virtual(main())


@pytest.mark.parametrize("stall", [0.15, 0.5, 2.0])
def test_a_vendor_that_stands_still_is_followed_by_its_marks(stall: float) -> None:
    async def main() -> None:
        async with calling() as call, anyio.create_task_group() as tasks:
            tasks.start_soon(call.speak, 6.0)
            await anyio.sleep(1.5)
            call.vendor.is_stalled = True
            await anyio.sleep(stall)
            call.vendor.is_stalled = False
            await anyio.sleep(1.0)
            tasks.cancel_scope.cancel()
            counted = call.written - call.sink.clear()
            await anyio.sleep(1.0)
            assert abs(call.heard - counted) <= TOLERANCE + 160

    run_virtual(main())


def test_a_clear_while_the_vendor_stands_still_counts_to_the_mark_spacing() -> None:
    async def main() -> None:
        async with calling() as call, anyio.create_task_group() as tasks:
            tasks.start_soon(call.speak, 6.0)
            await anyio.sleep(1.5)
            call.vendor.is_stalled = True
            await anyio.sleep(2.0)
            tasks.cancel_scope.cancel()
            counted = call.written - call.sink.clear()
            await anyio.sleep(1.0)
            call.vendor.is_stalled = False
            assert 0 <= counted - call.heard <= round(0.4 * 8000)  # a mark each 0.2 s, its way, its lateness

    run_virtual(main())


@pytest.mark.parametrize("returns_cleared", [True, False])
def test_marks_that_a_clear_returns_do_not_count(returns_cleared: bool) -> None:
    async def main() -> None:
        async with calling(returns_cleared=returns_cleared) as call:
            with anyio.move_on_after(1.0):
                await call.speak(5.0)
            call.sink.clear()
            first, call.written = call.heard, 0
            with anyio.move_on_after(0.9):
                await call.speak(5.0)
            counted = call.written - call.sink.clear()
            await anyio.sleep(1.0)
            there = call.heard - first
            assert abs(there - counted) <= TOLERANCE + round(0.1 * 8000)  # the first one played on until the clear came

    run_virtual(main())


def test_a_vendor_without_marks_is_counted_by_the_clock() -> None:
    async def main() -> None:
        async with calling(marks=False) as call:
            await call.speak(2.0)
            await anyio.sleep(0.5)
            assert call.sink.queued() == 0
            with anyio.move_on_after(1.1):
                await call.speak(5.0)
            counted = call.written - call.sink.clear()
            await anyio.sleep(1.0)
            assert abs(call.heard - counted) <= TOLERANCE

    run_virtual(main())


def test_marks_that_never_come_back_do_not_hold_the_speech_for_ever() -> None:
    async def main() -> None:
        async with calling() as call:
            await call.speak(1.0)
            await anyio.sleep(1.0)
            call.vendor.returns_marks = False
            with anyio.move_on_after(2.0):
                await call.speak(1.0)
            assert call.sink.queued() > 0  # a mark is overdue: the vendor may stand still
            await anyio.sleep(LOST_AFTER + 1.0)
            assert call.sink.queued() == 0

    run_virtual(main())


def test_a_vendor_that_reports_no_marks_any_more_is_counted_by_the_clock_and_warned_about_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def main() -> None:
        async with calling() as call:
            await call.speak(1.0)
            await anyio.sleep(1.0)
            call.vendor.returns_marks = False
            await call.speak(30.0)
            await anyio.sleep(0.5)
            assert call.sink.queued() == 0
            await call.speak(30.0)
            await anyio.sleep(0.5)
            assert call.sink.queued() == 0

    run_virtual(main())
    assert len([one for one in caplog.records if "has not reported a mark" in one.message]) == 1


def test_marks_that_never_come_back_are_forgotten() -> None:
    async def main() -> None:
        async with calling(marks=False) as call:
            await call.speak(60.0)
            await anyio.sleep(60.0)
            call.sink.queued()
            call.sink.clear()
            await anyio.sleep(1.0)
            assert call.vendor.clears == 0  # no mark is awaited, and nothing can sound any more

    run_virtual(main())


def test_audio_that_is_sent_whole_and_may_still_sound_is_cleared_too() -> None:
    async def main() -> None:
        async with calling(0.1) as call:
            await call.speak(1.0)
            await anyio.sleep(0.31)  # the count is at its end, and the vendor is not
            assert call.sink.clear() == 0
            await anyio.sleep(0.5)
            assert call.vendor.clears == 1
            call.sink.clear()
            await anyio.sleep(0.5)
            assert call.vendor.clears == 1  # nothing can sound any more

    run_virtual(main())


def test_a_mark_that_was_never_sent_and_one_that_comes_twice_change_nothing() -> None:
    async def main() -> None:
        async with calling() as call:
            with anyio.move_on_after(1.0):
                await call.speak(5.0)
            before = call.sink.queued()
            for name in ("never", "", "0:1", "0:99", "7:1"):
                call.sink.played(name)
            assert call.sink.queued() == before

    run_virtual(main())


def test_a_frame_is_never_longer_than_20_ms_and_a_mark_follows_each_200_ms() -> None:
    async def main() -> None:
        wire, posted = TwilioWire(), list[Any]()
        sink = MarkedSink(wire, lambda message: posted.append(json.loads(message)), LoopClock())
        sink.write(AudioFrame(bytes(2 * 4000), 8000))
        assert [each["event"] for each in posted] == ["media"] * 10 + ["mark"] + ["media"] * 10 + ["mark"] + [
            "media"
        ] * 5
        with pytest.raises(ConfigurationError, match="takes mono audio of 8000 Hz, got 24000 Hz"):
            sink.write(AudioFrame(bytes(960), 24000))

    run_virtual(main())

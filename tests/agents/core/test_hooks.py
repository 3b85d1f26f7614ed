"""Hooks: limits and their clocks, errors, and calls that wait for the close."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import anyio
import anyio.lowlevel
import pytest

from vivavoce.agents.agent import StopResponse
from vivavoce.agents.core.hooks import Clock, Hooks, Kind, Run
from vivavoce.agents.core.speech_handle import SpeechControl
from vivavoce.agents.testing import run_virtual
from vivavoce.pipelines.core.errors import SessionError


class House:
    """The hooks of a session whose task group runs, and the errors that they report."""

    def __init__(self) -> None:
        self.errors: list[tuple[str, Exception]] = []
        self.hooks = Hooks(lambda error, source: self.errors.append((source, error)))

    def live(self, scenario: Callable[[], Awaitable[None]]) -> House:
        """Run a scenario in virtual time."""

        async def main() -> None:
            async with anyio.create_task_group() as group:
                self.hooks.open(group)
                await scenario()
                group.cancel_scope.cancel()

        run_virtual(main())
        return self

    @property
    def reported(self) -> list[tuple[str, str, str]]:
        return [(source, type(error).__name__, str(error)) for source, error in self.errors]


def speech() -> SpeechControl:
    """Return a speech that has not ended."""
    return SpeechControl("speech_1", "say", interruptible=True, post=lambda event: None)


async def cling() -> None:
    with anyio.CancelScope(shield=True):
        await anyio.sleep(60.0)


async def raise_stray() -> None:
    task = asyncio.create_task(anyio.sleep(10.0))
    await anyio.lowlevel.checkpoint()
    task.cancel()
    await task


def test_an_error_is_reported_with_its_source_and_the_caller_goes_on() -> None:
    house = House()

    async def fails() -> None:
        raise LookupError("no")

    async def scenario() -> None:
        run = await house.hooks.run("turn hook", "on_turn", fails)
        assert isinstance(run.error, LookupError)
        await house.hooks.run("turn hook", "on_turn", fails, source="")
        await house.hooks.start("callback", "on_empty_reply", fails, source="mine").wait()

    house.live(scenario)
    assert house.reported == [("hook", "LookupError", "no"), ("mine", "LookupError", "no")]


def test_a_stray_cancellation_and_an_exit_are_errors() -> None:
    house = House()

    async def leaves() -> None:
        raise SystemExit(3)

    async def scenario() -> None:
        await house.hooks.run("turn hook", "on_turn", raise_stray)
        await house.hooks.start("callback", "on_empty_reply", leaves).wait()

    assert [kind for _, kind, _ in house.live(scenario).reported] == ["VoiceError", "SessionError"]


def test_an_error_that_is_let_out_is_raised_and_not_reported() -> None:
    house = House()

    async def drops() -> None:
        raise StopResponse

    async def scenario() -> None:
        with pytest.raises(StopResponse):
            await house.hooks.run("turn hook", "on_turn", drops, lets_out=(StopResponse,))

    assert house.live(scenario).reported == []


def test_an_error_that_is_left_to_the_caller_is_not_reported() -> None:
    house = House()

    async def fails() -> None:
        raise LookupError("no")

    async def scenario() -> None:
        run = house.hooks.start("start", "connect", fails, source=None)
        await run.wait()
        assert isinstance(run.error, LookupError)

    assert house.live(scenario).reported == []


def test_all_that_wait_for_the_end_of_code_go_on() -> None:
    house = House()

    async def scenario() -> None:
        run = house.hooks.start("agent hook", "on_enter", lambda: anyio.sleep(1.0), 5.0)
        async with anyio.create_task_group() as group:
            group.start_soon(run.finish)
            await anyio.sleep(0.2)
            group.start_soon(run.finish)
            await anyio.sleep(0.2)
            run.set_limit(9.0)
        assert anyio.current_time() < 1.1

    house.live(scenario)


@pytest.mark.parametrize(
    ("kind", "error"),
    [
        ("event", "TimeoutError"),
        ("turn hook", "TimeoutError"),
        ("wake-up", "SessionError"),
        ("consent", "SessionError"),
    ],
)
def test_code_that_takes_longer_than_its_limit_is_cut_and_reported(kind: Kind, error: str) -> None:
    house = House()

    async def scenario() -> None:
        began = anyio.current_time()
        await house.hooks.run(kind, "it", anyio.sleep_forever, 2.0)
        assert anyio.current_time() - began == pytest.approx(2.0)

    assert house.live(scenario).reported == [("hook", error, "it did not end within 2 s")]


@pytest.mark.parametrize(
    ("clock", "ends_at"),
    [
        ("always", 2.0),
        ("between its speeches", 7.0),  # begins again after the speech, which ends at 5
        ("without its speeches", 6.0),  # a second was left
    ],
)
def test_a_limit_stands_still_while_its_own_speech_goes_on(clock: Clock, ends_at: float) -> None:
    house, said = House(), speech()

    async def speaks() -> None:
        run = house.hooks.here("agent hook")
        assert run is not None
        await anyio.sleep(1.0)
        run.speaks(said.handle)
        await anyio.sleep_forever()

    async def scenario() -> None:
        run = house.hooks.start("agent hook", "on_enter", speaks, 2.0, clock)
        await anyio.sleep(5.0)
        said.set_outcome("completed")
        await run.finish()
        assert anyio.current_time() == pytest.approx(max(5.0, ends_at))
        assert run.handles == [said.handle]

    assert len(house.live(scenario).reported) == 1


def test_a_limit_that_counts_while_the_session_is_quiet_begins_anew_after_each_speech() -> None:
    house = House()
    ended: list[float] = []

    async def waits() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            ended.append(anyio.current_time())

    async def scenario() -> None:
        house.hooks.agent_is(busy=True)
        house.hooks.start("wake-up", "on_wake_up", waits, 2.0, "while quiet")
        await anyio.sleep(10.0)
        house.hooks.agent_is(busy=False)
        await anyio.sleep(1.0)
        house.hooks.agent_is(busy=True)
        house.hooks.agent_is(busy=True)
        await anyio.sleep(10.0)
        house.hooks.agent_is(busy=False)
        await anyio.sleep(3.0)

    assert house.live(scenario).reported == [
        ("hook", "SessionError", "on_wake_up did not end within 2 s, speech apart")
    ]
    assert ended == [pytest.approx(23.0)]


def test_a_limit_may_be_set_later_and_code_that_clings_is_left_behind() -> None:
    house = House()

    async def scenario() -> None:
        run = house.hooks.start("agent hook", "on_enter", cling)
        await anyio.sleep(20.0)
        run.set_limit(1.0)
        await run.finish(unwind=0.5)
        assert anyio.current_time() == pytest.approx(21.5)
        assert not run.is_over
        assert str(run.error) == "on_enter did not end within 1 s"
        await anyio.sleep(60.0)
        assert run.is_over

    assert house.live(scenario).reported == [("hook", "SessionError", "on_enter did not end within 1 s")]


def test_code_that_is_cut_is_no_error_and_finish_waits_for_its_end() -> None:
    house = House()

    async def unwinds() -> None:
        try:
            await anyio.sleep_forever()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(0.5)

    async def scenario() -> None:
        run = house.hooks.start("agent hook", "on_enter", unwinds)
        await anyio.sleep(1.0)
        run.cut()
        await run.finish()
        assert anyio.current_time() == pytest.approx(1.5)

    assert house.live(scenario).reported == []


def test_a_handler_that_awaits_the_close_is_not_waited_for_and_its_limit_stands_still() -> None:
    house, ended = House(), anyio.Event()
    waited: list[bool] = []

    async def closes() -> None:
        await house.hooks.run("event", "a handler", waits, 2.0)

    async def waits() -> None:
        with house.hooks.awaiting_close() as goes_on:
            waited.append(goes_on)
            await anyio.sleep(10.0)
        await anyio.sleep(1.0)
        ended.set()

    async def scenario() -> None:
        with house.hooks.awaiting_close() as goes_on:
            waited.append(goes_on)
        house.hooks.start("handler", "user_transcript", closes)
        house.hooks.start("handler", "turn_completed", anyio.sleep_forever)
        await anyio.sleep(1.0)
        assert house.hooks.running == ["turn_completed"]
        house.hooks.cut()
        await house.hooks.wait_idle()
        assert anyio.current_time() == pytest.approx(1.0)
        await house.hooks.wait_idle(is_closed=True)
        assert anyio.current_time() == pytest.approx(11.0)
        assert ended.is_set()

    assert house.live(scenario).reported == []
    assert waited == [False, True]


@pytest.mark.parametrize("kind", ["agent hook", "flow hook"])
def test_a_hook_that_the_close_waits_for_is_cut_where_it_awaits_the_close(kind: Kind) -> None:
    house = House()
    reached: list[str] = []

    async def closes() -> None:
        with house.hooks.awaiting_close():
            await anyio.sleep(10.0)
        reached.append("after the close")

    async def scenario() -> None:
        await house.hooks.run(kind, "it", closes)
        assert anyio.current_time() == 0.0

    assert house.live(scenario).reported == []
    assert reached == []


def test_a_step_of_the_close_may_not_await_the_close_but_a_task_that_it_starts_may() -> None:
    house = House()
    reported: list[str] = []

    async def check(who: str) -> None:
        try:
            house.hooks.check_may_await_close()
        except SessionError:
            reported.append(f"{who} is refused")
        else:
            reported.append(f"{who} may")

    async def step() -> None:
        await check("the step")
        await asyncio.create_task(check("its task"))

    async def scenario() -> None:
        await check("other code")
        await house.hooks.start("close step", "on_exit", step).wait()

    house.live(scenario)
    assert reported == ["other code may", "the step is refused", "its task may"]


def test_the_run_here_is_the_innermost_of_its_kind_and_session_that_is_not_over() -> None:
    house, other = House(), House()
    seen: list[Run | None] = []
    late: list[asyncio.Task[None]] = []

    async def look(seconds: float = 0.0) -> None:
        await anyio.sleep(seconds)
        seen.append(house.hooks.here("agent hook"))

    async def inner() -> None:
        await look()
        late.append(asyncio.create_task(look(1.0)))

    async def outer() -> None:
        await other.hooks.run("agent hook", "another session's", look)
        await house.hooks.run("flow hook", "on_turn_end", inner)

    async def scenario() -> None:
        run = await house.hooks.run("agent hook", "on_enter", outer)
        await late[0]
        await look()
        assert seen == [run, run, None, None]

    house.live(scenario)

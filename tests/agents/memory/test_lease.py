"""The lease of a session's memory: processes that die, are cut off and come back; and sessions that are erased."""

from __future__ import annotations

import copy
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kit.memory import ScriptedStore, session_with, started
from vivavoce.agents import AgentSession, MemoryOptions
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.memory import InProcessStore, SessionMemory, StoreError
from vivavoce.agents.states import AgentState, CloseReason
from vivavoce.agents.testing import VirtualClock, run_virtual
from vivavoce.pipelines.core.errors import ConfigurationError, SessionClosedError

Test = Callable[["CutOff"], Coroutine[Any, Any, None]]


class CutOff:
    """A session whose process does not reach the store any more, and the store as others see it."""

    def __init__(self, session: AgentSession[Any], own: ScriptedStore, store: ScriptedStore) -> None:
        self.session = session
        self.own = own
        self.store = store
        self.snapshot = session.snapshot()

    def other(self, id: str = "call") -> AgentSession[Any]:
        """Return a session of another process."""
        return session_with(MemoryOptions(store=self.store), id=id)


def when_cut_off(test: Test) -> Callable[[], None]:
    """Run a test, in virtual time, with a session that has just lost its store."""

    async def main() -> None:
        own = ScriptedStore()
        store = copy.copy(own)  # the same data; only the first one is down
        session = session_with(MemoryOptions(store=own))
        await started(session)
        own.is_down = True
        await test(CutOff(session, own, store))
        await session.close()

    def run() -> None:
        run_virtual(main())

    run.__name__ = test.__name__
    return run


@when_cut_off
async def test_the_lease_of_a_dead_process_runs_out_after_15_seconds(cut_off: CutOff) -> None:
    await anyio.sleep(9.0)
    with pytest.raises(StoreError, match="runs already"):
        await started(cut_off.other())
    await anyio.sleep(7.0)
    session = cut_off.other()
    await started(session)
    assert (await session.close()).is_clean


@when_cut_off
async def test_another_process_resumes_the_session_without_waiting_for_the_lease(cut_off: CutOff) -> None:
    session = cut_off.other("later")
    await started(session, resume_from=cut_off.snapshot)
    assert session.memory.id == "call"
    assert (await session.close()).is_clean


@when_cut_off
async def test_a_process_that_comes_back_after_it_was_replaced_closes_and_writes_nothing(cut_off: CutOff) -> None:
    errors: list[ErrorOccurred] = []
    cut_off.session.on("error", errors.append)
    session = cut_off.other("later")
    await started(session, resume_from=cut_off.snapshot)
    cut_off.own.is_down = False
    with anyio.fail_after(10.0):
        report = await cut_off.session.wait_closed()
    assert report.reason == CloseReason.ERROR.value
    assert "another session continues" in report.error
    assert [(event.source, event.is_recovered) for event in errors] == [("memory", True), ("memory", False)]
    async with SessionMemory.attach(cut_off.store, "call") as memory:
        assert not await memory.wait(timeout=60.0)
        await session.close()
        assert await memory.wait(timeout=1.0)


@pytest.mark.parametrize("away", [2.0, 5.5, 8.0, 9.5, 11.0, 20.0, 21.5, 23.0])
def test_a_session_that_was_replaced_while_it_was_cut_off_never_writes_again(away: float) -> None:
    async def test() -> None:
        own = ScriptedStore()
        store = copy.copy(own)
        session = session_with(MemoryOptions(store=own))
        room = await started(session)
        await anyio.sleep(1.0)
        own.is_down = True
        room.send_text("a table")  # its words and the agent's wait for the store
        await anyio.sleep(away)
        assert [turn.outcome for turn in session.turns] == ["completed"]
        other = session_with(MemoryOptions(store=store), id="later")
        await started(other, resume_from=session.snapshot())
        await anyio.sleep(1.0)
        own.written = []
        own.is_down = False
        report = await session.wait_closed()
        await anyio.sleep(30.0)
        assert own.written == []
        assert report.lost_writes > 0
        assert (await other.close()).is_clean

    run_virtual(test())


@pytest.mark.parametrize("seconds", [17.0, 17.5])
def test_a_session_that_is_closed_right_after_an_outage_loses_no_words(seconds: float) -> None:
    async def test() -> None:
        store = ScriptedStore()
        session = session_with(MemoryOptions(store=store))
        room = await started(session)
        await anyio.sleep(1.0)
        store.is_down = True
        room.send_text("a table")
        await anyio.sleep(seconds)
        store.is_down = False
        report = await session.close()
        assert (report.is_clean, report.lost_writes) == (True, 0)
        async with SessionMemory.attach(store, "call") as memory:
            assert [message.content for message in await memory.get_chat_history()] == ["a table", "Fine."]

    run_virtual(test())


class LateLeases(ScriptedStore):
    """A store that takes long for a lease, as it seems to a process that was frozen."""

    seconds = 0.0

    async def hold(self, session_id: str, holder: str, seconds: float, *, takes_over: bool = False) -> bool:
        await anyio.sleep(self.seconds)
        return await super().hold(session_id, holder, seconds, takes_over=takes_over)


def test_a_session_whose_lease_has_run_out_without_a_failure_writes_nothing_until_it_is_renewed() -> None:
    async def test() -> None:
        own = LateLeases()
        store = copy.copy(own)
        session = session_with(MemoryOptions(store=own, timeout=60.0))
        room = await started(session)
        await anyio.sleep(1.0)
        own.seconds = 30.0
        await anyio.sleep(20.0)
        other = session_with(MemoryOptions(store=store))
        await started(other)
        own.written = []
        room.send_text("a table")
        report = await session.wait_closed()
        assert own.written == []
        assert (report.reason, report.lost_writes) == (CloseReason.ERROR.value, 4)
        assert (await other.close()).is_clean

    run_virtual(test())


class NoLeases(ScriptedStore):
    """A store of an application, whose leases fail after an outage."""

    has_leases = True

    async def hold(self, session_id: str, holder: str, seconds: float, *, takes_over: bool = False) -> bool:
        if not self.has_leases:
            raise OSError("the disk is full")
        return await super().hold(session_id, holder, seconds, takes_over=takes_over)


def test_a_session_whose_lease_fails_in_an_unknown_way_counts_the_writes_that_it_could_not_make() -> None:
    async def test() -> None:
        store = NoLeases()
        session = session_with(MemoryOptions(store=store))
        room = await started(session)
        await anyio.sleep(1.0)
        store.is_down, store.has_leases = True, False
        room.send_text("a table")
        await anyio.sleep(17.0)
        store.is_down, store.written = False, []
        report = await session.close()
        assert store.written == []
        assert report.lost_writes == 4  # the words of both sides, in the history and in their streams
        assert "2 writes" in next(step.error for step in report.steps if step.name == "memory")

    run_virtual(test())


def test_after_a_write_that_the_store_refused_the_close_gives_the_lease_up() -> None:
    async def test() -> None:
        store = ScriptedStore()
        store.refused = "secret"
        session = session_with(MemoryOptions(store=store))
        await started(session)
        await anyio.sleep(1.0)
        store.is_down = True
        await anyio.sleep(10.0)
        await session.say("The secret is there.")
        await anyio.sleep(30.0)
        store.is_down = False
        await anyio.sleep(30.0)
        assert (await session.close()).lost_writes == 1
        again = session_with(MemoryOptions(store=store))
        await started(again)
        assert (await again.close()).is_clean

    run_virtual(test())


@when_cut_off
async def test_wait_ends_when_a_dead_process_is_not_replaced(cut_off: CutOff) -> None:
    async with SessionMemory.attach(cut_off.store, "call") as memory:
        assert not await memory.wait(timeout=14.0)
        assert await memory.wait(timeout=10.0)


@when_cut_off
async def test_wait_goes_on_where_a_dead_process_is_replaced(cut_off: CutOff) -> None:
    async with SessionMemory.attach(cut_off.store, "call") as memory:
        assert not await memory.wait(timeout=10.0)
        session = cut_off.other("later")
        await started(session, resume_from=cut_off.snapshot)
        assert not await memory.wait(timeout=60.0)
        await session.close()


@when_cut_off
async def test_a_call_that_was_stopped_while_its_process_was_dead_closes_when_it_is_resumed(cut_off: CutOff) -> None:
    await anyio.sleep(30.0)
    async with SessionMemory.attach(cut_off.store, "call") as memory:
        await memory.stop()
        assert await memory.wait(timeout=0.5)
    resumed = cut_off.other("later")
    with pytest.raises(SessionClosedError, match="closed while it was starting"):
        await started(resumed, resume_from=cut_off.snapshot)
    with anyio.fail_after(1.0):
        assert (await resumed.wait_closed()).reason == CloseReason.USER_INITIATED.value
    another = cut_off.other()
    await started(another)
    await anyio.sleep(30.0)
    assert not await another.memory.wait(timeout=0.0)
    await another.close()


@when_cut_off
async def test_stopping_a_session_whose_process_is_dead_ends_its_streams(cut_off: CutOff) -> None:
    await anyio.sleep(30.0)
    async with SessionMemory.attach(cut_off.store, "call") as memory:
        words = await memory.open_stream("user_transcript")
        await memory.stop()
        with anyio.fail_after(0.5):
            assert [item async for item in words.read()] == []
        with pytest.raises(StoreError, match="is closed"):
            await words.write("late")
        with pytest.raises(StoreError, match="has ended"):
            await memory.open_stream("orders")


def test_the_sessions_own_stream_cannot_be_closed_by_hand() -> None:
    async def test() -> None:
        store = InProcessStore(clock=VirtualClock())
        session = session_with(MemoryOptions(store=store))
        await started(session)
        async with SessionMemory.attach(store, "call") as memory:
            for stream in (memory.stream, session.memory.stream):
                with pytest.raises(ConfigurationError, match=r"call memory\.stop\(\)"):
                    await stream.close()
            assert await (await memory.open_stream("orders", tags=["orders"])).write("tea") == 0
        assert (await session.close()).is_clean

    run_virtual(test())


def test_stopping_a_session_that_has_ended_does_nothing() -> None:
    async def test() -> None:
        store = InProcessStore(clock=VirtualClock())
        session = session_with(MemoryOptions(store=store))
        await started(session)
        await session.close()
        await session.memory.stop()
        async with SessionMemory.attach(store, "call") as memory:
            await memory.stop()
            assert await memory.wait()
        again = session_with(MemoryOptions(store=store))
        await started(again, resume_from=session.snapshot())
        await anyio.sleep(10.0)
        assert (await again.close()).reason == CloseReason.USER_INITIATED.value

    run_virtual(test())


def test_a_session_is_erased_when_it_was_idle_for_long_enough_unless_it_is_pinned() -> None:
    async def test() -> None:
        store = InProcessStore(clock=VirtualClock())
        for name in ("pinned", "kept", "idle"):
            session = session_with(MemoryOptions(store=store, keep=None if name == "kept" else 600.0), id=name)
            await started(session)
            await session.memory.metadata.set("pinned", name == "pinned")
            await anyio.sleep(900.0)  # a session that runs is not idle
            await session.close()
        await anyio.sleep(500.0)
        assert {one.id for one in await store.sessions()} == {"idle", "pinned", "kept"}
        await anyio.sleep(200.0)
        last = session_with(MemoryOptions(store=store), id="last")
        await started(last)
        await anyio.sleep(1.0)
        assert {one.id for one in await store.sessions()} == {"pinned", "kept", "last"}
        await last.close()

    run_virtual(test())


def test_a_session_that_runs_has_idle_ones_erased() -> None:
    async def test() -> None:
        store = InProcessStore(clock=VirtualClock())
        running, idle = (session_with(MemoryOptions(store=store, keep=600.0), id=name) for name in ("running", "idle"))
        await started(running)
        await started(idle)
        await idle.close()
        await anyio.sleep(599.0)
        assert {one.id for one in await store.sessions()} == {"running", "idle"}
        await anyio.sleep(302.0)
        assert [one.id for one in await store.sessions()] == ["running"]
        assert (await running.close()).is_clean

    run_virtual(test())


def test_a_sweep_that_takes_long_is_no_failure_of_the_store(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        sweeps: list[float] = []

        class Slow(ScriptedStore):
            async def sweep(self, limit: int = 20) -> list[str]:
                sweeps.append(anyio.current_time())
                await anyio.sleep(25.0)
                return ["one"]

        session = session_with(MemoryOptions(store=Slow()))
        errors: list[ErrorOccurred] = []
        session.on("error", errors.append)
        await started(session)
        await anyio.sleep(500.0)
        assert [round(at - sweeps[0]) for at in sweeps] == [0, 25, 50, 360, 385, 410]
        assert errors == []
        assert (await session.close()).is_clean

    run_virtual(test())
    assert caplog.text == ""


@when_cut_off
async def test_a_store_that_comes_back_empty_knows_the_session_again(cut_off: CutOff) -> None:
    await anyio.sleep(10.0)
    await cut_off.store.delete("call")
    cut_off.own.is_down = False
    await anyio.sleep(10.0)
    with pytest.raises(StoreError, match="runs already"):
        await started(cut_off.other())
    async with SessionMemory.attach(cut_off.store, "call") as memory:
        await memory.stop()
        assert await memory.wait(timeout=1.0)


def test_a_store_that_is_full_is_one_error_event_although_it_can_be_read() -> None:
    async def test() -> None:
        store = ScriptedStore()
        session = session_with(MemoryOptions(store=store))
        errors: list[ErrorOccurred] = []
        session.on("error", errors.append)
        store.is_full = True
        await started(session)
        await anyio.sleep(120.0)
        store.is_full = False
        await anyio.sleep(10.0)
        assert (await session.close()).is_clean
        assert len(errors) == 1

    run_virtual(test())


STEPS = st.sampled_from(["start", "resume", "cut off", "mend", "close", "wait"])


@settings(max_examples=20)
@given(st.lists(st.tuples(STEPS, st.integers(0, 3)), max_size=14))
def test_however_processes_come_and_go_one_of_them_has_the_session_in_the_end(steps: list[tuple[str, int]]) -> None:
    async def test() -> None:
        root = ScriptedStore()
        snapshot: dict[str, Any] | None = None
        running: list[tuple[AgentSession[Any], ScriptedStore]] = []
        for step, which in steps:
            if step in ("start", "resume"):
                own = copy.copy(root)
                own.is_down = which == 0
                session = session_with(MemoryOptions(store=own), id="call" if step == "start" else "later")
                with suppress(StoreError):
                    await started(session, resume_from=snapshot if step == "resume" else None)
                    running.append((session, own))
                    snapshot = session.snapshot() if session.memory.id == "call" else snapshot
            elif step == "wait":
                await anyio.sleep((0.1, 2.0, 8.0, 40.0)[which])
            elif running:
                session, own = running[which % len(running)]
                own.is_down = step == "cut off"
                if step == "close":
                    await session.close()
        for _, own in running:
            own.is_down = False
        await anyio.sleep(40.0)
        alive = [session for session, _ in running if session.agent_state is not AgentState.CLOSED]
        assert len([session for session in alive if session.memory.id == "call"]) <= 1
        for session in alive:
            assert await session.memory.data.set("last", session.memory.id)
            assert (await session.close()).is_clean

    run_virtual(test())

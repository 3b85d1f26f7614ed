"""Inbox: calls from threads are made on the loop, or refused in words."""

from __future__ import annotations

import asyncio
import threading

import anyio
import anyio.lowlevel
import pytest

from vivavoce.agents.core import inbox as inbox_module
from vivavoce.agents.core.inbox import Inbox
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import SessionClosedError, SessionError


def test_before_it_is_bound_and_on_its_loop_a_call_is_made_at_once() -> None:
    inbox = Inbox(LoopClock())
    assert inbox.result_of(threading.get_ident) == threading.get_ident()

    async def main() -> None:
        inbox.bind()
        assert inbox.result_of(threading.get_ident) == threading.get_ident()

    asyncio.run(main())


def test_a_thread_gets_what_the_call_returned_or_raised_on_the_loop() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    async def main() -> None:
        inbox = Inbox(LoopClock())
        inbox.bind()
        assert await asyncio.to_thread(inbox.result_of, threading.get_ident) == threading.get_ident()
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(inbox.result_of, fail)

    asyncio.run(main())


def test_a_call_for_soon_is_made_at_once_on_the_loop_and_later_for_a_thread_that_does_not_wait() -> None:
    made: list[int] = []

    def note() -> None:
        made.append(threading.get_ident())

    async def main() -> None:
        inbox = Inbox(LoopClock())
        assert not inbox.is_bound
        inbox.on_loop(note)
        inbox.bind()
        assert inbox.is_bound
        inbox.on_loop(note)
        assert len(made) == 2
        thread = threading.Thread(target=inbox.on_loop, args=(note,))
        thread.start()
        thread.join()  # the loop has not come to it
        assert len(made) == 2
        await anyio.lowlevel.checkpoint()
        assert made == [threading.get_ident()] * 3

    asyncio.run(main())


def in_thread(inbox: Inbox, *, soon: bool = False) -> Exception | None:
    raised: list[Exception] = []

    def call() -> None:
        try:
            if soon:
                inbox.on_loop(lambda: None)
            else:
                inbox.result_of(threading.get_ident)
        except SessionError as error:
            raised.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()
    return raised[0] if raised else None


def test_after_the_loop_has_ended_a_thread_is_told_so() -> None:
    inbox = Inbox(LoopClock())

    async def main() -> None:
        inbox.bind()

    asyncio.run(main())
    assert isinstance(in_thread(inbox), SessionClosedError)
    assert isinstance(in_thread(inbox, soon=True), SessionClosedError)


def test_a_thread_does_not_wait_for_ever_for_a_loop_that_is_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inbox_module, "THREAD_LIMIT", 0.01)
    made: list[int] = []

    async def main() -> None:
        inbox = Inbox(LoopClock())
        inbox.bind()
        error = in_thread(inbox)  # joins, so that the loop is held up
        assert "held up" in str(error)
        inbox.result_of(lambda: made.append(1))

    asyncio.run(main())
    assert made == [1]

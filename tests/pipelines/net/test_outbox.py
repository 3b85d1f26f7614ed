"""The queue of a connection, in virtual time: what keeps a quiet connection, and what ends one that takes no byte."""

from __future__ import annotations

import asyncio

import anyio
import pytest

from vivavoce.pipelines.core.errors import ProviderConnectionError
from vivavoce.pipelines.net.outbox import SEND_LIMIT, KeepAlive, Outbox
from vivavoce.pipelines.testing import run_virtual

ALIVE = "alive"


class Wire:
    """Takes messages until it is stopped."""

    def __init__(self) -> None:
        self.took: list[tuple[float, str]] = []
        self.is_stopped = False

    async def send(self, message: str) -> None:
        if self.is_stopped:
            await anyio.sleep_forever()
        self.took.append((asyncio.get_running_loop().time(), message))


def hold(keep_alive: float | None, seconds: float, *posts: float, stop: float | None = None) -> tuple[Wire, float]:
    """Run an outbox for so long, with a message at each of these times; return its wire and when it ended by itself."""

    async def session() -> tuple[Wire, float]:
        wire = Wire()
        outbox: Outbox[str] = Outbox("x", "stt", None if keep_alive is None else KeepAlive(keep_alive, ALIVE))
        loop = asyncio.get_running_loop()
        begin = loop.time()
        running = asyncio.create_task(outbox.run(wire.send))
        for at in posts:
            loop.call_later(at, outbox.post, "audio")
        if stop is not None:
            loop.call_later(stop, setattr, wire, "is_stopped", True)
        await asyncio.wait({running}, timeout=seconds)
        ended = loop.time() - begin
        wire.took = [(round(at - begin, 3), message) for at, message in wire.took]
        if running.done():
            with pytest.raises(ProviderConnectionError, match=f"nothing could be sent for {SEND_LIMIT} s"):
                running.result()
            return wire, ended
        running.cancel()
        await asyncio.wait({running})
        return wire, seconds

    return run_virtual(session())


@pytest.mark.parametrize("after", [2.0, 25.0])
def test_a_quiet_connection_gets_a_message_each_time_that_so_many_seconds_have_passed(after: float) -> None:
    wire, _ = hold(after, 3.5 * after)
    assert wire.took == [(after, ALIVE), (2 * after, ALIVE), (3 * after, ALIVE)]


def test_each_message_puts_off_the_one_that_keeps_the_connection() -> None:
    wire, _ = hold(2.0, 6.0, 1.0, 2.5)
    assert wire.took == [(1.0, "audio"), (2.5, "audio"), (4.5, ALIVE)]


@pytest.mark.parametrize("keep_alive", [None, 2.0, 25.0])
@pytest.mark.parametrize("quiet", [0.5, 24.0])
def test_a_connection_that_takes_no_byte_is_lost_after_the_limit(keep_alive: float | None, quiet: float) -> None:
    wire, ended = hold(keep_alive, 100.0, quiet, stop=quiet - 0.25)
    stopped = [at for at, _ in wire.took if at >= quiet - 0.25]
    begun = quiet if keep_alive != 2.0 or quiet == 0.5 else 24.0
    assert not stopped
    assert ended == pytest.approx(begun + SEND_LIMIT)


def test_a_connection_without_messages_lasts() -> None:
    wire, ended = hold(None, 1000.0)
    assert (wire.took, ended) == ([], 1000.0)

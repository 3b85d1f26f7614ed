"""Warm connections are used again, by address, until they are old, lost or idle for too long."""

from __future__ import annotations

import anyio
import pytest

from vivavoce.pipelines.core.errors import ConfigurationError, ProviderConnectionError
from vivavoce.pipelines.net.pool import Address, Pool
from vivavoce.pipelines.testing import VirtualClock, run_virtual

HERE, THERE = Address("wss://here"), Address("wss://here", (("authorization", "secret"),))


class Opened:
    """A connection of the test."""

    def __init__(self, number: int, address: Address) -> None:
        self.number = number
        self.address = address
        self.is_lost = False
        self.is_closed = False

    async def aclose(self) -> None:
        self.is_closed = True
        await anyio.sleep(0.1)


class World:
    """Opens connections, each in 0.2 s."""

    def __init__(self, max_users: int = 1) -> None:
        self.opened: list[Opened] = []
        self.failures = 0
        self.begun = 0
        self.pool: Pool[Opened] = Pool(
            self.open, name="test.TTS", max_age=60.0, max_idle=20.0, max_users=max_users, clock=VirtualClock()
        )

    async def open(self, address: Address) -> Opened:
        self.begun += 1
        await anyio.sleep(0.2)
        if self.failures:
            self.failures -= 1
            raise ProviderConnectionError("no connection", provider="test")
        self.opened.append(Opened(len(self.opened), address))
        return self.opened[-1]

    async def use(self, address: Address = HERE, seconds: float = 1.0) -> int:
        """Return the number of the connection that carried a request."""
        async with self.pool.lease(address) as connection:
            await anyio.sleep(seconds)
            return connection.number


def test_requests_one_after_the_other_share_a_connection() -> None:
    async def run() -> None:
        world = World()
        assert [await world.use() for _ in range(3)] == [0, 0, 0]
        await world.pool.aclose()
        assert [one.is_closed for one in world.opened] == [True]

    run_virtual(run())


def test_an_address_with_another_head_has_a_connection_of_its_own() -> None:
    async def run() -> None:
        world = World()
        assert [await world.use(HERE), await world.use(THERE), await world.use(HERE)] == [0, 1, 0]
        assert [one.address for one in world.opened] == [HERE, THERE]
        assert "secret" not in repr(THERE)
        await world.pool.aclose()

    run_virtual(run())


def test_requests_side_by_side_share_a_connection_up_to_its_limit() -> None:
    async def run(max_users: int) -> int:
        world = World(max_users)
        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(world.use)
        await world.pool.aclose()
        assert all(one.is_closed for one in world.opened)
        return len(world.opened)

    assert [run_virtual(run(users)) for users in (1, 2, 3, 5)] == [4, 2, 2, 1]


def test_a_lost_connection_and_an_old_one_take_no_further_request() -> None:
    async def run() -> None:
        world = World()
        await world.use()
        world.opened[0].is_lost = True
        assert await world.use() == 1
        for _ in range(6):
            assert await world.use(seconds=11.0) == 1
        assert await world.use() == 2  # the other one is 60 s old
        await world.pool.aclose()
        assert all(one.is_closed for one in world.opened)

    run_virtual(run())


def test_an_old_connection_in_use_is_closed_when_its_request_ends() -> None:
    async def run() -> None:
        world = World(max_users=2)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(world.use, HERE, 100.0)
            await anyio.sleep(61)
            assert await world.use() == 1
            assert not world.opened[0].is_closed
        await anyio.sleep(0.1)
        assert world.opened[0].is_closed
        await world.pool.aclose()

    run_virtual(run())


def test_an_idle_connection_is_closed_after_a_while() -> None:
    async def run() -> None:
        world = World()
        await world.use()
        await anyio.sleep(19.9)
        assert not world.opened[0].is_closed
        await anyio.sleep(0.2)
        assert world.opened[0].is_closed
        assert len(world.pool) == 0
        assert await world.use() == 1
        await world.pool.aclose()

    run_virtual(run())


def test_a_warm_connection_is_there_when_the_request_comes() -> None:
    async def run() -> None:
        clock, world = VirtualClock(), World()
        world.pool.warm(HERE)
        world.pool.warm(HERE)
        await anyio.sleep(1)
        began = clock.now()
        assert await world.use(seconds=0) == 0
        assert clock.now() == began
        assert len(world.opened) == 1
        await world.pool.aclose()

    run_virtual(run())


def test_a_failure_to_open_is_raised_by_each_request_that_waits_and_by_no_later_one() -> None:
    async def run() -> None:
        world = World(max_users=2)
        world.failures = 1
        failures: list[ProviderConnectionError] = []

        async def use() -> None:
            try:
                await world.use()
            except ProviderConnectionError as error:
                failures.append(error)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(use)
            tasks.start_soon(use)
        assert len(failures) == 2
        assert await world.use() == 0
        world.failures = 1
        world.pool.warm(THERE)
        await anyio.sleep(1)
        assert await world.use(THERE) == 1
        await world.pool.aclose()

    run_virtual(run())


def test_a_request_that_is_given_up_leaves_the_opening_to_the_next_one() -> None:
    async def run() -> None:
        world = World()
        with anyio.move_on_after(0.1):
            await world.use()
        assert await world.use() == 0
        assert world.begun == 1
        await world.pool.aclose()

    run_virtual(run())


def test_the_close_ends_what_opens_and_refuses_later_requests() -> None:
    async def run() -> None:
        world = World()
        world.pool.warm(HERE)
        await world.use(THERE)
        world.pool.warm(Address("wss://elsewhere"))
        await anyio.sleep(0.1)
        await world.pool.aclose()
        await world.pool.aclose()
        assert [one.is_closed for one in world.opened] == [True, True]
        with pytest.raises(ConfigurationError, match="test.TTS is closed"):
            await world.use()
        world.pool.warm(HERE)
        assert len(world.pool) == 0

    run_virtual(run())


def test_a_request_that_waits_for_its_connection_fails_when_the_pool_is_closed() -> None:
    async def run() -> None:
        world = World(max_users=2)
        failures: list[BaseException] = []

        async def use() -> None:
            try:
                await world.use()
            except BaseException as failure:  # noqa: BLE001 - a cancellation would end the caller's task without a word
                failures.append(failure)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(use)
            tasks.start_soon(use)
            await anyio.sleep(0.1)
            await world.pool.aclose()
        assert [type(failure) for failure in failures] == [ConfigurationError] * 2
        assert len(world.pool) == 0

    run_virtual(run())

"""The registry of agents: what is found, by whom, and when an entry ends."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from vivavoce.agents.memory import InProcessStore, SqliteStore, StoreUnavailable
from vivavoce.agents.peers import AgentCard, AgentRegistry
from vivavoce.agents.peers.registry import CARDS, CLOSE_LIMIT, REMOVAL_LIMIT
from vivavoce.agents.testing import run_virtual
from vivavoce.pipelines.core.errors import ConfigurationError

TAX = AgentCard("tax", "ws://h:1/", domain="finance", capabilities=("tax", "advice"), dialogues=("dialogue:1",))
BANK = AgentCard("bank", "wss://h/bank", domain="finance", capabilities=["accounts"], description="Your bank")


class Cuttable(InProcessStore):
    """A store whose leases cannot be renewed while it is cut."""

    is_cut = False

    async def hold(self, session_id: str, holder: str, seconds: float, *, takes_over: bool = False) -> bool:
        if self.is_cut and not takes_over:
            raise StoreUnavailable("cut")
        return await super().hold(session_id, holder, seconds, takes_over=takes_over)


class Slow(InProcessStore):
    """A store whose renewals take effect when they may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.renews = anyio.Event()
        self.may_go_on: anyio.Event | None = None

    async def hold(self, session_id: str, holder: str, seconds: float, *, takes_over: bool = False) -> bool:
        if self.may_go_on is not None and not takes_over:
            self.renews.set()
            await self.may_go_on.wait()
        return await super().hold(session_id, holder, seconds, takes_over=takes_over)


async def test_agents_are_found_by_all_that_they_have() -> None:
    async with AgentRegistry() as registry:
        await registry.register(TAX)
        await registry.register(BANK)
        assert await registry.find() == [BANK, TAX]
        assert await registry.find(id="tax") == [TAX]
        assert await registry.find(domain="finance", capability="accounts") == [BANK]
        assert await registry.find(digest="dialogue:1") == [TAX]
        assert await registry.find(id="tax", capability="accounts") == []
        assert await registry.find(domain="") == []
        await registry.register(moved := AgentCard("tax", "ws://h:2/"))
        assert await registry.find(id="tax") == [moved]
        await registry.unregister("tax")
        assert await registry.find() == [BANK]
        assert registry.registered == (BANK,)
        with pytest.raises(ConfigurationError, match="this registry has not registered the agent 'tax'"):
            await registry.unregister("tax")


@pytest.mark.parametrize("open_store", [lambda path: InProcessStore(), lambda path: SqliteStore(path / "agents.db")])
async def test_registries_with_one_store_share_their_agents_which_are_no_sessions(
    open_store: Callable[[Path], Any], tmp_path: Path
) -> None:
    store = open_store(tmp_path)
    async with AgentRegistry(store) as here, AgentRegistry(store) as there:
        await here.register(TAX)
        assert await there.find(capability="tax") == [TAX]
        await there.register(newer := AgentCard("tax", "ws://other:1/"))  # started again elsewhere
        assert await here.find(id="tax") == [newer]
        await here.unregister("tax")  # which leaves the other's entry alone
        assert await here.find(id="tax") == [newer]
        assert await store.sessions() == []
        assert await store.sweep() == []
    assert await AgentRegistry(store).find() == []
    await store.aclose()


def test_an_entry_ends_15_seconds_after_its_last_renewal_and_comes_back_with_the_next() -> None:
    async def main() -> None:
        store = Cuttable()
        async with AgentRegistry(store) as registry:
            reader = AgentRegistry(store)
            await registry.register(TAX)
            await anyio.sleep(101.0)
            assert await reader.find(id="tax") == [TAX]
            store.is_cut = True  # the last renewal was a second ago
            await anyio.sleep(13.9)
            assert await reader.find(id="tax") == [TAX]
            await anyio.sleep(0.2)
            assert await reader.find(id="tax") == []
            assert await reader.find() == []
            store.is_cut = False
            await anyio.sleep(5.0)
            assert await reader.find(id="tax") == [TAX]
        assert await reader.find() == []

    run_virtual(main())


def test_a_process_that_was_replaced_does_not_renew_the_entry_of_the_other() -> None:
    async def main() -> None:
        store = InProcessStore()
        async with AgentRegistry(store) as old, AgentRegistry(store) as new:
            await old.register(TAX)
            await new.register(newer := AgentCard("tax", "ws://other:1/"))
            await anyio.sleep(30.0)
            assert await old.find() == [newer]
            assert old.registered == ()

    run_virtual(main())


def test_an_agent_that_leaves_during_a_renewal_is_gone_and_the_others_stay() -> None:
    async def main() -> None:
        store = Slow()
        async with AgentRegistry(store) as registry, anyio.create_task_group() as group:
            await registry.register(TAX)
            await registry.register(BANK)
            store.may_go_on = anyio.Event()
            await store.renews.wait()
            group.start_soon(registry.unregister, "tax")
            await anyio.sleep(0.1)
            store.may_go_on.set()
            await anyio.sleep(60.0)
            assert await AgentRegistry(store).find() == [BANK]
            assert not await store.is_held("vivavoce.agents/tax")
            assert registry.registered == (BANK,)

    run_virtual(main())


def test_any_failure_of_a_store_costs_one_renewal_only() -> None:
    class Failing(InProcessStore):
        fails = 0

        async def hold(self, session_id: str, holder: str, seconds: float, *, takes_over: bool = False) -> bool:
            if self.fails:
                self.fails -= 1
                raise ConnectionError("a store of the application's own")
            return await super().hold(session_id, holder, seconds, takes_over=takes_over)

    async def main() -> None:
        store = Failing()
        async with AgentRegistry(store) as registry:
            await registry.register(TAX)
            await registry.register(BANK)
            store.fails = 1
            await anyio.sleep(60.0)
            assert await registry.find() == [BANK, TAX]
            store.fails = 1
        assert [card.id for card in await AgentRegistry(store).find()] == ["tax"]  # for up to 15 s

    run_virtual(main())


def test_a_store_that_hangs_delays_the_close_for_a_short_time_only(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        store = Slow()
        registry = AgentRegistry(store)
        for number in range(100):
            await registry.register(AgentCard(f"agent-{number}", "ws://h:1/"))
        store.may_go_on = anyio.Event()
        began = anyio.current_time()
        await registry.aclose()
        assert anyio.current_time() - began <= CLOSE_LIMIT + REMOVAL_LIMIT

    run_virtual(main())
    assert "stay registered for up to 15 s" in caplog.text


async def test_an_entry_that_cannot_be_read_hides_no_other(caplog: pytest.LogCaptureFixture) -> None:
    store = InProcessStore()
    async with AgentRegistry(store) as registry:
        await registry.register(TAX)
        for id, text in (("newer", '{"id": "newer", "url": "ws://h:1/", "color": "red"}'), ("broken", "secret")):
            await store.hold(f"vivavoce.agents/{id}", "another", 15.0)
            await store.write(CARDS, id, text)
        assert await registry.find(domain="finance") == [TAX]
        assert await registry.find(id="broken") == []
        assert [card.id for card in await registry.find()] == ["newer", "tax"]
    assert "An entry of the agent registry cannot be read" in caplog.text
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    "wrong",
    [
        {"id": ""},
        {"url": "http://h/"},
        {"url": "tax"},
        {"domain": None},
        {"capabilities": "tax"},
        {"dialogues": [1]},
    ],
)
def test_a_wrong_card_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=rf"\b{next(iter(wrong))}\b"):
        AgentCard(**{"id": "tax", "url": "ws://h:1/", **wrong})


async def test_a_wrong_store_or_card_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="store must be SessionStore"):
        AgentRegistry("redis://h")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="card must be AgentCard"):
        await AgentRegistry().register("tax")  # type: ignore[arg-type]

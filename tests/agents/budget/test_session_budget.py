"""The budget of a session: its prices, its store, snapshots, and other processes. One token costs one."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio
import pytest

from kit.memory import ScriptedStore, session_with, started
from vivavoce.agents import Agent, AgentOverrides, AgentSession, MemoryOptions, SessionOptions
from vivavoce.agents.budget import Budget, BudgetOptions, Price
from vivavoce.agents.events import BudgetExceeded, BudgetWarning, ErrorOccurred
from vivavoce.agents.memory import InProcessStore
from vivavoce.agents.memory.stores.store import Change, Place
from vivavoce.agents.replies import Markdown
from vivavoce.agents.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, VirtualClock, run_virtual
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines import CascadingPipeline, FallbackLLM, RealtimePipeline
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.base import LLM
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedVAD

Test = Callable[[], Coroutine[Any, Any, None]]
T = TypeVar("T")

TOKEN = Price(million_input=1e6, million_output=1e6, audio_minute=0, million_characters=0)
PRICES = {"scripted": TOKEN}


def virtually(test: Test) -> Callable[[], None]:
    """Run a test in virtual time."""

    def run() -> None:
        run_virtual(test())

    run.__name__ = test.__name__
    return run


def budget(cost: float = 100, **options: Any) -> BudgetOptions:
    return BudgetOptions(cost=cost, prices=PRICES, **options)


def with_budget(store: InProcessStore | None = None, options: BudgetOptions | None = None) -> AgentSession[Any]:
    return session_with(MemoryOptions(store=store), budget=options or budget())


# --- components without a price


class OtherLLM(ScriptedLLM):
    provider = "other"

    @property
    def model(self) -> str:
        return "large"


class OtherTTS(ScriptedTTS):
    provider = "other"


class OtherRealtime(ScriptedRealtimeModel):
    provider = "other"


def cascade(llm: LLM | None = None, tts: ScriptedTTS | None = None) -> Pipeline:
    return CascadingPipeline(stt=ScriptedSTT(), llm=llm or ScriptedLLM(), tts=tts or ScriptedTTS(), vad=ScriptedVAD())


def session_of(pipeline: Pipeline, agent: Agent | None = None, **options: Any) -> AgentSession[Any]:
    given = BudgetOptions(**{"cost": 1.0, "prices": PRICES, **options})
    session_options = SessionOptions(budget=given, clock=VirtualClock())
    return AgentSession(agent or Agent("Help."), pipeline, options=session_options)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: cascade(OtherLLM()), "the llm 'other/large'"),
        (lambda: cascade(tts=OtherTTS()), "the tts 'other'"),
        (lambda: cascade(FallbackLLM([ScriptedLLM(), OtherLLM()])), "the llm 'other/large'"),
        (lambda: RealtimePipeline(OtherRealtime()), "the realtime_model 'other'"),
        (
            lambda: RealtimePipeline(
                ScriptedRealtimeModel(), fallback=cascade(OtherLLM()), tts=ScriptedTTS(), stt=ScriptedSTT()
            ),
            "the realtime_model 'scripted'",
        ),
    ],
)
def test_a_cost_limit_refuses_a_component_without_a_price(make: Callable[[], Pipeline], named: str) -> None:
    with pytest.raises(ConfigurationError, match=named):
        session_of(make())


def test_a_fallback_of_the_pipeline_needs_prices_too() -> None:
    pipeline = RealtimePipeline(ScriptedRealtimeModel(), fallback=cascade(OtherLLM()))
    prices = {"scripted": Price(million_audio_input=1, million_audio_output=1, audio_minute=1, million_characters=1)}
    with pytest.raises(ConfigurationError, match="the llm 'other/large'"):
        session_of(pipeline, prices=prices)


@virtually
async def test_without_a_cost_limit_no_price_is_needed() -> None:
    session_of(cascade(OtherLLM()), cost=-1, prices=None, latency=2.0)


@virtually
async def test_the_components_of_an_agent_need_prices_at_the_start_and_in_a_handoff() -> None:
    unpriced = Agent("Help.", overrides=AgentOverrides(llm=OtherLLM()))
    with pytest.raises(ConfigurationError, match="the llm 'other/large'"):
        session_of(cascade(), unpriced)
    with pytest.raises(ConfigurationError, match="the llm 'other/large'"):
        _ = session_of(cascade()).update_agent(unpriced)


@virtually
async def test_another_component_or_pipeline_needs_a_price_while_the_call_runs() -> None:
    session = session_of(cascade())
    await session.start(LocalTransport(VirtualClock()))
    with pytest.raises(ConfigurationError, match=r"the llm 'other/large'; add it to BudgetOptions.prices"):
        _ = session.update_components(llm=OtherLLM())
    with pytest.raises(ConfigurationError, match="the llm 'other/large'"):
        _ = session.update_pipeline(cascade(OtherLLM()))
    await session.update_components(llm=ScriptedLLM())
    await session.close()


@virtually
async def test_a_cost_limit_that_is_set_later_needs_prices_too() -> None:
    session = session_of(cascade(OtherLLM()), cost=-1, prices=PRICES)
    await session.start(LocalTransport(VirtualClock()))
    with pytest.raises(ConfigurationError, match="the llm 'other/large'"):
        await session.budget.set_allocation(cost=5)
    assert (await session.budget.allocation())["cost"] == -1
    await session.close()


# --- the methods


@virtually
async def test_limits_and_use_are_read_and_changed_by_blues_names() -> None:
    session = with_budget()
    await started(session)
    used = session.budget
    assert await used.allocation() == {"cost": 100.0, "accuracy": -1.0, "latency": -1.0}
    assert await used.set_allocation(cost=200, latency=2.5)
    assert not await used.set_allocation(cost=300, latency=9, nx=True)
    assert await used.set_allocation(accuracy=0.5, cost=300, nx=True)
    assert not await used.set_allocation()
    assert await used.allocation() == {"cost": 200.0, "accuracy": 0.5, "latency": 2.5}
    await used.update_use(cost=1.5, accuracy=0.75, latency=0.5)
    await used.update_use(cost=2)
    assert await used.use() == {"cost": 3.5, "accuracy": 0.75, "latency": 0.5}
    assert session.extension(BudgetOptions) is used is session.budget
    await session.close()


@pytest.mark.parametrize("given", [{"cost": -3}, {"latency": float("nan")}, {"accuracy": 2}, {"cost": 1e308}])
def test_bad_amounts_are_refused_before_the_store_is_reached(given: dict[str, Any]) -> None:
    async def main() -> None:
        store = ScriptedStore()
        session = with_budget(store)
        await started(session)
        async with Budget.attach(store, "call") as other:
            calls = store.calls
            for one in (session.budget, other):
                with pytest.raises(ValueError, match="got"):
                    await one.set_allocation(**given)
                with pytest.raises(ValueError, match="got"):
                    await one.update_use(**given)
            assert store.calls == calls
        await session.close()

    run_virtual(main())


_NO_BUDGET = r"has no budget; start it with SessionOptions\(budget=BudgetOptions"


def test_the_budget_of_memory_options_says_where_it_is_now() -> None:
    with pytest.raises(ConfigurationError, match=r"is SessionOptions\(budget=…\) now"):
        MemoryOptions(budget=BudgetOptions())  # type: ignore[arg-type]  # that is the test


@virtually
async def test_without_a_budget_there_are_no_limits_and_none_can_be_set() -> None:
    store = InProcessStore(clock=VirtualClock())
    session = session_with(MemoryOptions(store=store))
    await started(session)
    async with Budget.attach(store, "call") as other:
        assert (await other.allocation())["cost"] == -1
        assert (await other.use())["cost"] == 0
        assert await other.usage() == {}
        for change in (other.set_allocation, other.update_use):
            with pytest.raises(ConfigurationError, match=_NO_BUDGET):
                await change(cost=1)
    with pytest.raises(ConfigurationError, match=_NO_BUDGET):
        _ = session.budget
    await session.close()


# --- another process


@virtually
async def test_another_process_reads_the_budget_and_changes_it_within_a_second_or_so() -> None:
    store = InProcessStore(clock=VirtualClock())
    session = with_budget(store)
    await started(session)
    mine = session.budget
    await mine.update_use(cost=10, accuracy=1.0)
    async with Budget.attach(store, "call") as other:
        await _pass()
        assert await other.use() == {"cost": 10.0, "accuracy": 1.0, "latency": None}
        await other.update_use(cost=5, accuracy=0.5)
        assert await other.use() == {"cost": 15.0, "accuracy": 0.75, "latency": None}
        assert await other.set_allocation(cost=50)
        assert not await other.set_allocation(cost=60, nx=True)
        await _pass(1.1)
        assert await mine.use() == {"cost": 15.0, "accuracy": 0.75, "latency": None}
        assert await mine.allocation() == await other.allocation()
        await mine.set_allocation(cost=70)
        await _pass(3.0)
        assert (await other.allocation())["cost"] == (await mine.allocation())["cost"] == 70
        assert await other.use() == await mine.use()
    await session.close()


@virtually
async def test_a_limit_without_prices_that_another_process_sets_is_an_error_event_and_not_taken() -> None:
    store = InProcessStore(clock=VirtualClock())
    session = with_budget(store, BudgetOptions(latency=2.0))
    errors: list[ErrorOccurred] = []
    session.on(ErrorOccurred, errors.append)
    await started(session)
    await _pass()
    async with Budget.attach(store, "call") as other:
        await other.set_allocation(cost=50)
        await _pass(5.0)
    assert [event.source for event in errors] == ["budget"]
    assert (await session.budget.allocation())["cost"] == -1
    await session.close()


@virtually
async def test_a_store_that_is_down_holds_up_no_decision_and_gets_the_use_when_it_is_back() -> None:
    store = ScriptedStore()
    session = with_budget(store)
    seen: list[str] = []
    session.on(BudgetWarning, lambda event: seen.append("near"))
    session.on(BudgetExceeded, lambda event: seen.append("reached"))
    await started(session)
    store.hangs = True
    await session.budget.update_use(cost=85)
    await _pass(0.01)
    assert seen == ["near"]
    await _pass(20.0)
    store.hangs = False
    await _pass(10.0)
    async with Budget.attach(store, "call") as other:
        assert (await other.use())["cost"] == 85
    await session.close()


@virtually
async def test_a_store_that_can_be_read_but_takes_no_writes_for_long_loses_none_of_the_session_s_other_writes() -> None:
    store = ScriptedStore()
    session = with_budget(store)
    await started(session)
    store.is_full = True
    await session.memory.post(Markdown("hi"))
    for _ in range(1200):
        await session.budget.update_use(cost=0.0625)
        await _pass(1.0)
    store.is_full = False
    await _pass(20.0)
    async with Budget.attach(store, "call") as other:
        assert (await other.use())["cost"] == 75.0
    assert len(await store.records(Place("call", "parts"), 0, 10)) == 1
    assert (await session.close()).lost_writes == 0


@virtually
async def test_use_that_comes_while_the_use_is_being_written_reaches_the_store_too() -> None:
    store = SlowStore()
    session = with_budget(store)
    await started(session)
    await _pass(1.0)
    for _ in range(3):
        await session.budget.update_use(cost=1)
        await session.budget.set_allocation(latency=1 + (await session.budget.use())["cost"])  # type: ignore[operator]
        await _pass(0.15)
    await _pass(2.0)
    async with Budget.attach(store, "call") as other:
        assert (await other.use())["cost"] == 3.0
        assert (await other.allocation())["latency"] == 4.0
    await session.close()


class SlowStore(ScriptedStore):
    """A store that reads an entry a while before it changes it."""

    async def change(self, place: Place, entry: str, change: Change[T]) -> T:
        after, result = change(await super().read(place, entry))
        await anyio.sleep(0.2)
        await super().change(place, entry, lambda _: (after, None))
        return result


# --- speech, and the voice that spoke it


@virtually
async def test_speech_counts_for_the_voice_that_spoke_it_also_when_the_voice_changes_meanwhile() -> None:
    session = session_of(cascade(), cost=-1, latency=9.0)
    await session.start(LocalTransport(VirtualClock()))
    first = "Word after word after word. " * 20
    words = session.say(first)
    await _pass(2.0)
    change = session.update_components(tts=OtherTTS())
    await _pass(1.0)
    await session.interrupt()
    await words
    await change
    await session.say("Seven.")
    usage = await session.budget.usage()
    assert usage["other"].tts_characters == len("Seven.")
    assert usage["scripted"].tts_characters > len("Seven.")
    await session.close()


# --- the session


class Keyless(LocalTransport):
    def check_hangup(self) -> None:
        raise ConfigurationError("set LIVEKIT_API_KEY")


@virtually
async def test_a_budget_that_is_to_hang_up_needs_a_transport_that_can_which_the_start_checks() -> None:
    session = session_with(budget=budget(then="hangup"))
    with pytest.raises(ConfigurationError, match="LIVEKIT_API_KEY"):
        await session.start(Keyless(VirtualClock()))
    assert session.agent_state.value == "closed"


@virtually
async def test_a_budget_begins_no_memory() -> None:
    session = session_with(budget=budget())
    await started(session)
    await session.budget.update_use(cost=1)
    assert list(session.snapshot()["extensions"]) == ["budget"]
    report = await session.close()
    assert "memory" not in [step.name for step in report.steps]


async def _pass(seconds: float = 0.1) -> None:
    await anyio.sleep(seconds)

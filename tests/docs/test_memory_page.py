"""docs/memory.md: later calls read the store and continue a conversation; the prices are those that a session needs."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from kit.servers.redis_server import RedisServer, running_redis_server
from vivavoce.agents import Agent, AgentSession, MemoryOptions, SessionOptions, Worker
from vivavoce.agents.budget import Price
from vivavoce.agents.memory import SessionStore
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.agents.transports import TextTransport
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import openai, silero

TEXT = (Path(__file__).parents[2] / "docs" / "memory.md").read_text(encoding="utf-8")
STORE, GOES_ON, BUDGET = re.findall(r"^```python\n(.*?)^```", TEXT, flags=re.M | re.S)


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with running_redis_server() as server:
        yield server


async def call(store: SessionStore, user: str, day: str) -> None:
    """Have a caller book a day."""
    options = SessionOptions(memory=MemoryOptions(store=store, user=user))
    async with SessionHarness(Agent("Help."), ScriptedLLM(), options=options) as harness:
        await harness.session.memory.data.set("booking.day", day)


async def test_a_later_call_finds_the_day_of_its_user_in_redis(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REDIS_URL", f"unix://{redis.socket}")
    shown: dict[str, Any] = {"__name__": "app"}
    exec(STORE, shown)
    assert isinstance(shown["worker"], Worker)
    shared: dict[str, Any] = {}
    shown["prewarm"](shared)
    store = shared["store"]
    await call(store, "anna", "friday")
    await call(store, "", "sunday")
    assert await shown["last_day"](store, "anna") == "friday"
    assert await shown["last_day"](store, "ben") is None
    assert await shown["last_day"](store, "") is None  # though a caller without a number has booked
    await store.aclose()


class Job:
    """The part of a job's context that the page's entrypoint uses."""

    def __init__(self) -> None:
        self.callbacks: list[Callable[[], Awaitable[None]]] = []

    def add_shutdown_callback(self, callback: Callable[[], Awaitable[None]]) -> None:
        self.callbacks.append(callback)


async def test_a_later_call_goes_on_with_the_agent_of_the_call_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    calls: list[InWriting] = []

    class InWriting(AgentSession[None]):
        async def start(self, *given: Any, **more: Any) -> None:
            calls.append(self)
            await super().start(TextTransport(), **more)

    shown: dict[str, Any] = {"pipeline": CascadingPipeline(llm=ScriptedLLM())}
    exec(GOES_ON, shown)
    shown["AgentSession"] = InWriting
    job = Job()
    await shown["entrypoint"](job)
    await calls[0].update_agent(shown["Billing"]("You help with bills."))
    await calls[0].close()
    shown["pipeline"] = CascadingPipeline(llm=ScriptedLLM())
    await shown["entrypoint"](job)
    assert isinstance(calls[1].agent, shown["Billing"])
    words = [message.content for message in calls[1].history.messages("assistant")]
    assert words == ["Hello, a table for when?", "Hello again. Where were we?"]
    await calls[1].close()
    for callback in job.callbacks:
        await callback()


def test_the_prices_shown_are_enough_for_the_default_models(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    shown: dict[str, Any] = {}
    exec(BUDGET, shown)
    pipeline = CascadingPipeline(vad=silero.VAD(), stt=openai.STT(), llm=openai.LLM(), tts=openai.TTS())
    AgentSession[None](Agent("Help."), pipeline, options=shown["options"])  # else its error names the price


def test_every_field_of_a_price_is_in_the_table() -> None:
    (table,) = re.findall(r"^\| field \|.*\n\|.*\n((?:\|.*\n)+)", TEXT, flags=re.M)
    named = [name for row in table.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])]
    assert sorted(named) == sorted(each.name for each in fields(Price))

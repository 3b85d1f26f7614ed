"""A connection that is replaced, at its limit or after a loss: the length of the deaf gap, and its limits."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing

import anyio
import pytest

from vivavoce.pipelines.core.errors import ProviderConnectionError, ProviderError, ProviderTimeoutError
from vivavoce.pipelines.events import PipelineEvent, PipelineFailed, PipelineReplaced
from vivavoce.pipelines.llm.base import Done, GenerateRequest
from vivavoce.pipelines.llm.chat_context import ChatContext
from vivavoce.pipelines.realtime import RealtimePipeline, RealtimePipelineConnection
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities, RealtimeEnding, RealtimeEvent, RealtimeSetup
from vivavoce.pipelines.testing import ScriptedCaller, ScriptedRealtimeModel, ScriptedVAD
from vivavoce.pipelines.testing.scripted_realtime import ScriptedRealtimeConnection

REQUEST = GenerateRequest(context=ChatContext())
LOST = ProviderConnectionError("lost", provider="scripted")

Timed = list[tuple[float, PipelineEvent]]
Serve = Callable[..., Timed]


class Slow(ScriptedRealtimeModel):
    """A model whose connections take `close_delay` to close; then their events hang, or end with `final`."""

    def __init__(
        self,
        *,
        close_delay: float = 0.0,
        hangs: bool = False,
        final: ProviderError | None = None,
        open_delay: float = 0.0,
        updates: bool = True,
    ) -> None:
        super().__init__("Sure.", open_delay=open_delay, capabilities=RealtimeCapabilities(updates=updates))
        self.close_delay = close_delay
        self.hangs = hangs
        self.final = final

    def connect(self, setup: RealtimeSetup) -> ScriptedRealtimeConnection:
        return SlowConnection(self, setup)


class SlowConnection(ScriptedRealtimeConnection):
    def __init__(self, model: Slow, setup: RealtimeSetup) -> None:
        super().__init__(model, setup)
        self._slow = model

    async def events(self) -> AsyncIterator[RealtimeEvent]:
        async for event in super().events():
            yield event
        if self._slow.hangs:
            await anyio.sleep_forever()
        if self._slow.final is not None:
            raise self._slow.final

    async def aclose(self) -> None:
        await anyio.sleep(self._slow.close_delay)
        await super().aclose()


def replaced(events: Timed) -> list[PipelineReplaced]:
    return [event for _, event in events if isinstance(event, PipelineReplaced)]


def one_gap(events: Timed, reason: str) -> float:
    """The gap of the one replacement that there was, for that reason."""
    [event] = replaced(events)
    assert (event.component, event.reason) == ("realtime_model", reason)
    return event.gap


def failures(events: Timed) -> list[tuple[float, PipelineFailed]]:
    return [(at, event) for at, event in events if isinstance(event, PipelineFailed)]


async def answer(connection: RealtimePipelineConnection) -> list[object]:
    async with aclosing(connection.generate(REQUEST)) as items:
        return [item async for item in items]


def test_events_that_do_not_end_with_their_connection_are_left_within_a_second_and_named(serve: Serve) -> None:
    model = Slow(hangs=True)

    async def talk(connection: RealtimePipelineConnection) -> None:
        await anyio.sleep(1.0)
        model.emit(RealtimeEnding(0.0))
        await anyio.sleep(5.0)
        assert (await answer(connection))[-1] == Done()

    events = serve(RealtimePipeline(model), talk)
    [(at, failure)] = failures(events)
    assert at == pytest.approx(2.0)
    assert isinstance(failure.error, ProviderTimeoutError)
    assert "events did not end" in str(failure.error)
    assert failure.recovered
    assert one_gap(events, "limit") == pytest.approx(1.0)
    assert len(model.connections) == 2


def test_a_connection_that_was_replaced_is_no_loss_whatever_it_ends_with(serve: Serve) -> None:
    model = Slow(close_delay=0.2, final=ProviderError("gone", provider="scripted"))

    async def talk(connection: RealtimePipelineConnection) -> None:
        model.emit(RealtimeEnding(0.0))
        await anyio.sleep(3.0)
        assert (await answer(connection))[-1] == Done()

    events = serve(RealtimePipeline(model), talk)
    assert failures(events) == []
    assert one_gap(events, "limit") == pytest.approx(0.2)


def test_the_gap_of_a_replacement_is_the_old_ones_close_and_what_is_said_in_it_reaches_the_new_one(
    serve: Serve,
) -> None:
    model = Slow(close_delay=0.4, open_delay=0.7)  # opened beforehand, which costs nothing

    async def talk(connection: RealtimePipelineConnection) -> None:
        model.emit(RealtimeEnding(0.0))
        await anyio.sleep(0.8)  # 0.1 into the gap
        assert len(model.connections) == 2
        await ScriptedCaller(connection.push_audio, []).run(0.2)
        items = await answer(connection)
        assert items[-1] == Done()
        assert model.connections[0].record.pushed_seconds == 0.0
        assert model.connections[1].record.pushed_seconds == pytest.approx(0.2, abs=0.021)
        await anyio.sleep(1.0)

    assert one_gap(serve(RealtimePipeline(model), talk), "limit") == pytest.approx(0.4)


def test_a_turn_that_is_committed_in_the_gap_is_heard_by_the_new_connection(serve: Serve) -> None:
    model = Slow(close_delay=0.9)

    async def talk(connection: RealtimePipelineConnection) -> None:
        await anyio.sleep(1.0)
        model.emit(RealtimeEnding(0.0))
        await ScriptedCaller(connection.push_audio, [(0.1, 0.4)]).run(0.7)
        connection.commit_audio()
        await anyio.sleep(1.0)

    serve(RealtimePipeline(model, vad=ScriptedVAD()), talk)
    first, second = model.connections
    assert first.record.commits == []
    assert second.record.commits == pytest.approx([1.9])
    assert second.record.pushed_seconds == pytest.approx(0.7, abs=0.021)


def test_the_gap_of_a_loss_counts_from_it_over_all_tries_to_the_connection_that_takes_audio(serve: Serve) -> None:
    model = Slow(open_delay=0.3)

    async def talk(_: RealtimePipelineConnection) -> None:
        await anyio.sleep(6.0)
        model.fail_open(LOST)
        model.fail()
        await anyio.sleep(5.0)

    events = serve(RealtimePipeline(model), talk)
    assert one_gap(events, "lost") == pytest.approx(0.3 + 0.5 + 0.3)  # a try that fails, the wait, one that does not
    assert [failure.recovered for _, failure in failures(events)] == [True]


def test_each_loss_has_a_gap_of_its_own_and_a_session_without_one_has_none(serve: Serve) -> None:
    model = Slow(open_delay=0.2)

    async def talk(_: RealtimePipelineConnection) -> None:
        await anyio.sleep(10.0)
        for _count in range(2):
            model.fail()
            await anyio.sleep(10.0)

    events = serve(RealtimePipeline(model), talk)
    assert [event.gap for event in replaced(events)] == pytest.approx([0.2, 0.2])

    async def nothing(_: RealtimePipelineConnection) -> None:
        await anyio.sleep(10.0)

    assert replaced(serve(RealtimePipeline(Slow()), nothing)) == []


def test_a_model_that_takes_no_new_instructions_is_replaced_for_them_and_says_so(serve: Serve) -> None:
    model = Slow(close_delay=0.25, updates=False)

    async def talk(connection: RealtimePipelineConnection) -> None:
        connection.update("Be long.", ())
        await anyio.sleep(3.0)

    assert one_gap(serve(RealtimePipeline(model), talk), "update") == pytest.approx(0.25)

"""Changes while a connection is being opened: the connection receives them when it begins."""

from __future__ import annotations

from collections.abc import Callable

import anyio
import anyio.lowlevel
import pytest

from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.errors import ProviderConnectionError
from vivavoce.pipelines.core.retry import RetryOptions
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities, RealtimeSetup
from vivavoce.pipelines.realtime_model.reconnecting import ReconnectingModel
from vivavoce.pipelines.testing import ScriptedRealtimeModel
from vivavoce.pipelines.testing.scripted_realtime import ScriptedRealtimeConnection

NAME = ChatMessage(role="user", content="my name is Ada")


class Conversation:
    """A model that connects at once, until `gate` is there and not set."""

    def __init__(self, *, updates: bool = True) -> None:
        self.model = _Gated(capabilities=RealtimeCapabilities(updates=updates))
        self.history = ChatContext([])
        self.instructions = "Be brief."
        self.connected = ReconnectingModel(
            self.model,
            setup=self._setup,
            on_event=lambda event: None,
            on_replaced=lambda gap, reason: None,
            on_failure=lambda error, recovered: None,
            clock=LoopClock(),
            retries=RetryOptions(waits=(0.0,)),
            open_limit=5.0,
        )

    def _setup(self, resume: str) -> RealtimeSetup:
        return RealtimeSetup(instructions=self.instructions, history=ChatContext(list(self.history)), resume=resume)


class _Gated(ScriptedRealtimeModel):
    gate: anyio.Event | None = None

    async def open(self, setup: RealtimeSetup) -> ScriptedRealtimeConnection:
        if self.gate is not None:
            await self.gate.wait()
        return await super().open(setup)


def lose(talk: Conversation) -> None:
    talk.model.fail(ProviderConnectionError("cut", provider="scripted"))


def replace(talk: Conversation) -> None:
    talk.connected.replace()


def run(talk: Conversation, end: Callable[[Conversation], None], meanwhile: Callable[[], None]) -> None:
    async def main() -> None:
        async with anyio.create_task_group() as group:
            await group.start(talk.connected.run)
            await anyio.wait_all_tasks_blocked()
            talk.model.gate = anyio.Event()
            end(talk)
            await anyio.wait_all_tasks_blocked()
            meanwhile()
            talk.model.gate.set()
            await anyio.wait_all_tasks_blocked()
            group.cancel_scope.cancel()

    anyio.run(main)


@pytest.mark.parametrize("end", [lose, replace])
def test_an_item_added_while_the_next_connection_is_opened_reaches_it(end: Callable[[Conversation], None]) -> None:
    talk = Conversation()

    def meanwhile() -> None:
        talk.history.append(NAME)
        talk.connected.append(NAME)

    run(talk, end, meanwhile)
    _, second = talk.model.connections
    assert second.record.appended == [NAME]


@pytest.mark.parametrize("end", [lose, replace])
def test_instructions_changed_while_the_next_connection_is_opened_reach_it(
    end: Callable[[Conversation], None],
) -> None:
    talk = Conversation()

    def meanwhile() -> None:
        talk.instructions = "Sing."

    run(talk, end, meanwhile)
    _, second = talk.model.connections
    assert second.setup.instructions == "Be brief."
    assert [instructions for instructions, _ in second.record.updates] == ["Be brief.", "Sing."]


@pytest.mark.parametrize("end", [lose, replace])
def test_a_model_that_takes_no_new_instructions_is_connected_to_once_more(end: Callable[[Conversation], None]) -> None:
    talk = Conversation(updates=False)

    def meanwhile() -> None:
        talk.instructions = "Sing."

    run(talk, end, meanwhile)
    assert [one.setup.instructions for one in talk.model.connections] == ["Be brief.", "Be brief.", "Sing."]

"""A scripted realtime server that keeps account of the calls in its conversation, and of their outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Collection
from contextlib import aclosing
from typing import Any

import anyio

from vivavoce.pipelines.llm.base import GenerateRequest, LLMEvent
from vivavoce.pipelines.llm.chat_context import ChatItem, FunctionCall, FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.realtime_model.base import RealtimeSetup
from vivavoce.pipelines.testing import ScriptedRealtimeModel
from vivavoce.pipelines.testing.script import Step, StepItem
from vivavoce.pipelines.testing.scripted_realtime import ScriptedRealtimeConnection
from vivavoce.pipelines.tts.base import AudioChunk


class LedgerModel(ScriptedRealtimeModel):
    """A scripted model with an account of its calls.

    Args:
        waits: Whether its server answers nothing while a call has no output.
        default: The answer to requests behind the end of the script; None: they are an error.
    """

    def __init__(self, *steps: Step, waits: bool = False, default: str | None = None, **options: Any) -> None:
        super().__init__(*steps, **options)
        self.waits = waits
        self._default = default
        self.ledgers: list[LedgerConnection] = []
        """All connections ever opened, oldest first."""

    def connect(self, setup: RealtimeSetup) -> LedgerConnection:
        """Return a connection with an account."""
        self.ledgers.append(LedgerConnection(self, setup))
        return self.ledgers[-1]

    def next_step(self, request: GenerateRequest) -> tuple[StepItem, ...]:
        """Take the next step, or the default."""
        if not self.steps and self._default is not None:
            self.steps.append((self._default,))
        return super().next_step(request)

    @property
    def is_connected(self) -> bool:
        """Whether a connection is open."""
        return bool(self.connections) and not self.connections[-1].is_closed

    @property
    def outputs(self) -> list[tuple[str, str]]:
        """Call and output of everything that the newest connection was sent."""
        return [(item.call_id, item.output) for item in self.ledgers[-1].outputs]

    def check(self) -> None:
        """Check that each call of the last connection has exactly one output there, and of others at most one."""
        for number, ledger in enumerate(self.ledgers):
            is_last = ledger is self.ledgers[-1]
            left = [item.call_id for item in ledger.kept if item.output.startswith("Not run: ")]
            assert not (left and is_last), f"outputs of {left} wait for a request that does not come"
            sent = [*ledger.outputs, *ledger.kept]  # a session may close before it asks by its results
            outputs = Counter(item.call_id for item in sent) + Counter(ledger.record.not_run)
            calls = Counter(ledger.made)
            assert max(calls.values(), default=1) == 1, f"connection {number}: calls {ledger.made}"
            is_right = outputs == calls if is_last else outputs <= calls
            assert is_right, f"connection {number}: calls {ledger.made}, outputs {outputs}"


class LedgerConnection(ScriptedRealtimeConnection):
    """One connection."""

    def __init__(self, model: LedgerModel, setup: RealtimeSetup) -> None:
        super().__init__(model, setup)
        past = setup.history.items
        self.made = [item.call_id for item in past if isinstance(item, FunctionCall)]
        """The calls in its conversation."""
        self.kept: list[FunctionCallOutput] = []
        """Outputs that wait until an answer is requested, as the server begins to answer by them."""
        self._keeps = model.capabilities.answers_results
        self._is_asked = False
        self.outputs = [item for item in past if isinstance(item, FunctionCallOutput)]
        self._waits = model.waits
        self._changed = anyio.Event()

    @property
    def waits_for_outputs(self) -> bool:
        """Whether its server answers nothing while a call has no output."""
        return self._waits

    def append(self, item: ChatItem) -> None:
        """Note a call or an output."""
        super().append(item)
        if isinstance(item, FunctionCall):
            self.made.append(item.call_id)
        elif isinstance(item, FunctionCallOutput):
            self.kept.append(item)
            if self._is_asked or not self._keeps:
                self._send_kept()

    def calls_not_run(self, call_ids: Collection[str], *, is_asked: bool) -> None:
        """Send the outputs of calls for which no answer is requested."""
        if not is_asked:
            self._send_kept(call_ids)

    def _send_kept(self, call_ids: Collection[str] | None = None) -> None:
        sent = [item for item in self.kept if call_ids is None or item.call_id in call_ids]
        self.kept = [item for item in self.kept if item not in sent]
        self.outputs += sent
        self._changed.set()

    def refuse(self, reply_id: str) -> None:
        """Note the calls of a refused answer."""
        before = len(self.record.not_run)
        super().refuse(reply_id)
        self.made += self.record.not_run[before:]

    def generate(self, request: GenerateRequest) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Answer, once no call is open if the server waits."""
        self._is_asked = True
        self._send_kept()
        return self._noted(super().generate(request))

    def accept(self, reply_id: str) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        """Return an answer that the server began."""
        return self._noted(super().accept(reply_id))

    async def _noted(
        self, stream: AsyncGenerator[LLMEvent | AudioChunk, None]
    ) -> AsyncGenerator[LLMEvent | AudioChunk, None]:
        try:
            while self._waits and len(self.outputs) + len(self.record.not_run) < len(self.made):
                self._changed = anyio.Event()
                await self._changed.wait()
        finally:
            self._is_asked = False
        async with aclosing(stream) as items:
            async for item in items:
                if isinstance(item, ToolCall):
                    self.made.append(item.call_id)
                yield item

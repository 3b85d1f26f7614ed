"""The law of calls on Gemini Live's wire: each call that the server keeps gets exactly one output, whatever happens."""

from __future__ import annotations

from collections import Counter
from typing import Any, Literal

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.llm.chat_context import FunctionCallOutput
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.realtime_model.base import RealtimeEvent, RealtimeReplyStarted, RealtimeSetup
from vivavoce.plugins.google.answer import Answer
from vivavoce.plugins.google.wire import LiveWire, Send

REQUESTS = ("ask", "accept", "refuse", "read", "close", "output", "leave")
MESSAGES = ("call", "words", "heard", "complete", "cut", "cancel")
STEPS = (*REQUESTS, *MESSAGES, "rest")


class Conversation:
    """A session and a server at the two ends of a wire."""

    def __init__(self, turn_detection: Literal["local", "remote"], *, waits: bool) -> None:
        self.posted: list[Send] = []
        self.waiting: list[str] = []
        self.made: list[str] = []
        self.cancelled: set[str] = set()
        self._running: list[ToolCall] = []
        self._answer: Answer | None = None
        self._must_ask = turn_detection == "local"
        """Whether an answer is requested in any case: the session ends turns, or owes one to a result."""
        self._is_local = self._must_ask
        setup = RealtimeSetup(turn_detection=turn_detection)
        self.wire = LiveWire(setup, post=self.posted.append, report=self._report, await_more=lambda: None, waits=waits)

    def _report(self, event: RealtimeEvent) -> None:
        if isinstance(event, RealtimeReplyStarted):
            self.waiting.append(event.reply_id)

    def step(self, kind: str) -> None:
        """Take one step, if it is possible now."""
        match kind:
            case "ask":
                self.step("close")
                self._must_ask = self._is_local
                self._answer = self.wire.ask("")
            case "accept" if self.waiting:
                self.step("close")
                self._answer = self.wire.accept(self.waiting.pop())
            case "refuse" if self.waiting:
                self.wire.refuse(self.waiting.pop())
            case "read" if self._answer is not None:
                self._running += [item for item in self._answer.feed.take_unread() if isinstance(item, ToolCall)]
            case "close" if self._answer is not None:
                self.wire.give_up(self._answer)
                self._answer = None
            case "output" if self._running:
                call = self._running.pop(0)
                self._must_ask = True
                self.wire.append(FunctionCallOutput(call_id=call.call_id, name=call.name, output="done"))
            case "leave" if self._running:
                call = self._running.pop(0)
                self.wire.append(FunctionCallOutput(call_id=call.call_id, name=call.name, output="not run"))
                self.wire.calls_not_run({call.call_id}, is_asked=False)
            case "call":
                self.made.append(f"c{len(self.made)}")
                self._feed(toolCall={"functionCalls": [{"id": self.made[-1], "name": "weather", "args": {}}]})
            case "words":
                self._feed(serverContent={"outputTranscription": {"text": "one"}})
            case "heard":
                self._feed(serverContent={"inputTranscription": {"text": "hello"}})
            case "complete":
                self._feed(serverContent={"turnComplete": True})
            case "rest":
                self.wire.rest()
            case "cut":
                self._feed(serverContent={"interrupted": True, "turnComplete": True})
            case "cancel" if self.made:
                self.cancelled.add(self.made[-1])
                self._feed(toolCallCancellation={"ids": [self.made[-1]]})

    def end(self) -> None:
        """Let the session settle all that is left; it asks only if it must: for what came behind, then without."""
        self.step("close")
        while self.waiting:
            self.step("refuse")
        while self._running:
            self.step("leave")
        if self._must_ask:
            self.step("ask")
            self.step("ask")

    def _feed(self, **message: Any) -> None:
        self.wire.feed(types.LiveServerMessage.model_validate(message))

    @property
    def outputs(self) -> Counter[str]:
        """How many outputs of each call were sent."""
        sent = [one.arguments["function_responses"] for one in self.posted if one.method == "send_tool_response"]
        return Counter(response.id for responses in sent for response in responses)


@pytest.mark.parametrize("turn_detection", ["local", "remote"])
@pytest.mark.parametrize("waits", [False, True], ids=["goes on", "waits"])
@given(steps=st.lists(st.sampled_from(STEPS), max_size=25))
def test_each_call_that_the_server_keeps_gets_exactly_one_output(
    turn_detection: Literal["local", "remote"], waits: bool, steps: list[str]
) -> None:
    conversation = Conversation(turn_detection, waits=waits)
    for kind in steps:
        conversation.step(kind)
    conversation.end()
    for call_id in conversation.made:
        count = conversation.outputs[call_id]
        assert count <= 1 if call_id in conversation.cancelled else count == 1, (call_id, conversation.posted)

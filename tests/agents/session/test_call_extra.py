"""The extra of a tool call: it goes back with its call in each request, whatever keeps the conversation meanwhile."""

from __future__ import annotations

import logging
from typing import Any

import anyio
import pytest

from kit.graphs import RealtimeHarness
from kit.guards import Judge
from kit.keeping import Keeping
from kit.telemetry import Watching
from vivavoce.agents import Agent, ContentGuard, ContextWindow, SessionOptions, function_tool
from vivavoce.agents.session_watch import watch_scope
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.core.errors import ProviderConnectionError
from vivavoce.pipelines.llm.base import GenerateRequest
from vivavoce.pipelines.llm.chat_context import FunctionCall
from vivavoce.pipelines.llm.fallback import FallbackLLM
from vivavoce.pipelines.llm.tools import ToolCall

KINDS = pytest.mark.parametrize("kind", [SessionHarness, RealtimeHarness], ids=["cascade", "realtime"])

SIGNED = "signature-of-the-thoughts"


def signed(name: str = "look_up", arguments: str = "{}", *, call_id: str = "c1", extra: str = SIGNED) -> ToolCall:
    return ToolCall(call_id=call_id, name=name, arguments=arguments, extra=extra)


class Clerk(Agent):
    """Looks things up, and hands over to another clerk."""

    def __init__(self, id: str = "clerk") -> None:
        super().__init__("Help.", id=id)

    @function_tool
    async def look_up(self, seconds: float = 0.0) -> str:
        """Look something up."""
        await anyio.sleep(seconds)
        return "found"

    @function_tool
    async def hand_over(self) -> Agent:
        """Hand over."""
        return Clerk("billing")


def extras(request: GenerateRequest) -> list[str]:
    """Return the extras of the calls in a request, in order."""
    return [item.extra for item in request.context if isinstance(item, FunctionCall)]


def kept_extras(harness: SessionHarness) -> list[str]:
    return [item.extra for item in harness.session.history.items if isinstance(item, FunctionCall)]


@KINDS
def test_the_steps_of_a_turn_and_later_turns_have_the_extra_of_each_call(kind: type[SessionHarness]) -> None:
    pair = [signed(extra="first"), signed(call_id="c2", extra="")]
    harness = kind(Clerk(), ScriptedLLM(pair, [signed(call_id="c3", extra="second")], "Found.", "Bye.", delay=0.1))
    harness.caller.says("look it up", 0.5, 1.5)
    harness.caller.says("thanks", 5.0, 6.0)
    harness.run(until=9.0)
    assert kept_extras(harness) == ["first", "", "second"]
    assert [extras(request) for request in harness.llm.requests] == [
        [],
        ["first", ""],
        ["first", "", "second"],
        ["first", "", "second"],
    ]


@KINDS
def test_a_request_beside_a_call_that_still_runs_has_its_extra(kind: type[SessionHarness]) -> None:
    steps = [signed(arguments='{"seconds": 6.0}')]
    harness = kind(Clerk(), ScriptedLLM(steps, "It takes a moment.", "Found.", delay=0.1))
    harness.caller.says("look it up", 0.5, 1.5)
    harness.caller.says("are you there", 4.0, 5.0)
    harness.run(until=12.0)
    assert extras(harness.llm.requests[1]) == [SIGNED]
    assert kept_extras(harness) == [SIGNED]


@KINDS
def test_a_resumed_session_gives_it_back(kind: type[SessionHarness]) -> None:
    first = kind(Clerk(), ScriptedLLM([signed()], "Found.", delay=0.1))
    first.caller.says("look it up", 0.5, 1.5)
    snapshot: dict[str, Any] = {}

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(5.0)
        snapshot.update(harness.session.snapshot())

    first.run(scenario)
    second = kind(Clerk(), ScriptedLLM("Yes.", delay=0.1))
    second.resume_from = snapshot
    second.caller.says("and now", 0.5, 1.5)
    second.run(until=5.0)
    assert extras(second.llm.requests[0]) == [SIGNED]


@KINDS
def test_a_call_that_a_crash_broke_off_keeps_it(kind: type[SessionHarness]) -> None:
    store = Keeping()
    first = kind(Clerk(), ScriptedLLM([signed(arguments='{"seconds": 9.0}')], delay=0.1))
    first.caller.says("look it up", 0.5, 1.5)
    with watch_scope(store):
        first.run(until=4.0)
    kept = next(one for one in store.kept if one["open"] and one["open"]["calls"])
    assert kept["open"]["calls"][0]["extra"] == SIGNED
    second = kind(Clerk(), ScriptedLLM("I cannot tell.", delay=0.1))
    second.resume_from = kept
    second.run(until=4.0)
    assert extras(second.llm.requests[0]) == [SIGNED]
    del kept["open"]["calls"][0]["extra"]
    old = kind(Clerk(), ScriptedLLM("I cannot tell.", delay=0.1))
    old.resume_from = kept
    old.run(until=4.0)
    assert extras(old.llm.requests[0]) == [""]


def test_guards_a_window_and_a_handoff_leave_it_as_it_is() -> None:
    guard = ContentGuard(judge=Judge(0.1), caller=True, agent=True)
    options = SessionOptions(guard=guard, context_window=ContextWindow(max_items=8))
    hand_over = signed("hand_over", call_id="c2", extra="b")
    llm = ScriptedLLM(["One moment. ", signed()], ["And now. ", hand_over], "Billing here.", default="Fine.", delay=0.1)
    harness = SessionHarness(Clerk(), llm, options=options)
    harness.caller.says("look it up", 0.5, 1.5)
    harness.run(until=12.0)
    assert kept_extras(harness) == [SIGNED, "b"]
    assert extras(harness.llm.requests[-1]) == [SIGNED, "b"]


def test_a_fallback_hands_on_the_extras_of_all_its_members() -> None:
    class First(ScriptedLLM):
        provider = "first"

    class Second(ScriptedLLM):
        provider = "second"

    lost = ProviderConnectionError("down", provider="first")
    first = First([signed()], [lost])
    second = Second([signed(call_id="c2", extra="another one's")], "Found.")
    harness = SessionHarness(Clerk(), FallbackLLM([first, second]))
    harness.caller.says("look it up", 0.5, 1.5)
    harness.run(until=6.0)
    assert [extras(request) for request in second.requests] == [[SIGNED], [SIGNED, "another one's"]]


@KINDS
def test_logs_spans_events_and_reprs_do_not_show_it(
    kind: type[SessionHarness], caplog: pytest.LogCaptureFixture
) -> None:
    watching = Watching()
    options = SessionOptions(telemetry=watching.telemetry, capture_content=True)
    harness = kind(Clerk(), ScriptedLLM([signed()], "Found.", delay=0.1), options=options)
    harness.caller.says("look it up", 0.5, 1.5)
    with caplog.at_level(logging.DEBUG):
        harness.run(until=6.0)
    shown = [*(span.to_json() for span in watching.spans), *map(repr, harness.recording.events), caplog.text]
    shown += [repr(item) for item in harness.session.history.items]
    assert any("look_up" in text for text in shown)
    assert SIGNED not in "".join(shown)

"""Snapshot and resume: another session continues the conversation without any loss."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import anyio
import pytest
from pydantic import BaseModel, SecretStr

from kit.chat import outline
from vivavoce.agents import Agent, AgentSession, SessionOptions, function_tool
from vivavoce.agents.events import HistoryItemAdded
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, VirtualClock, run_virtual
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.media.frame import VideoFrame


class Host(Agent):
    def __init__(self, id: str | None = None) -> None:
        super().__init__("Take bookings.", id=id)
        self.entered = 0
        self.left = 0

    async def on_enter(self) -> None:
        self.entered += 1
        await self.session.say("Hello.")

    async def on_exit(self) -> None:
        self.left += 1

    @function_tool
    async def book(self, seconds: float = 0.0) -> str:
        """Book."""
        await anyio.sleep(seconds)
        return "booked"


@dataclass
class Caller:
    name: str = ""
    seen: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    wishes: list[str] = field(default_factory=list)


class Basket(BaseModel):
    items: dict[str, int] = {}
    token: SecretStr = SecretStr("hunter2")


CALL = ToolCall(call_id="c1", name="book", arguments="{}")


def call_for(seconds: float) -> ToolCall:
    return ToolCall(call_id="c1", name="book", arguments=json.dumps({"seconds": seconds}))


def first_call(*answers: Any, **fields: Any) -> SessionHarness:
    harness = SessionHarness(Host(), ScriptedLLM(*(answers or ("For when?",)), delay=0.1), **fields)
    harness.caller.says("a table", 1.5, 2.5)
    return harness


def saved(harness: SessionHarness) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(json.dumps(harness.session.snapshot()))
    return data


def resumed(snapshot: dict[str, Any], *answers: Any, **fields: Any) -> SessionHarness:
    harness = SessionHarness(fields.pop("agent", None) or Host(), ScriptedLLM(*answers, delay=0.1), **fields)
    harness.resume_from = snapshot
    harness.caller.says("friday", 0.5, 1.5)
    return harness


def userdata_after(given: object, new: object) -> Any:
    harness = SessionHarness(Host(), userdata=given).run()
    return resumed(saved(harness), "Fine.", userdata=new).run(until=4.0).session.userdata


def refuses(snapshot: Any, problem: str, *, userdata: object = None) -> None:
    """Check that a session refuses the snapshot before anything has begun, and can still be started."""

    async def main() -> None:
        harness = SessionHarness(Host(), ScriptedLLM())
        clock = VirtualClock()
        session = AgentSession(harness.agent, harness.pipeline, userdata=userdata, options=SessionOptions(clock=clock))
        with pytest.raises(ConfigurationError, match=problem):
            await session.start(LocalTransport(clock), resume_from=snapshot)
        assert session.history.items == ()
        await session.start(LocalTransport(clock))
        await session.close()

    run_virtual(main())


def test_a_resumed_session_goes_on_without_on_enter() -> None:
    first = first_call().run(until=6.0)
    harness = resumed(saved(first), "Booked.").run(until=5.0)
    harness.expect_history(
        ("assistant", "Hello."),
        ("user", "a table"),
        ("assistant", "For when?"),
        ("user", "friday"),
        ("assistant", "Booked."),
    )
    host = harness.agent
    assert isinstance(host, Host)
    assert (host.entered, host.left) == (0, 1)
    assert outline(harness.llm.requests[0].context) == ["Hello.", "a table", "For when?", "friday"]
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 1.9), ("speaking", 2.2), ("idle", 2.4))


def test_turn_ids_and_sequence_numbers_go_on_so_that_all_ids_stay_unique() -> None:
    first = first_call().run(until=6.0)
    harness = resumed(saved(first), "Booked.").run(until=5.0)
    items = harness.session.history.items
    assert [item.turn_id for item in harness.session.history.messages("user")] == ["turn_1", "turn_2"]
    assert [item.sequence for item in items] == [1, 2, 3, 4, 5]
    assert len({item.id for item in items}) == 5
    assert [turn.turn_id for turn in harness.session.turns] == ["turn_2"]
    third = resumed(saved(harness), "Bye.").run(until=5.0)
    assert third.session.history.items[-1].turn_id == "turn_3"


def test_restored_items_are_as_they_were_and_are_not_told_of_again() -> None:
    first = first_call().run(until=6.0)
    harness = resumed(saved(first), "Booked.").run(until=5.0)
    assert harness.session.history.items[:3] == first.session.history.items
    assert len(harness.recording.of(HistoryItemAdded)) == 2


def test_tools_work_after_a_resume_and_calls_before_it_are_sent_with_their_outputs() -> None:
    first = first_call([CALL], "Booked.").run(until=6.0)
    harness = resumed(saved(first), [CALL], "Again.").run(until=6.0)
    assert outline(harness.llm.requests[0].context) == [
        "Hello.",
        "a table",
        "call:c1",
        "out:c1",
        "Booked.",
        "friday",
    ]
    harness.expect_tools(("book", "booked"))
    assert harness.messages[-1] == ("assistant", "Again.")


def test_pictures_are_kept() -> None:
    picture = VideoFrame(b"\x00\xff", "image/png", 2, 1)

    async def look(harness: SessionHarness) -> None:
        harness.session.history.add_message("user", "this one", images=[picture])

    first = SessionHarness(Host()).run(look)
    harness = resumed(saved(first), "Nice.").run(until=5.0)
    assert harness.session.history.messages("user")[0].images == (picture,)


def taken_at(seconds: float, *answers: Any) -> dict[str, Any]:
    taken: list[dict[str, Any]] = []

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(seconds)
        taken.append(saved(harness))

    first_call(*answers).run(scenario, until=9.0)
    return taken[0]


def test_a_snapshot_in_the_middle_of_a_speech_holds_committed_items_only() -> None:
    snapshot = taken_at(3.3, "one two three four five six seven eight nine ten.")
    assert [item["content"] for item in snapshot["history"]["items"]] == ["Hello.", "a table"]


def test_a_snapshot_in_the_middle_of_a_tool_holds_no_call_without_its_output() -> None:
    snapshot = taken_at(4.0, [call_for(3.0)], "Booked.")
    assert [item["type"] for item in snapshot["history"]["items"]] == ["message", "message"]
    harness = resumed(snapshot, "I do not know whether it is booked.", "For Friday?").run(until=5.0)
    assert outline(harness.llm.requests[0].context)[:2] == ["Hello.", "a table"]
    assert [item.type for item in harness.llm.requests[0].context][2:] == ["function_call", "function_call_output"]
    assert harness.messages[-1] == ("assistant", "For Friday?")


def test_a_snapshot_can_be_taken_before_the_start_and_after_the_close() -> None:
    harness = first_call()
    session: AgentSession[Any] = AgentSession(Host(), harness.pipeline)
    assert session.snapshot()["history"]["items"] == []
    assert len(saved(first_call().run(until=6.0))["history"]["items"]) == 3


def test_after_a_handoff_the_conversation_goes_on_with_the_agent_that_had_it() -> None:
    async def hand_off(harness: SessionHarness) -> None:
        await harness.session.update_agent(Agent("Take the money.", id="Cashier"))

    snapshot = saved(first_call().run(hand_off, until=6.0))
    assert snapshot["agent"] == "Cashier"
    refuses(snapshot, r"with the agent 'Cashier', got 'Host'")
    harness = resumed(snapshot, "Paid.", agent=Agent("Take the money.", id="Cashier")).run(until=5.0)
    assert harness.messages[-1] == ("assistant", "Paid.")
    assert "agent_handoff" in [item.type for item in harness.session.history.items]


def test_a_resumed_session_hands_off() -> None:
    async def hand_off(harness: SessionHarness) -> None:
        await harness.session.update_agent(Agent("Take the money.", id="Cashier"))

    first = saved(first_call().run(until=6.0))
    harness = resumed(first, "Paid.").run(hand_off, until=5.0)
    assert harness.session.agent.id == "Cashier"
    host = harness.agent
    assert isinstance(host, Host)
    assert (host.entered, host.left) == (0, 1)
    harness.expect_outcomes("completed")


def test_a_resumed_session_says_what_it_is_told_to() -> None:
    first = first_call().run(until=6.0)

    async def scenario(harness: SessionHarness) -> None:
        await harness.session.say("We were cut off.")

    harness = SessionHarness(Host())
    harness.resume_from = saved(first)
    harness.run(scenario)
    assert harness.messages[-1] == ("assistant", "We were cut off.")


# --- userdata


@pytest.mark.parametrize("userdata", [{"name": "Ada", "visits": [1, 2]}, ["a"], "text", 5, True])
def test_plain_userdata_comes_back(userdata: object) -> None:
    assert userdata_after(userdata, None) == userdata


def test_sessions_that_go_on_from_one_snapshot_have_userdata_of_their_own() -> None:
    snapshot = SessionHarness(Host(), ScriptedLLM(), userdata={"wishes": []}).run().session.snapshot()

    async def wish(harness: SessionHarness) -> None:
        assert harness.session.userdata == {"wishes": []}
        harness.session.userdata["wishes"].append("tea")

    for _ in range(2):
        harness = SessionHarness(Host(), ScriptedLLM())
        harness.resume_from = snapshot
        harness.run(wish)
    assert snapshot["userdata"] == {"wishes": []}


def test_a_dataclass_comes_back_as_what_it_was_when_the_new_session_is_given_one() -> None:
    caller = Caller("Ada", datetime(2026, 5, 1, 12, tzinfo=UTC), ["window"])
    assert userdata_after(caller, Caller()) == caller


def test_a_dataclass_comes_back_as_plain_data_otherwise() -> None:
    assert userdata_after(Caller("Ada"), None) == {"name": "Ada", "seen": "2026-01-01T00:00:00Z", "wishes": []}


def test_a_pydantic_model_comes_back_without_its_secrets() -> None:
    snapshot = saved(SessionHarness(Host(), userdata=Basket(items={"pizza": 2})).run())
    assert "hunter2" not in json.dumps(snapshot)
    basket = resumed(snapshot, "Fine.", userdata=Basket()).run(until=4.0).session.userdata
    assert isinstance(basket, Basket)
    assert basket.items == {"pizza": 2}


def test_a_snapshot_without_userdata_leaves_what_the_session_was_given() -> None:
    assert userdata_after(None, {"mine": 1}) == {"mine": 1}


class Loop(list[Any]):
    """Holds itself."""

    def __init__(self) -> None:
        super().__init__()
        self.append(self)


@pytest.mark.parametrize(
    ("userdata", "place"),
    [
        ({"a": [1, object()]}, r"userdata\['a'\]\[1\] must be JSON data.*got object"),
        (Caller("Ada", wishes=[lambda: 1]), r"userdata\.wishes\[0\] must be.*got function"),  # type: ignore[list-item]  # that is the test
        (object(), "userdata must be.*got object"),
        (Basket.model_construct(items={"x": object()}), r"userdata\.items\['x'\] must be"),
        (b"\xff", "userdata must be.*got bytes"),
        (Loop(), "holds itself"),
    ],
)
def test_userdata_that_cannot_be_saved_is_named(userdata: object, place: str) -> None:
    session = AgentSession(Host(), first_call().pipeline, userdata=userdata)
    with pytest.raises(ConfigurationError, match=place):
        session.snapshot()


def test_userdata_that_does_not_fit_the_new_sessions_class_is_refused_without_its_content() -> None:
    snapshot = saved(SessionHarness(Host(), userdata={"name": ["hunter2"]}).run())
    with pytest.raises(ConfigurationError, match="does not make a Caller: name") as caught:
        resumed(snapshot, userdata=Caller()).run()
    assert "hunter2" not in str(caught.value)


def test_a_class_that_cannot_be_made_from_data_is_refused() -> None:
    @dataclass
    class Odd:
        what: "Unknown"  # type: ignore[name-defined]  # noqa: F821, UP037 - that is the test

    snapshot = saved(SessionHarness(Host(), userdata={"what": 1}).run())
    refuses(snapshot, "Odd cannot be made", userdata=Odd(1))


# --- refusals


def test_another_agent_is_refused_by_name() -> None:
    snapshot = saved(first_call().run(until=6.0))
    with pytest.raises(ConfigurationError, match=r"with the agent 'Host', got 'Cashier'"):
        resumed(snapshot, agent=Host(id="Cashier")).run()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda data: data | {"version": 4}, "version 1 to 3, got 4"),
        (lambda data: [], "must be what snapshot"),
        (lambda data: {}, "version 1 to 3, got None"),
        (lambda data: data | {"agent": None}, "got 'Host'"),
        (lambda data: data | {"version": 2, "memory": []}, "a snapshot's memory needs"),
        (lambda data: data | {"version": 2, "memory": {"id": 3, "private": {}}}, "a snapshot's memory needs"),
        (lambda data: data | {"extensions": None}, "needs 'extensions' as an object, got None"),
        (lambda data: data | {"extensions": {"memory": []}}, "a snapshot's memory needs"),
        (lambda data: data | {"extensions": {"memory": {"id": 3, "private": {}}}}, "a snapshot's memory needs"),
        (lambda data: data | {"counters": None}, "counters"),
        (lambda data: data | {"counters": {"items": 1.5, "turns": 1}}, "counters"),
        (lambda data: data | {"history": None}, "a history must be of version"),
        (lambda data: data | {"history": {"version": 1, "items": [{"type": "x"}]}}, r"items\[0\]\.type"),
    ],
)
def test_a_broken_snapshot_is_refused_before_anything_begins(
    change: Callable[[dict[str, Any]], Any], problem: str
) -> None:
    refuses(change(saved(first_call().run(until=6.0))), problem)


def test_a_session_with_a_history_of_its_own_is_not_resumed_over_it() -> None:
    snapshot = saved(first_call().run(until=6.0))

    async def main() -> None:
        clock = VirtualClock()
        session: AgentSession[Any] = AgentSession(Host(), first_call().pipeline, options=SessionOptions(clock=clock))
        session.history.add_message("system", "The caller is Ada.")
        with pytest.raises(ConfigurationError, match="empty history, got 1 items"):
            await session.start(LocalTransport(clock), resume_from=snapshot)

    run_virtual(main())

"""A session's history: added to by agent code, summarised, handed to a sink that may fail."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import pytest

from kit.chat import outline
from vivavoce.agents import (
    Agent,
    AgentSession,
    ChatContext,
    HistoryChange,
    MemoryHistorySink,
    SessionOptions,
    SqliteHistorySink,
    StopResponse,
    function_tool,
)
from vivavoce.agents.agent import CompletedTurn
from vivavoce.agents.core.write_queue import MAX_WAITING
from vivavoce.agents.events import ErrorOccurred, HistoryItemAdded, HistoryItemRemoved
from vivavoce.agents.history.feed import BATCH
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines import LLMSummariser
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError, SessionError
from vivavoce.pipelines.llm.chat_context import AgentHandoff, ConfigChange
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.media.frame import VideoFrame


class Flaky(MemoryHistorySink):
    """Fails or hangs on request."""

    def __init__(self) -> None:
        super().__init__()
        self.fails = False
        self.hangs = False
        self.writes: list[list[HistoryChange]] = []

    async def write(self, session_id: str, changes: Sequence[HistoryChange]) -> None:
        self.writes.append(list(changes))
        if self.hangs:
            await anyio.sleep_forever()
        if self.fails:
            raise OSError("disk full: hunter2")
        await super().write(session_id, changes)


def call_with(sink: Any, *answers: str, agent: Agent | None = None) -> SessionHarness:
    options = SessionOptions(history_sink=sink)
    harness = SessionHarness(agent or Agent("Help."), ScriptedLLM(*(answers or ("Sure.",)), delay=0.1), options=options)
    harness.caller.says("hello", 0.5, 1.5)
    return harness


def stored(harness: SessionHarness, sink: MemoryHistorySink) -> ChatContext:
    found: list[ChatContext] = []

    async def load() -> None:
        found.append(await sink.load(harness.session.id))

    anyio.run(load)
    return found[0]


def note(harness: SessionHarness, count: int) -> None:
    for number in range(count):
        harness.session.history.add_message("system", str(number))


# --- adding


def test_agent_code_adds_text_pictures_and_speakers() -> None:
    picture = VideoFrame(b"abc", "image/png")

    async def scenario(harness: SessionHarness) -> None:
        history = harness.session.history
        message = history.add_message("user", "this one", images=[picture], speaker="Ada")
        assert history.items == (message,)
        assert message.sequence == 1
        assert message.created_at > 1e9
        await harness.session.reply("Describe it.")

    harness = SessionHarness(Agent("Help."), ScriptedLLM("Nice.")).run(scenario)
    sent = harness.llm.requests[0].context.messages()[0]
    assert (sent.images, sent.speaker, sent.content) == ((picture,), "Ada", "this one")
    assert harness.session.history.messages("user")[0] is sent


def test_a_history_can_be_filled_by_on_enter_and_read_after_the_close() -> None:
    class Prepared(Agent):
        async def on_enter(self) -> None:
            self.session.history.add_message("system", "The caller is Ada.")

    harness = call_with(None, agent=Prepared("Help.")).run(until=5.0)
    harness.expect_history(("system", "The caller is Ada."), ("user", "hello"), ("assistant", "Sure."))


def test_a_sync_tool_adds_from_its_thread() -> None:
    sequences: list[int] = []

    class Clerk(Agent):
        @function_tool
        def note(self) -> str:
            """Note something."""
            sequences.append(self.session.history.add_message("system", "noted").sequence)
            return "ok"

    call = ToolCall(call_id="c1", name="note", arguments="{}")
    harness = SessionHarness(Clerk("Help."), ScriptedLLM([call], "Done.", delay=0.1))
    harness.caller.says("hello", 0.5, 1.5)
    harness.run(until=5.0)
    assert outline(harness.session.history.items) == ["hello", "noted", "call:c1", "out:c1", "Done."]
    assert sequences == [2]
    assert len(harness.recording.of(HistoryItemAdded)) == 5


def test_handoffs_and_config_changes_are_told_and_not_sent_as_words() -> None:
    async def book(day: str) -> str:
        """Book."""
        return day

    async def pay(amount: int) -> str:
        """Pay."""
        return str(amount)

    async def scenario(harness: SessionHarness) -> None:
        cashier = Agent("Help.", id="Cashier", tools=[book])
        await harness.session.update_agent(cashier)
        cashier.update_instructions("Be curt.")
        cashier.update_tools([pay])

    harness = SessionHarness(Agent("Help.", id="Host")).run(scenario)
    handoff, change, tools = harness.session.history.items
    assert isinstance(handoff, AgentHandoff)
    assert (handoff.old_agent, handoff.new_agent) == ("Host", "Cashier")
    assert isinstance(change, ConfigChange)
    assert (change.agent, change.instructions, change.tools_added) == ("Cashier", "Be curt.", ())
    assert isinstance(tools, ConfigChange)
    assert (tools.instructions, tools.tools_added, tools.tools_removed) == (None, ("pay",), ("book",))
    assert [event.item for event in harness.recording.of(HistoryItemAdded)] == [handoff, change, tools]
    assert harness.messages == []


# --- summarising


def test_a_summary_takes_the_place_of_old_items_and_listeners_are_told() -> None:
    async def scenario(harness: SessionHarness) -> None:
        note_dialogue(harness)
        await harness.session.history.summarise(LLMSummariser(harness.llm), keep_items=2)
        harness.session.history.add_message("user", "q4")

    sink = MemoryHistorySink()
    harness = SessionHarness(
        Agent("Help."), ScriptedLLM("Three things."), options=SessionOptions(history_sink=sink)
    ).run(scenario)
    texts = ["What was said before, in short: Three things.", "q3", "a3", "q4"]
    assert outline(harness.session.history.items) == texts
    assert [event.item.sequence for event in harness.recording.of(HistoryItemRemoved)] == [1, 2, 3, 4]
    assert outline(stored(harness, sink)) == texts


def note_dialogue(harness: SessionHarness) -> None:
    for number in range(1, 4):
        harness.session.history.add_message("user", f"q{number}")
        harness.session.history.add_message("assistant", f"a{number}")


def test_a_summary_that_fails_leaves_the_history_as_it_was() -> None:
    async def empty(_: ChatContext) -> str:
        return ""

    async def scenario(harness: SessionHarness) -> None:
        note_dialogue(harness)
        with pytest.raises(ProviderError):
            await harness.session.history.summarise(empty, keep_items=2)

    harness = SessionHarness(Agent("Help.")).run(scenario)
    assert len(harness.messages) == 6


def test_what_is_added_while_a_summary_is_made_stays_and_what_is_changed_forbids_it() -> None:
    async def scenario(harness: SessionHarness) -> None:
        history = harness.session.history

        async def adds(_: ChatContext) -> str:
            history.add_message("user", "meanwhile")
            return "short"

        async def changes(_: ChatContext) -> str:
            history.replace_text(history.messages("user")[0], "edited")
            return "short"

        note_dialogue(harness)
        with pytest.raises(SessionError, match="changed while it was being summarised"):
            await history.summarise(changes, keep_items=2)
        assert len(history.items) == 6
        await history.summarise(adds, keep_items=2)

    harness = SessionHarness(Agent("Help.")).run(scenario)
    assert outline(harness.session.history.items)[1:] == ["q3", "a3", "meanwhile"]


# --- the sink


def test_a_sink_holds_what_the_history_holds_edits_and_drops_included() -> None:
    class Editor(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            if turn.text == "forget it":
                raise StopResponse
            turn.text = turn.text.upper()

    sink = MemoryHistorySink()
    harness = call_with(sink, "Sure.", agent=Editor("Help."))
    harness.caller.says("forget it", 4.0, 5.0)
    harness.run(until=8.0)
    assert stored(harness, sink).items == harness.session.history.items
    assert outline(harness.session.history.items) == ["HELLO", "Sure."]
    assert "history sink" in [step.name for step in harness.session.report().close.steps]  # type: ignore[union-attr]  # it has closed


def test_a_sink_is_given_changes_soon_and_what_was_said_at_the_close_too() -> None:
    class Polite(Agent):
        async def on_exit(self) -> None:
            await self.session.say("Bye.")

    sink = MemoryHistorySink()
    seen: list[list[str]] = []

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        seen.append(outline(await sink.load(harness.session.id)))

    harness = call_with(sink, agent=Polite("Help.")).run(scenario)
    assert seen == [["hello", "Sure."]]
    assert outline(stored(harness, sink)) == ["hello", "Sure.", "Bye."]


def test_a_resumed_session_hands_its_past_to_the_sink_too() -> None:
    first = call_with(MemoryHistorySink()).run(until=4.0)
    sink = MemoryHistorySink()
    harness = call_with(sink)
    harness.resume_from = first.session.snapshot()
    harness.run(until=4.0)
    assert outline(stored(harness, sink)) == ["hello", "Sure.", "hello", "Sure."]


def test_a_past_of_any_length_gets_to_the_sink_whole() -> None:
    earlier = call_with(None)
    earlier.run(lambda harness: fill(harness, 1500))
    sink = MemoryHistorySink()
    later = call_with(sink)
    later.resume_from = earlier.session.snapshot()
    later.run(until=1.0)
    assert len(stored(later, sink)) == 1500
    assert later.recording.of(ErrorOccurred) == []
    assert later.close_report is not None
    assert later.close_report.is_clean


async def fill(harness: SessionHarness, count: int) -> None:
    note(harness, count)


def test_an_item_that_a_hook_has_taken_out_stays_out_and_the_turn_is_answered() -> None:
    class Forgetful(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            for message in self.session.history.messages("user"):
                self.session.history.remove(message)
                self.session.history.remove(message)
            turn.text = "something else"

    harness = call_with(None, "Sure.", agent=Forgetful("Help."))
    harness.run(until=5.0)
    harness.expect_outcomes("completed")
    harness.expect_history(("assistant", "Sure."))
    assert len(harness.recording.of(HistoryItemRemoved)) == 1


def test_a_sink_on_disk_is_written_while_time_is_virtual(tmp_path: Path) -> None:
    sink = SqliteHistorySink(tmp_path / "calls.db")
    harness = call_with(sink).run(until=4.0)

    async def check() -> None:
        assert await sink.load(harness.session.id) == ChatContext(harness.session.history.items)
        await sink.aclose()

    anyio.run(check)
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 1.9), ("speaking", 2.2), ("idle", 2.4))


def test_a_sink_that_fails_is_one_error_and_gets_everything_when_it_works_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    sink = Flaky()
    sink.fails = True

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(8.0)
        sink.fails = False

    with caplog.at_level(logging.WARNING, logger="vivavoce"):
        harness = call_with(sink).run(scenario, until=20.0)
    errors = harness.recording.of(ErrorOccurred)
    assert [(event.source, event.is_recovered, type(event.error)) for event in errors] == [
        ("history_sink", True, OSError)
    ]
    assert outline(stored(harness, sink)) == ["hello", "Sure."]
    harness.expect_outcomes("completed")
    assert harness.close_report is not None
    assert harness.close_report.is_clean
    assert len(sink.writes) == 4  # at 1.9, and then 1, 2 and 4 seconds after one another
    assert "hunter2" not in caplog.text


def test_a_second_outage_is_an_error_of_its_own() -> None:
    sink = Flaky()

    async def scenario(harness: SessionHarness) -> None:
        for at in (5.0, 20.0):
            await harness.until(at)
            sink.fails = True
            note(harness, 1)
            await harness.until(at + 3.5)
            sink.fails = False

    harness = call_with(sink).run(scenario, until=40.0)
    assert len(harness.recording.of(ErrorOccurred)) == 2
    assert len(stored(harness, sink)) == 4


def test_a_sink_that_fails_to_the_end_is_named_by_the_close() -> None:
    sink = Flaky()
    sink.fails = True
    harness = call_with(sink).run(until=4.0)
    assert harness.close_report is not None
    problems = {step.name: step.error for step in harness.close_report.steps if step.error}
    assert list(problems) == ["history sink"]
    assert "2 changes of the history were not written" in problems["history sink"]
    assert harness.close_report.seconds <= 2.0  # some more tries


def test_a_sink_that_hangs_holds_up_no_turn_and_the_close_within_its_limit_only() -> None:
    sink = Flaky()
    sink.hangs = True
    harness = call_with(sink).run(until=14.0)
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 1.9), ("speaking", 2.2), ("idle", 2.4))
    errors = harness.recording.of(ErrorOccurred)
    assert ["within 10 s" in str(event.error) for event in errors] == [True]
    assert harness.close_report is not None
    assert [step.name for step in harness.close_report.steps if step.error] == ["history sink"]
    assert harness.close_report.seconds <= 5.0


def test_a_sink_far_behind_loses_the_oldest_changes_and_says_so() -> None:
    sink = Flaky()
    sink.fails = True

    async def scenario(harness: SessionHarness) -> None:
        note(harness, MAX_WAITING + 7)
        await harness.until(0.5)
        note(harness, 3)
        sink.fails = False

    harness = SessionHarness(Agent("Help."), options=SessionOptions(history_sink=sink)).run(scenario, until=5.0)
    lost = [event for event in harness.recording.of(ErrorOccurred) if not event.is_recovered]
    assert len(lost) == 1
    assert f"{MAX_WAITING} changes behind" in str(lost[0].error)
    assert [item.sequence for item in stored(harness, sink)] == list(range(11, MAX_WAITING + 11))
    assert max(map(len, sink.writes)) == BATCH
    assert harness.close_report is not None
    assert "10 changes" in next(step.error for step in harness.close_report.steps if step.error)


def test_changes_lost_while_they_are_written_are_not_lost() -> None:
    class Slow(MemoryHistorySink):
        async def write(self, session_id: str, changes: Sequence[HistoryChange]) -> None:
            await anyio.sleep(1.0)
            await super().write(session_id, changes)

    async def scenario(harness: SessionHarness) -> None:
        note(harness, 5)
        await harness.until(0.5)
        note(harness, MAX_WAITING)
        await harness.until(60.0)

    sink = Slow()
    harness = SessionHarness(Agent("Help."), options=SessionOptions(history_sink=sink)).run(scenario)
    assert len(stored(harness, sink)) == MAX_WAITING + 5
    assert harness.close_report is not None
    assert harness.close_report.is_clean


def test_something_else_than_a_sink_is_refused() -> None:
    options = SessionOptions(history_sink="calls.db")  # type: ignore[arg-type]  # that is the test
    with pytest.raises(ConfigurationError, match=r"must be a HistorySink, got 'calls\.db'"):
        AgentSession(Agent("Help."), SessionHarness(Agent("Help.")).pipeline, options=options)


def test_an_empty_message_is_refused_and_says_what_to_do() -> None:
    async def scenario(harness: SessionHarness) -> None:
        with pytest.raises(ConfigurationError, match="needs text or images, got ' '; leave an empty one out"):
            harness.session.history.add_message("user", " ")

    SessionHarness(Agent("Help.")).run(scenario)

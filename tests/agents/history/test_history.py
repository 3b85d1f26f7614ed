"""A session's history: added to by agent code, summarised, kept in a store that may fail."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from pathlib import Path

import anyio
import pytest

from kit.chat import outline
from vivavoce.agents import Agent, ChatContext, MemoryOptions, SessionOptions, StopResponse, function_tool
from vivavoce.agents.agent import CompletedTurn
from vivavoce.agents.core.write_queue import MAX_WAITING
from vivavoce.agents.events import ErrorOccurred, HistoryItemAdded, HistoryItemRemoved, HistoryItemReplaced
from vivavoce.agents.memory import InProcessStore, SqliteStore, StoreUnavailable
from vivavoce.agents.memory.history.history_writer import BATCH
from vivavoce.agents.memory.stores.store import Place, SessionStore
from vivavoce.agents.testing import ScriptedLLM, SessionHarness, VirtualClock
from vivavoce.pipelines import LLMSummariser
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError, SessionError
from vivavoce.pipelines.llm.chat_context import AgentHandoff, ConfigChange
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.media.frame import VideoFrame


class Flaky(InProcessStore):
    """Takes no history, or hangs with it, on request."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__(clock=VirtualClock())
        self.error = error or StoreUnavailable("disk full")
        self.fails = False
        self.hangs = False
        self.writes: list[list[str]] = []
        """The ids of the items of each write."""

    async def write_many(self, place: Place, texts: Mapping[str, str]) -> None:
        self.writes.append(list(texts))
        if self.hangs:
            await anyio.sleep_forever()
        if self.fails:
            raise self.error
        await super().write_many(place, texts)


def in_process() -> InProcessStore:
    return InProcessStore(clock=VirtualClock())


def kept_in(store: SessionStore | None) -> SessionOptions:
    return SessionOptions(memory=None if store is None else MemoryOptions(store=store))


def call_with(store: SessionStore | None, *answers: str, agent: Agent | None = None) -> SessionHarness:
    llm = ScriptedLLM(*(answers or ("Sure.",)), delay=0.1)
    harness = SessionHarness(agent or Agent("Help."), llm, options=kept_in(store))
    harness.caller.says("hello", 0.5, 1.5)
    return harness


def stored(harness: SessionHarness, store: SessionStore) -> ChatContext:
    return anyio.run(store.history, harness.session.memory.id)


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


def test_a_sync_tool_corrects_and_removes_messages_on_the_event_loop_of_the_session() -> None:
    threads: list[int] = []

    class Clerk(Agent):
        @function_tool
        def mend(self) -> str:
            """Mend the history."""
            first, second = self.session.history.messages("system")
            assert self.session.history.replace_text(first, "better").content == "better"
            self.session.history.remove(second)
            return "ok"

    async def scenario(harness: SessionHarness) -> None:
        for event in (HistoryItemReplaced, HistoryItemRemoved):
            harness.session.on(event, lambda _: threads.append(threading.get_ident()))
        for text in ("good", "worse"):
            harness.session.history.add_message("system", text)
        harness.session.input.text("hello")
        await harness.until(5.0)

    call = ToolCall(call_id="c1", name="mend", arguments="{}")
    harness = SessionHarness(Clerk("Help."), ScriptedLLM([call], "Done.", delay=0.1)).run(scenario)
    assert [message.content for message in harness.session.history.messages("system")] == ["better"]
    assert threads == [threading.get_ident()] * 2


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

    store = in_process()
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Three things."), options=kept_in(store)).run(scenario)
    texts = ["What was said before, in short: Three things.", "q3", "a3", "q4"]
    assert outline(harness.session.history.items) == texts
    assert [event.item.sequence for event in harness.recording.of(HistoryItemRemoved)] == [1, 2, 3, 4]
    assert outline(stored(harness, store)) == texts


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


# --- the store


def test_a_store_holds_what_the_history_holds_edits_and_drops_included() -> None:
    class Editor(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            if turn.text == "forget it":
                raise StopResponse
            turn.text = turn.text.upper()

    store = in_process()
    harness = call_with(store, "Sure.", agent=Editor("Help."))
    harness.caller.says("forget it", 4.0, 5.0)
    harness.run(until=8.0)
    assert stored(harness, store).items == harness.session.history.items
    assert outline(harness.session.history.items) == ["HELLO", "Sure."]
    assert "history" in [step.name for step in harness.session.report().close.steps]  # type: ignore[union-attr]  # it has closed


def test_a_turn_that_the_agent_takes_stays_in_the_history_with_the_edited_words() -> None:
    class Discreet(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            turn.text = turn.text.replace("1234", "[code]")
            raise StopResponse(is_taken=True)

    llm = ScriptedLLM()
    harness = SessionHarness(Discreet("Help."), llm)
    harness.caller.says("it is 1234", 1.0, 2.0)
    harness.run(until=5.0)
    harness.expect_outcomes("completed").expect_history(("user", "it is [code]"))
    assert [record.user_text for record in harness.session.turns] == ["it is [code]"]


def test_a_store_is_given_changes_soon_and_what_was_said_at_the_close_too() -> None:
    class Polite(Agent):
        async def on_exit(self) -> None:
            await self.session.say("Bye.")

    store = in_process()
    seen: list[list[str]] = []

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(3.0)
        seen.append(outline(await store.history(harness.session.id)))

    harness = call_with(store, agent=Polite("Help.")).run(scenario)
    assert seen == [["hello", "Sure."]]
    assert outline(stored(harness, store)) == ["hello", "Sure.", "Bye."]


def test_a_resumed_session_hands_its_past_to_the_store_too() -> None:
    first = call_with(in_process()).run(until=4.0)
    store = in_process()
    harness = call_with(store)
    harness.resume_from = first.session.snapshot()
    harness.run(until=4.0)
    assert outline(stored(harness, store)) == ["hello", "Sure.", "hello", "Sure."]


def test_a_past_of_any_length_gets_to_the_store_whole() -> None:
    earlier = call_with(None)
    earlier.run(lambda harness: fill(harness, 1500))
    store = in_process()
    later = call_with(store)
    later.resume_from = earlier.session.snapshot()
    later.run(until=1.0)
    assert len(stored(later, store)) == 1500
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


def test_a_store_on_disk_is_written_while_time_is_virtual(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "calls.db")
    harness = call_with(store).run(until=4.0)

    async def check() -> None:
        assert await store.history(harness.session.id) == ChatContext(harness.session.history.items)
        await store.aclose()

    anyio.run(check)
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 1.9), ("speaking", 2.2), ("idle", 2.4))


@pytest.mark.parametrize("error", [StoreUnavailable("disk full"), OSError("disk full: hunter2")])
def test_a_store_that_fails_is_one_error_and_gets_everything_when_it_works_again(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    store = Flaky(error)
    store.fails = True

    async def scenario(harness: SessionHarness) -> None:
        await harness.until(8.0)
        store.fails = False

    with caplog.at_level(logging.WARNING, logger="vivavoce"):
        harness = call_with(store).run(scenario, until=20.0)
    errors = harness.recording.of(ErrorOccurred)
    assert [(event.source, event.is_recovered, type(event.error)) for event in errors] == [
        ("memory", True, type(error))
    ]
    assert outline(stored(harness, store)) == ["hello", "Sure."]
    harness.expect_outcomes("completed")
    assert harness.close_report is not None
    assert harness.close_report.is_clean
    assert len(store.writes) == 4  # at 1.9, and then 1, 2 and 4 seconds after one another
    assert "hunter2" not in caplog.text


def test_a_second_outage_is_an_error_of_its_own() -> None:
    store = Flaky()

    async def scenario(harness: SessionHarness) -> None:
        for at in (5.0, 20.0):
            await harness.until(at)
            store.fails = True
            note(harness, 1)
            await harness.until(at + 3.5)
            store.fails = False

    harness = call_with(store).run(scenario, until=40.0)
    assert len(harness.recording.of(ErrorOccurred)) == 2
    assert len(stored(harness, store)) == 4


def test_a_store_that_fails_to_the_end_is_named_by_the_close() -> None:
    store = Flaky()
    store.fails = True
    harness = call_with(store).run(until=4.0)
    assert harness.close_report is not None
    problems = {step.name: step.error for step in harness.close_report.steps if step.error}
    assert list(problems) == ["history"]
    assert "2 changes of the history were not written" in problems["history"]
    assert harness.close_report.seconds <= 2.0  # some more tries


def test_a_store_that_hangs_holds_up_no_turn_and_the_close_within_its_limit_only() -> None:
    store = Flaky()
    store.hangs = True
    harness = call_with(store).run(until=14.0)
    harness.expect_states("agent", ("listening", 0.5), ("thinking", 1.9), ("speaking", 2.2), ("idle", 2.4))
    errors = harness.recording.of(ErrorOccurred)
    assert ["within 10 s" in str(event.error) for event in errors] == [True]
    assert harness.close_report is not None
    assert [step.name for step in harness.close_report.steps if step.error] == ["history"]
    assert harness.close_report.seconds <= 5.0


def test_a_store_far_behind_loses_the_oldest_changes_and_says_so() -> None:
    store = Flaky()
    store.fails = True

    async def scenario(harness: SessionHarness) -> None:
        note(harness, MAX_WAITING + 7)
        await harness.until(0.5)
        note(harness, 3)
        store.fails = False

    harness = SessionHarness(Agent("Help."), options=kept_in(store)).run(scenario, until=5.0)
    lost = [event for event in harness.recording.of(ErrorOccurred) if not event.is_recovered]
    assert len(lost) == 1
    assert f"{MAX_WAITING} changes behind" in str(lost[0].error)
    assert [item.sequence for item in stored(harness, store)] == list(range(11, MAX_WAITING + 11))
    assert max(map(len, store.writes)) == BATCH
    assert harness.close_report is not None
    assert "10 changes" in next(step.error for step in harness.close_report.steps if step.error)


def test_changes_lost_while_they_are_written_are_not_lost() -> None:
    class Slow(InProcessStore):
        async def write_many(self, place: Place, texts: Mapping[str, str]) -> None:
            await anyio.sleep(1.0)
            await super().write_many(place, texts)

    async def scenario(harness: SessionHarness) -> None:
        note(harness, 5)
        await harness.until(0.5)
        note(harness, MAX_WAITING)
        await harness.until(60.0)

    store = Slow(clock=VirtualClock())
    harness = SessionHarness(Agent("Help."), options=kept_in(store)).run(scenario)
    assert len(stored(harness, store)) == MAX_WAITING + 5
    assert harness.close_report is not None
    assert harness.close_report.is_clean


def test_an_empty_message_is_refused_and_says_what_to_do() -> None:
    async def scenario(harness: SessionHarness) -> None:
        with pytest.raises(ConfigurationError, match="needs text or images, got ' '; leave an empty one out"):
            harness.session.history.add_message("user", " ")

    SessionHarness(Agent("Help.")).run(scenario)

"""ChatContext: the kept items after omission, replacement or summary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.chat import assistant, call, conversations, outline, output, system, user
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError, ProviderTimeoutError
from vivavoce.pipelines.llm.chat_context import (
    AgentHandoff,
    ChatContext,
    ChatItem,
    ChatMessage,
    FunctionCall,
    FunctionCallOutput,
    estimate_tokens,
)
from vivavoce.pipelines.llm.chat_units import answered, completed, units
from vivavoce.pipelines.llm.context_window import ContextWindow
from vivavoce.pipelines.llm.summary import LLMSummariser
from vivavoce.pipelines.media.frame import VideoFrame
from vivavoce.pipelines.testing import ScriptedLLM, run_virtual

BOOKING: list[ChatItem] = [
    system("Be brief."),
    user("A table"),
    call("a"),
    call("b"),
    output("a"),
    output("b"),
    assistant("Booked."),
    user("Thanks"),
]


def pairs(items: Sequence[ChatItem]) -> list[tuple[str, str]]:
    """Say which output answers which call, by item ids, in the plainest way: the nearest open call before it."""
    found = []
    waiting: list[FunctionCall] = []
    for item in items:
        if isinstance(item, FunctionCall):
            waiting.append(item)
        elif isinstance(item, FunctionCallOutput):
            mine = next((c for c in reversed(waiting) if c.call_id == item.call_id), None)
            if mine is not None:
                waiting.remove(mine)
                found.append((mine.id, item.id))
    return found


def assert_whole(before: Sequence[ChatItem], after: Sequence[ChatItem]) -> None:
    """Check that `after` is a part of `before` in its order, with no call parted from its output."""
    kept = {item.id for item in after}
    assert [item for item in before if item.id in kept] == list(after)
    for made, out in pairs(before):
        assert (made in kept) == (out in kept)


# --- changing it


def test_an_item_is_inserted_before_another() -> None:
    context = ChatContext(BOOKING)
    context.insert(system("The caller is Ada."), before=BOOKING[1].id)
    assert outline(context)[:3] == ["Be brief.", "The caller is Ada.", "A table"]
    with pytest.raises(KeyError, match="gone"):
        context.insert(user("x"), before="gone")


def test_an_item_is_replaced_in_its_place_and_removed_by_id() -> None:
    context = ChatContext(BOOKING)
    context.replace(user("Two tables", id=BOOKING[1].id))
    context.remove(BOOKING[-1].id)
    context.remove("gone")
    assert outline(context)[1] == "Two tables"
    assert outline(context)[-1] == "Booked."
    with pytest.raises(KeyError, match="no item"):
        context.replace(user("x"))


def test_a_copy_is_equal_and_changes_alone() -> None:
    context = ChatContext(BOOKING)
    copy = context.copy()
    assert copy == context
    copy.append(user("more"))
    assert copy != context
    assert len(context) == len(BOOKING)
    assert context != BOOKING


# --- filter


def test_a_filter_leaves_tools_or_the_system_out() -> None:
    context = ChatContext([*BOOKING, AgentHandoff(old_agent="Host", new_agent="Cashier")])
    messages = context.filter(types={"message"})
    assert outline(messages) == ["Be brief.", "A table", "Booked.", "Thanks"]
    plain = context.filter(roles={"user", "assistant"}, types={"message", "agent_handoff"})
    assert outline(plain) == ["A table", "Booked.", "Thanks", "agent_handoff"]


def test_a_filter_that_parts_a_call_from_its_output_leaves_both_out() -> None:
    context = ChatContext(BOOKING).filter(lambda item: outline([item]) != ["out:a"])
    assert outline(context) == ["Be brief.", "A table", "call:b", "out:b", "Booked.", "Thanks"]


@given(conversations, st.sets(st.integers(0, 14)))
def test_law_whatever_is_filtered_no_pair_is_parted(items: list[ChatItem], dropped: set[int]) -> None:
    gone = {items[place].id for place in dropped if place < len(items)}
    kept = ChatContext(items).filter(lambda item: item.id not in gone)
    assert_whole(items, kept.items)
    assert not gone & {item.id for item in kept}


# --- truncate


@pytest.mark.parametrize(
    ("max_items", "kept"),
    [
        (1, ["Be brief.", "Thanks"]),
        (3, ["Be brief.", "Booked.", "Thanks"]),
        (6, ["Be brief.", "Booked.", "Thanks"]),
        (7, ["Be brief.", "call:a", "call:b", "out:a", "out:b", "Booked.", "Thanks"]),
        (99, outline(BOOKING)),
    ],
)
def test_truncation_by_items_keeps_the_system_and_whole_steps(max_items: int, kept: list[str]) -> None:
    assert outline(ChatContext(BOOKING).truncate(max_items=max_items)) == kept


def test_truncation_may_drop_the_system() -> None:
    assert outline(ChatContext(BOOKING).truncate(max_items=2, keep_system=False)) == ["Booked.", "Thanks"]


def test_the_newest_step_is_kept_however_small_the_limit() -> None:
    context = ChatContext([*BOOKING[:2], assistant("One moment."), *BOOKING[2:6]])
    kept = ["Be brief.", "A table", "call:a", "call:b", "out:a", "out:b"]  # with the words that it answers
    assert outline(context.truncate(max_items=1)) == kept
    assert outline(context.truncate(max_tokens=1)) == kept
    assert outline(ChatContext().truncate(max_items=1)) == []


def test_the_message_that_is_answered_is_kept_whatever_came_after_it() -> None:
    question = user("A table")
    after: list[ChatItem] = [user("Mhm", backchannel=True), AgentHandoff(old_agent="Host", new_agent="Cashier")]
    assert outline(ChatContext([user("Hi"), question, *after]).truncate(max_items=1)) == ["A table", "agent_handoff"]
    answered = ChatContext([question, call("a"), output("a"), assistant("Booked.")])
    assert outline(answered.truncate(max_items=1)) == ["Booked."]


def test_a_long_tool_result_is_shortened_before_the_question_is_dropped() -> None:
    found = "first " + "x" * 18_000 + " last"
    context = ChatContext(
        [system("Be brief."), user("Hi"), assistant("Hello"), user("A table"), call("a"), output("a", found)]
    )
    kept = context.truncate(max_tokens=4000)
    assert outline(kept) == outline(context)
    shortened = kept.items[-1]
    assert isinstance(shortened, FunctionCallOutput)
    assert shortened.output.startswith("first xxx")
    assert shortened.output.endswith("xxx last")
    assert "characters left out" in shortened.output
    assert 900 < estimate_tokens(shortened) <= 1000
    assert shortened.id == context.items[-1].id
    assert outline([context.items[-1]]) == ["out:a"]
    assert context.truncate(max_tokens=9000).items == context.items  # it fits
    assert context.truncate(max_items=6).items == context.items


def test_each_tool_result_over_a_quarter_is_shortened_and_only_then_old_turns_go() -> None:
    def characters(item: ChatItem) -> int:
        return len(item.output) if isinstance(item, FunctionCallOutput) else 10

    old: list[ChatItem] = [user("Hi"), assistant("Hello")]
    steps: list[ChatItem] = [item for name in "abcd" for item in (call(name), output(name, name * 900))]
    context = ChatContext([*old, user("A table"), *steps])
    kept = context.truncate(max_tokens=800, count_tokens=characters)
    assert outline(kept) == ["A table", "call:b", "out:b", "call:c", "out:c", "call:d", "out:d"]
    sizes = [len(item.output) for item in kept if isinstance(item, FunctionCallOutput)]
    assert all(150 < size <= 200 for size in sizes)
    small = ChatContext([user("A table"), call("a"), output("a", "ok ok ok")])
    assert small.truncate(max_tokens=4, count_tokens=characters).items == small.items  # a mark would be longer


def test_the_long_results_of_many_parallel_calls_fit_with_the_question() -> None:
    calls: list[ChatItem] = [call(name) for name in "abcdef"]
    results: list[ChatItem] = [output(name, name * 18_000) for name in "abcdef"]
    context = ChatContext([user("Hi"), assistant("Hello"), user("A table"), *calls, *results])
    kept = context.truncate(max_tokens=4000)
    assert outline(kept)[-13:] == [
        "A table",
        *(f"call:{name}" for name in "abcdef"),
        *(f"out:{name}" for name in "abcdef"),
    ]
    assert sum(map(estimate_tokens, kept)) <= 4000
    assert all(len(item.output) > 2000 for item in kept if isinstance(item, FunctionCallOutput))
    long = ChatContext([call("a"), output("a", "a" * 18_000), user("A " * 18_000)])
    assert outline(long.truncate(max_tokens=4000)) == outline([long.items[-1]])


def test_a_shortened_result_splits_no_grapheme_cluster() -> None:
    family = "\U0001f468\u200d\U0001f469\u200d\U0001f467"
    context = ChatContext([user("Who?"), call("a"), output("a", family * 400)])
    shortened = context.truncate(max_tokens=400).items[-1]
    assert isinstance(shortened, FunctionCallOutput)
    head, _, tail = shortened.output.partition("\n[")
    assert head == family * (len(head) // len(family))
    tail = tail.partition("]\n")[2]
    assert tail == family * (len(tail) // len(family))
    assert head
    assert tail


def test_truncation_by_tokens_takes_any_counter() -> None:
    context = ChatContext([user("one two three"), assistant("four five"), user("six")])

    def words(item: ChatItem) -> int:
        return len(item.content.split()) if isinstance(item, ChatMessage) else 0

    assert outline(context.truncate(max_tokens=3, count_tokens=words)) == ["four five", "six"]
    assert outline(context.truncate(max_tokens=2, count_tokens=words)) == ["six"]
    assert outline(context.truncate(max_tokens=9, max_items=1, count_tokens=words)) == ["six"]


@pytest.mark.parametrize("limits", [{"max_items": 0}, {"max_tokens": -1}])
def test_a_limit_below_one_is_refused(limits: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="need max_"):
        ChatContext(BOOKING).truncate(**limits)
    with pytest.raises(ConfigurationError, match="need max_"):
        ContextWindow(**limits)


def test_a_window_without_limits_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="neither"):
        ContextWindow()


@given(conversations, st.none() | st.integers(1, 16), st.none() | st.integers(1, 200), st.booleans())
def test_law_a_truncated_conversation_fits_and_parts_no_pair(
    items: list[ChatItem], max_items: int | None, max_tokens: int | None, keep_system: bool
) -> None:
    context = ChatContext(items)
    kept = context.truncate(max_items=max_items, max_tokens=max_tokens, keep_system=keep_system).items
    ids = {item.id for item in kept}
    originals = [item for item in items if item.id in ids]
    assert_whole(items, originals)
    for item, original in zip(kept, originals, strict=True):  # nothing but long tool results changes
        if item != original:
            assert isinstance(item, FunctionCallOutput)
            assert max_tokens is not None
            parts = max(4, 1 + sum(isinstance(one, FunctionCallOutput) for one in units(items)[-1]))
            assert estimate_tokens(item) < estimate_tokens(original) > max_tokens / parts
            assert isinstance(original, FunctionCallOutput)
            assert replace(item, output="") == replace(original, output="")
    is_system = [isinstance(item, ChatMessage) and item.role == "system" for item in items]
    if keep_system:
        assert all(item.id in ids for item, always in zip(items, is_system, strict=True) if always)
    # Items beyond the limits are the system's, the message that is answered, or one unbroken step at the end.
    message = answered(items)
    assert message is None or message.id in ids
    free = [i for i in kept if not (keep_system and isinstance(i, ChatMessage) and i.role == "system")]
    if message is not None and free[0].id == message.id and len(free) > 1:
        free = free[1:]
    over = (max_items is not None and len(kept) > max_items) or (
        max_tokens is not None and sum(map(estimate_tokens, kept)) > max_tokens
    )
    if over and free:
        places = [n for n, item in enumerate(items) if item.id == free[0].id or item.id == free[-1].id]
        inner = items[places[0] : places[-1]]
        assert len(free) == 1 or isinstance(inner[0], FunctionCall)
    if items and not all(is_system):
        assert free or keep_system


def test_the_estimate_counts_bytes_pictures_and_nothing_that_is_not_sent() -> None:
    assert estimate_tokens(user("")) == 4
    assert estimate_tokens(user("abcd")) == 5
    assert estimate_tokens(user("日本")) == 6
    assert estimate_tokens(user("\ud800")) == 5
    assert estimate_tokens(call("a", "book", '{"day": 1}')) == 4 + 4
    assert estimate_tokens(output("a", "x" * 40)) == 14
    assert estimate_tokens(user("", images=(VideoFrame(b"", "image/png"),))) == 804
    assert estimate_tokens(AgentHandoff(old_agent="a" * 99, new_agent="b")) == 0


# --- summarise


async def brief(context: ChatContext) -> str:
    return f"{len(context)} items."


def test_old_items_become_one_summary_in_their_place() -> None:
    items: list[ChatItem] = [item for n in range(1, 4) for item in (user(f"q{n}", sequence=2 * n), assistant(f"a{n}"))]
    context = ChatContext([system("Be brief."), *items])
    new = run_virtual(context.summarise(brief, keep_items=2))
    assert outline(new) == ["Be brief.", "What was said before, in short: 4 items.", "q3", "a3"]
    summary = new.messages("system")[1]
    assert summary.is_summary
    assert summary.sequence == items[3].sequence
    assert len(context) == 7


def test_an_older_summary_goes_into_the_new_one() -> None:
    context = ChatContext([system("Ada called before.", is_summary=True), user("q1"), assistant("a1"), user("q2")])
    new = run_virtual(context.summarise(brief, keep_items=1))
    assert outline(new) == ["What was said before, in short: 3 items.", "q2"]


def test_a_step_is_summarised_whole_or_not_at_all() -> None:
    new = run_virtual(ChatContext(BOOKING).summarise(brief, keep_items=3))
    assert outline(new)[1:] == ["What was said before, in short: 1 items.", *outline(BOOKING[2:])]


@pytest.mark.parametrize("items", [[], [user("only")], [system("a"), system("b"), user("c")], BOOKING[2:6]])
def test_with_nothing_old_nobody_is_asked(items: list[ChatItem]) -> None:
    async def never(_: ChatContext) -> str:
        raise AssertionError("asked")

    keep = 1 if len(items) < 4 else 0
    assert run_virtual(ChatContext(items).summarise(never, keep_items=keep)) == ChatContext(items)


def test_a_summary_that_fails_hangs_or_is_empty_changes_nothing() -> None:
    async def raises(_: ChatContext) -> str:
        raise ZeroDivisionError

    async def hangs(_: ChatContext) -> str:
        await anyio.sleep_forever()
        return ""

    async def empty(_: ChatContext) -> str:
        return " \n"

    context = ChatContext(BOOKING)
    with pytest.raises(ZeroDivisionError):
        run_virtual(context.summarise(raises, keep_items=1))
    with pytest.raises(ProviderTimeoutError, match="within 30 s"):
        run_virtual(context.summarise(hangs, keep_items=1))
    with pytest.raises(ProviderError, match="no words"):
        run_virtual(context.summarise(empty, keep_items=1))
    assert context.items == tuple(BOOKING)


@pytest.mark.parametrize("wrong", [{"keep_items": -1}, {"limit": 0.0}])
def test_wrong_numbers_for_a_summary_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="need keep_items"):
        run_virtual(ChatContext(BOOKING).summarise(brief, **wrong))


def test_a_model_summarises_the_conversation_as_one_text() -> None:
    llm = ScriptedLLM(["A table ", "was booked."])
    items: list[ChatItem] = [
        *BOOKING[:6],
        user("Hm", speaker="Ada"),
        assistant("I", interrupted=True),
        assistant(" "),
        user("x"),
    ]
    items.insert(0, AgentHandoff(old_agent="", new_agent="Host"))
    new = run_virtual(ChatContext(items).summarise(LLMSummariser(llm), keep_items=1))
    assert outline(new)[-2:] == ["What was said before, in short: A table was booked.", "x"]
    request = llm.requests[0]
    assert "Summarise" in request.instructions
    assert [message.role for message in request.context.messages()] == ["user"]
    assert request.context.messages()[0].content.split("\n") == [
        "user: A table",
        "tool book called with {}",
        "tool book called with {}",
        "tool book returned: ok",
        "tool book returned: ok",
        "Ada: Hm",
        "assistant: I [interrupted]",
    ]


@given(conversations, st.integers(0, 16))
def test_law_a_summary_parts_no_pair_and_keeps_the_system(items: list[ChatItem], keep_items: int) -> None:
    new = run_virtual(ChatContext(items).summarise(brief, keep_items=keep_items)).items
    old_ids = {item.id for item in items}
    kept = [item for item in new if item.id in old_ids]
    assert_whole(items, kept)
    assert len(new) - len(kept) <= 1
    assert len(kept) >= min(keep_items, len(items))
    plain = [i for i in items if isinstance(i, ChatMessage) and i.role == "system" and not i.is_summary]
    assert [i for i in kept if i in plain] == plain


# --- completed


@given(conversations, st.sets(st.integers(0, 14)), st.sets(st.sampled_from("abc")))
def test_law_what_a_policy_left_is_completed_to_whole_pairs_in_their_places(
    items: list[ChatItem], dropped: set[int], needed: set[str]
) -> None:
    part = [item for place, item in enumerate(items) if place not in dropped]
    result = completed(part, items, needed)
    assert_whole(items, result)
    ids = {item.id for item in result}
    assert {item.id for item in part} <= ids
    halves = dict(pairs(items))
    newest = {item.call_id: item for item in items if isinstance(item, FunctionCall) and item.id in halves}
    assert all(newest[call_id].id in ids for call_id in needed if call_id in newest)


def test_needed_calls_stand_after_what_a_policy_put_in_the_place_of_older_items() -> None:
    summary = system("In short.")
    assert outline(completed([summary], BOOKING, {"a"})) == ["In short.", "call:a", "out:a"]
    assert outline(completed([summary, BOOKING[7]], BOOKING, {"a"})) == ["In short.", "call:a", "out:a", "Thanks"]
    assert outline(completed([BOOKING[1]], BOOKING, {"gone"})) == ["A table"]


def test_of_two_calls_of_one_id_the_one_made_last_is_needed_though_the_other_is_answered_last() -> None:
    first, second, inner, outer = call("a", "first"), call("a", "second"), output("a", "inner"), output("a", "outer")
    whole: list[ChatItem] = [user("q"), first, second, inner, outer, user("go on")]
    assert completed([whole[0]], whole, {"a"}) == [whole[0], second, inner]
    assert completed([outer, whole[-1]], whole, {"a"}) == whole[1:]

"""The rules as a language model: a whole conversation at a time, its history kept as a session keeps it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError
from vivavoce.pipelines.llm.base import Done, GenerateRequest, LLMEvent, TextDelta, Usage
from vivavoce.pipelines.llm.chat_context import (
    AgentHandoff,
    ChatContext,
    ChatMessage,
    ConfigChange,
    FunctionCall,
    FunctionCallOutput,
)
from vivavoce.pipelines.llm.tools import ToolCall, ToolChoice, function_tool
from vivavoce.plugins import rules


@function_tool
async def book(day: str, time: str, people: int) -> str:
    """Book a table."""
    return "ok"


SLOTS = (
    rules.Slot(name="day", parser=rules.days(), ask="For which day?", heard="{value}."),
    rules.Slot(name="time", parser=rules.times(), ask="At what time?", heard="At {value}.", say=rules.time_in_words),
    rules.Slot(name="people", parser=rules.party_sizes(), ask="For how many?", say=rules.in_words),
)
TALK = rules.SlotFilling(
    slots=SLOTS,
    tool="book",
    done="Booked {day} at {time} for {people}.",
    changed="Changed to {day} at {time} for {people}.",
    answers=(rules.Answer(r"\bparking\b", "There is a car park."),),
)


@dataclass
class Talk:
    """A conversation with the rules; calls are answered by `fail` or with "ok"."""

    filling: rules.SlotFilling = TALK
    context: ChatContext = field(default_factory=ChatContext)
    calls: list[dict[str, Any]] = field(default_factory=list)
    fail: bool = False

    async def events(self, **options: Any) -> list[LLMEvent]:
        """Run one step on the present history."""
        tools: Any = (book,)
        request = GenerateRequest(**{"context": self.context, "tools": tools, **options})
        return [event async for event in rules.LLM(self.filling).generate(request)]

    async def hears(self, words: str) -> str:
        """Say something and return the answer, after any calls."""
        self.context.append(ChatMessage(role="user", content=words))
        return await self.answer()

    async def answer(self) -> str:
        events = await self.events()
        for call in [event for event in events if isinstance(event, ToolCall)]:
            self.calls.append(json.loads(call.arguments))
            self.context.append(FunctionCall(call_id=call.call_id, name=call.name, arguments=call.arguments))
            self.context.append(
                FunctionCallOutput(call_id=call.call_id, name=call.name, output="ok", is_error=self.fail)
            )
            return await self.answer()
        text = "".join(event.text for event in events if isinstance(event, TextDelta))
        self.context.append(ChatMessage(role="assistant", content=text))
        return text


async def test_slots_are_asked_for_in_order_and_the_tool_is_called_when_all_are_known() -> None:
    talk = Talk()
    assert await talk.answer() == "For which day?"
    assert await talk.hears("friday please") == "friday. At what time?"
    assert await talk.hears("at seven") == "At seven. For how many?"
    assert await talk.hears("four people") == "Booked friday at seven for four. Is there anything else?"
    assert talk.calls == [{"day": "friday", "time": "19:00", "people": 4}]


async def test_several_values_in_one_sentence_are_all_taken() -> None:
    talk = Talk()
    await talk.hears("a table for two tomorrow at half past six")
    assert talk.calls == [{"day": "tomorrow", "time": "18:30", "people": 2}]


async def test_a_lone_number_answers_the_question_that_is_open() -> None:
    talk = Talk()
    await talk.hears("friday")
    await talk.hears("eight")
    await talk.hears("six")
    assert talk.calls == [{"day": "friday", "time": "20:00", "people": 6}]


async def test_a_correction_after_the_call_calls_again_with_the_changed_value_only() -> None:
    talk = Talk()
    await talk.hears("friday at seven for four people")
    assert await talk.hears("no, at eight") == "Changed to friday at eight for four. Is there anything else?"
    assert talk.calls[1] == {"day": "friday", "time": "20:00", "people": 4}


async def test_a_correction_before_the_call_is_what_the_call_gets() -> None:
    talk = Talk()
    await talk.hears("friday at seven")
    assert await talk.hears("no, at eight") == "At eight. For how many?"
    await talk.hears("three of us")
    assert talk.calls == [{"day": "friday", "time": "20:00", "people": 3}]


@pytest.mark.parametrize("words", ["Hello, there!", "Hello there.", '"Hello there"', "…hello there"])
async def test_small_talk_is_answered_however_the_recogniser_punctuates_it(words: str) -> None:
    talk = Talk(replace(TALK, answers=(rules.Answer(r"^hello there\b", "Good day."),)))
    assert await talk.hears(words) == "Good day. For which day?"


async def test_handoffs_and_config_changes_say_nothing_to_the_rules() -> None:
    talk = Talk()
    await talk.hears("friday at seven")
    talk.context.append(AgentHandoff(old_agent="Host", new_agent="Cashier"))
    talk.context.append(ConfigChange(agent="Cashier", instructions="At nine."))
    await talk.hears("four people")
    assert talk.calls == [{"day": "friday", "time": "19:00", "people": 4}]


@pytest.mark.parametrize("words", ["not friday, saturday", "friday, no, saturday", "saturday, not friday"])
async def test_of_two_values_the_one_that_was_meant_is_taken(words: str) -> None:
    talk = Talk()
    assert await talk.hears(words) == "saturday. At what time?"


async def test_the_same_value_again_does_not_call_again() -> None:
    talk = Talk()
    await talk.hears("friday at seven for four people")
    assert await talk.hears("at seven") == "Booked friday at seven for four. Is there anything else?"
    assert len(talk.calls) == 1


async def test_an_interrupted_answer_changes_nothing_about_what_is_known() -> None:
    talk = Talk()
    await talk.hears("friday at seven")
    last = talk.context.messages("assistant")[-1]
    talk.context.replace(ChatMessage(role="assistant", content="At", id=last.id, interrupted=True))
    assert await talk.hears("four people") == "Booked friday at seven for four. Is there anything else?"


async def test_a_backchannel_is_answered_by_nobody() -> None:
    talk = Talk()
    await talk.hears("friday")
    talk.context.append(ChatMessage(role="user", content="bye bye", backchannel=True))
    assert await talk.answer() == "friday. At what time?"


async def test_what_is_not_understood_is_said_so_and_the_question_comes_again() -> None:
    assert await Talk().hears("purple elephants") == "Sorry, I did not understand. For which day?"


async def test_small_talk_is_answered_and_the_question_comes_again() -> None:
    assert await Talk().hears("is there Parking?") == "There is a car park. For which day?"


@pytest.mark.parametrize(
    "words", ["no", "no thank you", "that's all", "goodbye", "Good-by, thank you.", "Okay, thank you very much."]
)
async def test_when_all_is_done_a_no_ends_the_conversation(words: str) -> None:
    talk = Talk()
    await talk.hears("friday at seven for four people")
    assert await talk.hears(words) == "Goodbye."


async def test_thanks_before_all_is_done_end_nothing() -> None:
    assert await Talk().hears("Thank you.") == "Sorry, I did not understand. For which day?"


async def test_good_by_in_two_words_is_no_farewell() -> None:
    talk = Talk()
    await talk.hears("friday at seven for four people")
    assert await talk.hears("That sounds good by me.") != "Goodbye."


async def test_a_failed_call_is_offered_again_and_made_again_on_yes() -> None:
    talk = Talk(fail=True)
    answer = await talk.hears("friday at seven for four people")
    assert answer == "I am sorry, that did not work. Shall I try again?"
    talk.fail = False
    assert await talk.hears("yes please") == "Booked friday at seven for four. Is there anything else?"
    assert len(talk.calls) == 2


async def test_a_failed_call_is_not_made_again_on_no() -> None:
    talk = Talk(fail=True)
    await talk.hears("friday at seven for four people")
    assert await talk.hears("no") == "Goodbye."
    assert len(talk.calls) == 1


async def test_where_yes_ends_the_conversation_no_asks_what_to_change() -> None:
    talk = Talk(
        rules.SlotFilling(slots=SLOTS, tool="book", done="Booked.", anything_else="Is it right?", ends_on="yes")
    )
    assert await talk.hears("friday at seven for four people") == "Booked. Is it right?"
    assert await talk.hears("no") == "What shall I change?"
    await talk.hears("at eight")
    assert await talk.hears("yes thank you") == "Goodbye."
    assert len(talk.calls) == 2


CONFIRMED = rules.SlotFilling(slots=SLOTS, tool="book", done="Booked.", confirm="{day} at {time} for {people}, right?")


async def test_with_a_confirmation_nothing_is_called_before_yes() -> None:
    talk = Talk(CONFIRMED)
    assert (await talk.hears("friday at seven for four people")).endswith("friday at seven for four, right?")
    assert await talk.hears("no") == "What shall I change?"
    assert (await talk.hears("at eight")).endswith("friday at eight for four, right?")
    assert talk.calls == []
    assert await talk.hears("yes") == "Booked. Is there anything else?"
    assert [call["time"] for call in talk.calls] == ["20:00"]


async def test_a_no_with_a_change_asks_for_the_confirmation_again() -> None:
    talk = Talk(CONFIRMED)
    await talk.hears("Friday at seven for four people.")
    assert (await talk.hears("No, that's not right, at eight.")).endswith("friday at eight for four, right?")
    assert talk.calls == []


@pytest.mark.parametrize("words", ["That's wrong.", "That is not right.", "No, that's not quite correct."])
async def test_an_objection_asks_what_to_change_and_ends_nothing(words: str) -> None:
    talk = Talk()
    await talk.hears("Friday at seven for four people.")
    assert await talk.hears(words) == "What shall I change?"
    assert await talk.hears("The time, please.") == "At what time?"
    assert await talk.hears("Eight.") == "Changed to friday at eight for four. Is there anything else?"


async def test_a_number_that_may_correct_two_slots_asks_what_to_change() -> None:
    talk = Talk()
    await talk.hears("Friday at seven for four people.")
    assert await talk.hears("Actually, make it eight.") == "What shall I change?"
    assert await talk.hears("Eight people.") == "Changed to friday at seven for eight. Is there anything else?"


async def test_a_value_that_is_taken_back_is_asked_for_again() -> None:
    talk = Talk()
    await talk.hears("Friday at seven for four people.")
    assert await talk.hears("Sorry, we can't make it on Friday.") == "For which day?"
    assert await talk.hears("Saturday.") == "Changed to saturday at seven for four. Is there anything else?"


@pytest.mark.parametrize("words", ["Yes, Friday at seven for four. Goodbye!", "That's right, on Friday, for four."])
async def test_values_that_are_only_repeated_do_not_hold_up_the_end(words: str) -> None:
    talk = Talk(
        rules.SlotFilling(slots=SLOTS, tool="book", done="Booked.", anything_else="Is it right?", ends_on="yes")
    )
    await talk.hears("Friday at seven for four people.")
    assert await talk.hears(words) == "Goodbye."
    assert len(talk.calls) == 1


async def test_a_yes_with_a_change_is_taken_as_both() -> None:
    talk = Talk(CONFIRMED)
    await talk.hears("friday at seven for four people")
    await talk.hears("yes, but at eight")
    assert [call["time"] for call in talk.calls] == ["20:00"]


async def test_without_a_tool_done_is_said_when_all_slots_are_filled() -> None:
    talk = Talk(rules.SlotFilling(slots=SLOTS[:1], done="{day}, noted."))
    assert await talk.hears("on monday") == "monday, noted. Is there anything else?"


async def test_a_step_streams_sentences_then_usage_then_done() -> None:
    talk = Talk()
    talk.context.append(ChatMessage(role="user", content="friday"))
    assert await talk.events() == [TextDelta("friday. "), TextDelta("At what time?"), Usage(), Done("stop")]


async def test_a_call_that_still_runs_is_not_made_a_second_time() -> None:
    talk = Talk()
    await talk.hears("friday at seven for four people")
    talk.context = ChatContext(talk.context.items[:2])
    call = talk.context.items[1]
    assert isinstance(call, FunctionCall)
    talk.context.append(FunctionCallOutput(call_id=call.call_id, name="book", output="still running"))
    talk.context.append(ChatMessage(role="user", content="hello?"))
    assert not [event for event in await talk.events() if isinstance(event, ToolCall)]


async def test_a_forbidden_tool_is_not_called() -> None:
    talk = Talk()
    talk.context.append(ChatMessage(role="user", content="friday at seven for four people"))
    events = await talk.events(tool_choice=ToolChoice(mode="none"))
    assert not [event for event in events if isinstance(event, ToolCall)]


async def test_a_tool_that_the_agent_does_not_have_is_named() -> None:
    talk = Talk()
    talk.context.append(ChatMessage(role="user", content="friday at seven for four people"))
    with pytest.raises(ProviderError, match="'book'.*give the agent that tool"):
        await talk.events(tools=())


async def test_instructions_for_one_generation_are_matched_like_words() -> None:
    events = await Talk().events(extra_instructions="Tell them about parking.")
    assert events[0] == TextDelta("There is a car park. ")


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ({}, "slots or answers"),
        ({"slots": (SLOTS[0], SLOTS[0])}, "a name of its own"),
        ({"slots": SLOTS, "done": "{date}"}, "date"),
        ({"slots": SLOTS, "confirm": "{"}, "confirm"),
    ],
)
def test_a_slot_filling_that_cannot_work_is_refused(options: dict[str, Any], what: str) -> None:
    with pytest.raises(ConfigurationError, match=what):
        rules.SlotFilling(**options)


def test_a_slot_or_answer_that_cannot_work_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="the day"):
        rules.Slot(name="the day", parser=rules.days(), ask="When?")
    with pytest.raises(ConfigurationError, match="regular expression"):
        rules.Answer("(", "What?")


PHRASES = st.sampled_from(
    [
        "friday",
        "not friday",
        "at eight",
        "eight",
        "four people",
        "yes",
        "no",
        "goodbye",
        "parking",
        "hm",
        "for two at six",
    ]
)


@given(phrases=st.lists(PHRASES, max_size=8), fail=st.booleans(), filling=st.sampled_from([TALK, CONFIRMED]))
async def test_whatever_is_said_each_step_answers_once_and_calls_only_with_all_arguments(
    phrases: list[str], fail: bool, filling: rules.SlotFilling
) -> None:
    talk = Talk(filling, fail=fail)
    for phrase in phrases:
        before = len(talk.calls)
        assert (await talk.hears(phrase)).strip()
        assert len(talk.calls) <= before + 1
    for call in talk.calls:
        book.parse_arguments(json.dumps(call))
    if not fail:
        assert all(one != other for one, other in zip(talk.calls, talk.calls[1:], strict=False)), "called twice alike"


@given(phrases=st.lists(PHRASES, max_size=8))
async def test_the_same_history_always_gets_the_same_answer(phrases: list[str]) -> None:
    first, second = Talk(), Talk()
    assert [await first.hears(p) for p in phrases] == [await second.hears(p) for p in phrases]
    assert first.calls == second.calls

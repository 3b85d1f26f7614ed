"""Ready tasks and groups of tasks, with scripted models: the plumbing and the checks, not the understanding."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from kit.tasks import Front, items, said
from vivavoce.agents import Agent, WakeUp
from vivavoce.agents.events import (
    ErrorOccurred,
    HistoryItemAdded,
    HistoryItemRemoved,
    KeyPressed,
    SpeechCreated,
    WakeUpFired,
)
from vivavoce.agents.tasks import (
    AgentTask,
    AskYesOrNo,
    GetDateTime,
    GetDigitCode,
    GetEmailAddress,
    GetPhoneNumber,
    GetPostalAddress,
    TaskGroup,
)
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines import RealtimePipeline
from vivavoce.pipelines.core.errors import SessionError
from vivavoce.pipelines.llm.chat_context import ChatMessage
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities
from vivavoce.pipelines.testing import ScriptedRealtimeModel, ScriptedSTT, ScriptedVAD

COUNT = iter(range(1, 10**9))


def call(tool: str, /, **arguments: Any) -> list[ToolCall]:
    return [ToolCall(call_id=f"call_{next(COUNT)}", name=tool, arguments=json.dumps(arguments))]


def talk(make: Callable[[], AgentTask[Any]], script: list[Any], *turns: str) -> tuple[SessionHarness, list[str]]:
    """A front desk whose tool awaits the task; the caller answers every four seconds."""
    log: list[str] = []
    llm = ScriptedLLM(call("order"), *script, "Done.", delay=0.1)
    harness = SessionHarness(Front(log, make), llm)

    async def scenario(harness: SessionHarness) -> None:
        await harness.user("order please")
        for turn in turns:
            await harness.user(turn)
        await harness.until(harness.now + 2.0)

    harness.run(scenario)
    assert said(harness)[-1] == "Done."
    assert harness.recording.of(ErrorOccurred) == []
    return harness, [line for line in log if not line.endswith("leaves")]


def test_an_address_is_spelled_read_back_corrected_and_confirmed() -> None:
    script = [
        call("give_email", address="b o p at example dot com"),
        "b, o, p, at example dot com. Right?",
        call("give_email", address="b as in bravo o b as in bravo at example dot com"),
        "b, o, b, at example dot com. Right?",
        call("confirm"),
    ]
    turns = ("bob at example dot com", "no, with a b at the end", "yes")
    harness, log = talk(GetEmailAddress, script, *turns)
    assert log == ["got 'bob@example.com'"]
    assert said(harness)[0] == "What is your e-mail address?"
    written = "Written down. Read this back and ask whether it is right:"
    assert f"output: {written} bop@example.com (b, o, p, at, e, x, a, m, p, l, e, dot, c, o, m)" in items(harness)


def test_an_answer_that_does_not_validate_is_asked_again() -> None:
    script = [
        call("give_email", address="bob example dot com"),
        "Please spell it.",
        call("give_email", address="bob at example dot com"),
        "Right?",
        call("confirm"),
    ]
    harness, log = talk(GetEmailAddress, script, "bob example", "bob at example dot com", "yes")
    assert log == ["got 'bob@example.com'"]
    assert any(item.startswith("output: 'bobexample.com' is no e-mail address:") for item in items(harness))


def test_a_model_cannot_confirm_in_the_caller_s_place() -> None:
    script = [
        call("confirm"),
        call("give_phone", number="oh two oh seven nine four six double oh one eight"),
        call("confirm"),
        "0 2 0, 7 9 4 6, 0 0 1 8. Right?",
        call("confirm"),
    ]
    harness, log = talk(lambda: GetPhoneNumber("GB"), script, "my number is that", "yes")
    assert log == ["got '+442079460018'"]
    assert "output: There is no answer to confirm yet." in items(harness)
    too_early = "The caller has not heard the answer yet. Read it back, and wait for the caller's words."
    assert f"output: {too_early}" in items(harness)


def test_a_caller_who_changes_the_subject_declines() -> None:
    script = [call("decline", reason="asks for the opening hours")]
    harness, log = talk(lambda: GetPostalAddress("DE"), script, "when do you open")
    assert log == [
        "the task 'GetPostalAddress' ended without a result: declined (asks for the opening hours)",
    ]


def test_a_postal_address_and_a_time_are_typed_values() -> None:
    parts = {"street": "High Street", "house_number": "5", "postal_code": "10115", "city": "Berlin"}
    script = [call("give_address", **parts | {"postal_code": "1011"}), "Pardon?", call("give_address", **parts)]
    _, log = talk(lambda: GetPostalAddress("DE", confirms=False), script, "my address", "10115")
    assert log[0].startswith("got PostalAddress(street='High Street', house_number='5', postal_code='10115'")
    script = [
        call("give_time", date="2020-01-01", time="19:30"),
        "That is over.",
        call("give_time", date="friday", time="19:30"),
        "Pardon?",
        call("give_time", date="2199-01-01", time="19:30"),
    ]
    _, log = talk(lambda: GetDateTime(confirms=False), script, "in the past", "friday", "2199")
    assert log[0].startswith("got datetime.datetime(2199, 1, 1, 19, 30")


@pytest.mark.parametrize(("words", "answer"), [("Yes, please.", "True"), ("no", "False")])
def test_a_plain_yes_or_no_needs_no_model(words: str, answer: str) -> None:
    harness, log = talk(lambda: AskYesOrNo("Shall I order it?"), [], words)
    assert log == [f"got {answer}"]
    assert harness.messages == [
        ("user", "order please"),
        ("assistant", "Shall I order it?"),
        ("user", words),
        ("assistant", "Done."),
    ]


@pytest.mark.parametrize("is_realtime", [False, True])
@pytest.mark.parametrize(
    ("make", "words"), [(lambda: AskYesOrNo("Sure?"), "yes"), (lambda: GetDigitCode(2, question="Code?"), "one two")]
)
def test_a_turn_that_a_task_takes_without_the_model_is_one_message_and_completed(
    make: Callable[[], AgentTask[Any]], words: str, is_realtime: bool
) -> None:
    class Desk(Agent):
        async def on_enter(self) -> None:
            await make()

    harness = SessionHarness(Desk("Help."), ScriptedLLM())
    if is_realtime:
        can = RealtimeCapabilities(turn_detection=frozenset({"local"}), starts_replies=False)
        model, stt = ScriptedRealtimeModel(capabilities=can), ScriptedSTT()
        harness = SessionHarness(Desk("Help."), stt=stt, pipeline=RealtimePipeline(model, vad=ScriptedVAD(), stt=stt))
    harness.caller.says(words, 2.0, 2.5)
    harness.run(until=6.0)
    added = [event.item for event in harness.recording.of(HistoryItemAdded)]
    assert [item.content for item in added if isinstance(item, ChatMessage) and item.role == "user"] == [words]
    assert harness.recording.of(HistoryItemRemoved) == []
    assert [record.outcome for record in harness.session.turns if record.kind == "turn"] == ["completed"]
    assert [record.user_text for record in harness.session.turns if record.kind == "turn"] == [words]
    assert [text for role, text in harness.messages if role == "user"] == [words]


def test_an_answer_that_is_not_plain_goes_to_the_model() -> None:
    harness, log = talk(lambda: AskYesOrNo("Shall I order it?"), [call("answer", yes=True)], "well, why not")
    assert log == ["got True"]


def test_a_code_is_taken_from_the_words_or_by_the_model() -> None:
    _, log = talk(lambda: GetDigitCode(4), [], "double one two three")
    assert log == ["got '1123'"]
    script = [call("give_code", digits="one two"), "All four, please.", call("give_code", digits="1 2 3 4")]
    harness, log = talk(lambda: GetDigitCode(4), script, "it begins with one two", "one two and then three four")
    assert log == ["got '1234'"]
    assert "output: The code needs 4 digits, and these are 2. Ask the caller again." in items(harness)


# --- groups


def group() -> TaskGroup:
    return (
        TaskGroup()
        .add("email", lambda: GetEmailAddress(confirms=False), "the e-mail address")
        .add("code", lambda: GetDigitCode(4), "the customer's code")
        .add("sure", lambda: AskYesOrNo("Is that all right?"))
    )


def test_a_group_runs_its_tasks_in_order_and_has_their_results_by_name() -> None:
    script = [call("give_email", address="bob at example dot com")]
    _, log = talk(group, script, "bob at example dot com", "one two three four", "yes")
    assert log == ["got {'email': 'bob@example.com', 'code': '1234', 'sure': True}"]


def test_a_caller_goes_back_to_an_earlier_task_and_the_group_goes_on_where_it_was() -> None:
    script = [
        call("give_email", address="bob at example dot com"),
        call("go_back", name="phone"),
        "There is no such thing. Your code?",
        call("go_back", name="email"),
        call("give_email", address="ann at example dot com"),
    ]
    turns = ("bob at example dot com", "no, my phone", "no, the other address", "ann at example dot com")
    harness, log = talk(group, script, *turns, "one two three four", "yes")
    assert log == ["got {'email': 'ann@example.com', 'code': '1234', 'sure': True}"]
    assert said(harness).count("What is your e-mail address?") == 2
    assert "output: Nothing named 'phone' was given before; there is: email." in items(harness)
    second = harness.llm.requests[2]
    assert "Given before: email: the e-mail address." in second.instructions
    assert "go_back" in [tool.name for tool in second.tools]


def yes_no(**questions: str) -> TaskGroup:
    made = TaskGroup()
    for name, question in questions.items():
        made.add(name, lambda question=question: AskYesOrNo(question))  # type: ignore[misc]
    return made


def test_a_caller_goes_back_twice_and_each_is_asked_once_more() -> None:
    script = [call("go_back", name="two"), call("go_back", name="one"), call("answer", yes=True)]
    turns = ("yes", "yes", "change two", "change one", "well, why not", "no", "yes")
    harness, log = talk(lambda: yes_no(one="One?", two="Two?", three="Three?"), script, *turns)
    assert log == ["got {'one': True, 'two': False, 'three': True}"]
    assert [text for text in said(harness) if text != "Done."] == [
        *("One?", "Two?", "Three?"),
        *("Two?", "One?", "Two?", "Three?"),
    ]


def test_a_caller_who_declines_a_task_that_is_asked_again_keeps_the_result_before() -> None:
    script = [call("go_back", name="one"), call("decline", reason="leave it")]
    turns = ("yes", "change the first", "oh, leave it as it was", "no")
    _, log = talk(lambda: yes_no(one="One?", two="Two?"), script, *turns)
    assert log == ["got {'one': True, 'two': False}"]


def test_from_a_group_inside_a_group_the_caller_goes_back_to_both() -> None:
    def outer() -> TaskGroup:
        group = yes_no(one="One?")
        group.add("inner", lambda: yes_no(two="Two?", three="Three?"))
        return group

    script = [call("go_back", name="two"), call("go_back", name="one"), call("go_back", name="three")]
    turns = ("yes", "yes", "change two", "change one", "no", "no", "change three", "yes")
    harness, log = talk(outer, [*script, "There is no three yet."], *turns)
    assert log == ["got {'one': False, 'inner': {'two': False, 'three': True}}"]
    tools = [tool.description for tool in harness.llm.requests[1].tools if tool.name == "go_back"]
    assert "One of one, two" in tools[0]


def test_a_result_and_a_way_back_in_one_step_of_the_model_end_the_inner_group_once() -> None:
    def outer() -> TaskGroup:
        return yes_no(one="One?").add("inner", lambda: yes_no(two="Two?", three="Three?"))

    both = [*call("answer", yes=True), *call("go_back", name="one")]
    turns = ("yes", "well, why not, but change one", "no", "yes", "yes")
    harness, log = talk(outer, [both], *turns)
    assert log == ["got {'one': False, 'inner': {'two': True, 'three': True}}"]


def test_a_group_that_is_cancelled_ends_the_task_inside() -> None:
    made: list[TaskGroup] = []

    def make() -> TaskGroup:
        made.append(yes_no(one="One?", two="Two?"))
        return made[-1]

    log: list[str] = []
    harness = SessionHarness(Front(log, make), ScriptedLLM(call("order"), "Then not.", delay=0.1))

    async def scenario(harness: SessionHarness) -> None:
        await harness.user("order please")
        await harness.user("yes")
        made[0].cancel()
        await harness.until(harness.now + 2.0)

    harness.run(scenario)
    assert "the task 'TaskGroup' ended without a result: cancelled" in log
    assert harness.session.agent.id == "front"
    assert made[0].results == {"one": True}


def test_a_group_refuses_a_task_that_has_run_and_one_that_comes_too_late() -> None:
    task = AskYesOrNo("One?")
    made: list[TaskGroup] = []

    def make() -> TaskGroup:
        made.append(TaskGroup().add("one", lambda: task).add("two", lambda: task))
        return made[-1]

    log: list[str] = []
    harness = SessionHarness(Front(log, make), ScriptedLLM(call("order"), "Sorry.", delay=0.1))
    harness.expects_error("hook", contains="need another task each time from make() of 'two'")

    async def scenario(harness: SessionHarness) -> None:
        await harness.user("order please")
        with pytest.raises(SessionError, match="was awaited already; add 'three' before"):
            made[0].add("three", lambda: task)
        await harness.user("yes")

    harness.run(scenario, until=10.0)
    assert any("ended without a result: failed" in line for line in log)


def test_a_declined_task_declines_its_group() -> None:
    script = [call("give_email", address="bob at example dot com"), call("decline", reason="has none")]
    _, log = talk(group, script, "bob at example dot com", "i have no code")
    assert log == ["the task 'TaskGroup' ended without a result: declined (has none)"]


def test_a_group_without_a_task_fails_and_says_so() -> None:
    log: list[str] = []
    harness = SessionHarness(Front(log, TaskGroup), ScriptedLLM(call("order"), "Sorry.", delay=0.1))
    harness.caller.says("order please", 0.5, 1.5)
    harness.expects_error("hook").run(until=5.0)
    assert any("add(name, make) one before it is awaited" in line for line in log)


# --- keys of a telephone


def pressing(make: Callable[[], AgentTask[Any]], *keys: tuple[str, float], **given: Any) -> tuple[Any, list[str]]:
    log: list[str] = []
    harness = SessionHarness(Front(log, make), ScriptedLLM(call("order"), "Done.", delay=0.1), **given)
    harness.caller.says("order please", 0.5, 1.5)
    for pressed, at in keys:
        harness.caller.presses(pressed, at)
    harness.run(until=12.0)
    return harness, [line for line in log if not line.endswith("leaves")]


def test_a_code_is_taken_from_keys_which_cut_the_question() -> None:
    harness, log = pressing(lambda: GetDigitCode(4), ("1234", 3.0))
    assert log == ["got '1234'"]
    assert [turn.outcome for turn in harness.session.turns] == ["interrupted", "completed"]
    assert [event.key for event in harness.recording.of(KeyPressed)] == list("1234")
    assert harness.messages[-1] == ("assistant", "Done.")


def test_a_shorter_code_ends_with_the_hash_key_and_the_star_key_begins_anew() -> None:
    _, log = pressing(lambda: GetDigitCode(2, max_length=6), ("99*12#", 3.0))
    assert log == ["got '12'"]


def test_keys_that_are_no_code_are_asked_for_again() -> None:
    harness, log = pressing(lambda: GetDigitCode(4, question="Your code?"), ("12#", 3.0), ("1234", 7.0))
    assert log == ["got '1234'"]
    assert "That was no code of 4 digits. Your code?" in said(harness)


def test_a_code_that_is_broken_off_is_asked_for_again_after_its_pause() -> None:
    harness, log = pressing(lambda: GetDigitCode(4, question="Your code?", key_pause=2.0), ("12", 3.0), ("1234", 8.0))
    assert log == ["got '1234'"]
    assert said(harness).count("That was no code of 4 digits. Your code?") == 1
    at = [event.at for event in harness.recording.of(SpeechCreated)]
    assert 3.2 + 2.0 in [pytest.approx(each) for each in at]  # the last key comes at 3.2


@pytest.mark.parametrize("keys", ["12", "*", "12*"])
def test_after_a_pause_without_a_code_it_is_asked_for_once_and_not_while_the_caller_speaks(keys: str) -> None:
    log: list[str] = []
    llm = ScriptedLLM(call("order"), "Take your time.", "Done.", delay=0.1)
    front = Front(log, lambda: GetDigitCode(4, question="Your code?", key_pause=1.0))
    harness = SessionHarness(front, llm)
    harness.caller.says("order please", 0.5, 1.5)
    harness.caller.presses(keys, 3.5)
    harness.caller.says("wait a moment I have to look for it", 4.0, 7.0)
    harness.run(until=16.0)
    texts = said(harness)
    asked = "Your code?" if keys.endswith("*") else "That was no code of 4 digits. Your code?"
    assert texts.index("Take your time.") < len(texts) - 1 - texts[::-1].index(asked)
    assert texts[1:].count(asked) == 1
    assert harness.recording.of(ErrorOccurred) == []


def test_enough_digits_are_the_code_when_no_key_follows() -> None:
    harness, log = pressing(lambda: GetDigitCode(2, max_length=6, key_pause=2.0), ("123", 3.0))
    assert log == ["got '123'"]
    assert not any("no code" in text for text in said(harness))


def test_a_task_that_is_over_asks_for_no_further_keys() -> None:
    harness, log = pressing(lambda: GetDigitCode(4, key_pause=1.0), ("1", 3.0), ("234", 3.4))
    assert log == ["got '1234'"]
    assert not any("no code" in text for text in said(harness))


def test_a_hash_key_behind_a_whole_code_is_no_answer_to_the_next_question() -> None:
    def codes() -> TaskGroup:
        made = TaskGroup().add("number", lambda: GetDigitCode(4, question="Your number?"))
        return made.add("pin", lambda: GetDigitCode(4, question="And now your four secret digits, please?"))

    harness, log = pressing(codes, ("1234", 3.0), ("#", 4.2), ("5678#", 7.0))
    assert log == ["got {'number': '1234', 'pin': '5678'}"]
    assert "And now your four secret digits, please?" in said(harness)  # in full
    assert not any("no code" in text for text in said(harness))


def test_a_key_is_a_sign_of_life() -> None:
    harness, _ = pressing(lambda: GetDigitCode(4), ("1", 7.0), wake_up=WakeUp(after=4.5))
    (woken,) = [event.at for event in harness.recording.of(WakeUpFired)]
    assert woken == pytest.approx(7.0 + 4.5)

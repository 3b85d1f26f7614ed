"""A scripted caller decides when to speak by its own hearing, on a clock of received samples."""

from __future__ import annotations

from typing import Any

import pytest

from vivavoce.agents.caller.line import SAMPLE_RATE, Decision, HangUp, Say
from vivavoce.agents.caller.script import CallScript
from vivavoce.agents.caller.script_mind import ScriptMind

FRAME = SAMPLE_RATE // 50


class Phone:
    """Plays the agent's side to a mind; each line of the caller takes a second."""

    def __init__(self, *steps: dict[str, Any], has_ears: bool = False, **script: Any) -> None:
        whole = CallScript.model_validate({"steps": steps, "patience": 4, **script})
        self.mind = ScriptMind(whole, has_ears=has_ears)
        self.position = 0
        self.decisions: list[tuple[float, Decision]] = []

    def wait(self, seconds: float) -> None:
        end = self.position + round(seconds * SAMPLE_RATE)
        while self.position < end:
            decision = self.mind.decide(self.position)
            if decision is not None:
                self.decisions.append((round(self.position / SAMPLE_RATE, 2), decision))
            if isinstance(decision, Say):
                self.mind.said(decision, self.position, self.position + SAMPLE_RATE)
            if isinstance(decision, HangUp):
                return
            self.position += FRAME

    def agent_speaks(self, seconds: float) -> None:
        self.mind.host_started(self.position)
        self.wait(seconds)
        self.mind.host_ended(self.position)


def test_the_caller_waits_for_the_greeting_and_for_each_answer_and_hangs_up_after_the_last() -> None:
    phone = Phone({"say": "one"}, {"say": "two", "pause": 1.5})
    phone.wait(1.0)
    phone.agent_speaks(1.0)
    phone.wait(2.0)  # "one" at 2.8
    phone.agent_speaks(1.0)  # 4.0 … 5.0
    phone.wait(3.0)  # "two" at 6.5
    phone.agent_speaks(0.5)  # 8.0 … 8.5
    phone.wait(2.0)
    assert phone.decisions == [(2.8, Say("one")), (6.5, Say("two")), (9.3, HangUp())]


def test_a_caller_who_speaks_first_does_not_wait() -> None:
    phone = Phone({"say": "one"}, greeting=False)
    phone.wait(1.0)
    assert phone.decisions == [(0.8, Say("one"))]


def test_a_barge_in_comes_so_far_into_the_agents_speech() -> None:
    phone = Phone({"say": "one"}, {"say": "stop", "barge_in_after": 1.2})
    phone.agent_speaks(0.5)
    phone.wait(2.5)  # "one" at 1.3, until 2.3
    phone.agent_speaks(3.0)  # from 3.0
    assert phone.decisions[-1] == (4.2, Say("stop", is_barge_in=True))


def test_a_barge_in_that_the_agent_did_not_wait_for_is_a_failed_call() -> None:
    phone = Phone({"say": "one"}, {"say": "stop", "barge_in_after": 5})
    phone.agent_speaks(0.5)
    phone.wait(2.5)
    phone.agent_speaks(2.0)
    phone.wait(6.0)
    (_, hung_up) = phone.decisions[-1]
    assert isinstance(hung_up, HangUp)
    assert "spoke for 2.0 s only" in hung_up.problem


def test_what_the_agent_still_says_as_it_is_interrupted_is_no_answer() -> None:
    phone = Phone({"say": "stop", "barge_in_after": 0.4})
    phone.agent_speaks(0.9)
    phone.wait(3.0)
    assert phone.decisions == [(0.4, Say("stop", is_barge_in=True))]
    phone.agent_speaks(0.5)
    phone.wait(1.0)
    assert phone.decisions[-1][1] == HangUp()


def test_silence_that_is_expected_is_waited_for_and_no_answer() -> None:
    phone = Phone({"say": "hold on", "expect": {"silent_for": 2}}, {"say": "two"}, greeting=False)
    phone.wait(6.0)
    assert phone.decisions[:2] == [(0.8, Say("hold on")), (3.8, Say("two"))]


@pytest.mark.parametrize(("spoken", "said"), [(0, "as a greeting"), (1, "after 'one'")])
def test_an_agent_that_says_nothing_ends_the_call(spoken: int, said: str) -> None:
    phone = Phone({"say": "one"})
    for _ in range(spoken):
        phone.agent_speaks(0.5)
    phone.wait(10.0)
    (_, hung_up) = phone.decisions[-1]
    assert isinstance(hung_up, HangUp)
    assert hung_up.problem == f"the agent said nothing {said} within 4 s"


def test_with_ears_the_words_are_waited_for_and_belong_to_the_line_before_them() -> None:
    phone = Phone({"say": "one"}, {"say": "two"}, has_ears=True)
    phone.agent_speaks(0.5)
    phone.wait(1.5)
    assert phone.decisions == []
    phone.mind.interim("which", phone.position)
    phone.mind.final("which day")
    phone.wait(1.5)
    phone.agent_speaks(0.5)
    phone.mind.interim("what time", phone.position)
    phone.mind.final("")
    phone.wait(1.0)
    assert [decision for _, decision in phone.decisions] == [Say("one"), Say("two")]
    assert phone.mind.greeting.text == "which day"
    assert phone.mind.said_lines[0].answer.text == "what time"


def test_captions_belong_to_what_the_agent_was_saying_when_they_began() -> None:
    phone = Phone({"say": "one"})
    greeting = phone.mind.captions()
    phone.agent_speaks(0.5)
    phone.wait(1.0)
    answer = phone.mind.captions()
    greeting["s1"], answer["s2"] = "hello", "yes"
    assert (phone.mind.greeting.text, phone.mind.said_lines[0].answer.text) == ("hello", "yes")


def test_an_agent_that_leaves_ends_the_call_after_the_takeover_time() -> None:
    phone = Phone({"say": "one"}, {"say": "two"})
    phone.agent_speaks(0.5)
    phone.wait(2.5)  # "one" at 1.3, until 2.3
    phone.mind.host_left(phone.position, may_return=True)
    phone.wait(10.0)
    assert phone.decisions[1:] == [(6.0, HangUp("the agent left before the script was over, after 'one'"))]


@pytest.mark.parametrize(("takeover", "may_return"), [(0, True), (600, False)])
def test_where_nobody_can_take_over_an_agent_that_leaves_ends_the_call_at_once(
    takeover: float, may_return: bool
) -> None:
    phone = Phone({"say": "one"}, takeover=takeover)
    phone.wait(1.0)
    phone.mind.host_left(phone.position, may_return=may_return)
    phone.wait(1.0)
    problem = "the agent left before the script was over, before the first line; the agent's log may say why"
    assert phone.decisions == [(1.0, HangUp(problem))]


def test_no_line_is_begun_to_nobody_and_the_script_goes_on_with_whoever_takes_over() -> None:
    phone = Phone({"say": "one"}, {"say": "two"})
    phone.agent_speaks(0.5)
    phone.wait(2.5)
    phone.agent_speaks(0.5)  # 3.0 … 3.5
    phone.mind.host_left(phone.position, may_return=True)
    phone.wait(2.0)
    phone.mind.host_returned(phone.position)  # 5.5; patience begins again, and so does the pause
    phone.wait(2.0)
    assert phone.decisions == [(1.3, Say("one")), (6.3, Say("two"))]


def test_an_agent_that_leaves_after_its_last_answer_has_not_cut_the_script_short() -> None:
    phone = Phone({"say": "one"}, takeover=0)
    phone.agent_speaks(0.5)
    phone.wait(2.5)
    phone.agent_speaks(0.5)
    phone.mind.host_left(phone.position, may_return=True)
    phone.wait(2.0)
    assert phone.decisions[1:] == [(4.3, HangUp())]


def test_an_agent_that_leaves_instead_of_answering_the_last_line_has() -> None:
    phone = Phone({"say": "one"}, takeover=0)
    phone.agent_speaks(0.5)
    phone.wait(1.5)
    phone.mind.host_left(phone.position, may_return=True)  # in the middle of "one"
    phone.wait(2.0)
    assert phone.decisions[1:] == [(2.0, HangUp("the agent left before the script was over, after 'one'"))]


def test_an_agent_that_stays_silent_as_expected_and_leaves_meanwhile_has_cut_the_script_short() -> None:
    phone = Phone({"say": "hold on", "expect": {"silent_for": 3}}, greeting=False, takeover=0)
    phone.wait(2.5)
    phone.mind.host_left(phone.position, may_return=True)
    phone.wait(2.0)
    assert phone.decisions[1:] == [(2.5, HangUp("the agent left before the script was over, after 'hold on'"))]


@pytest.mark.parametrize("expect", [{"may_leave": True}, {"leaves_within": 60}])
def test_an_agent_that_may_leave_has_its_last_words_understood_first(expect: dict[str, Any]) -> None:
    phone = Phone({"say": "one", "expect": expect}, has_ears=True, takeover=0)
    phone.agent_speaks(0.5)
    phone.mind.final("hello")
    phone.wait(2.5)
    phone.agent_speaks(0.5)  # 3.0 … 3.5
    phone.mind.host_left(phone.position, may_return=True)
    phone.wait(1.0)
    assert len(phone.decisions) == 1
    phone.mind.final("goodbye")
    phone.wait(1.0)
    assert phone.decisions[1:] == [(4.5, HangUp())]
    assert phone.mind.said_lines[0].answer.text == "goodbye"


def test_an_agent_that_may_leave_and_stays_is_told_the_next_line() -> None:
    phone = Phone({"say": "one", "expect": {"may_leave": True}}, {"say": "two"})
    phone.agent_speaks(0.5)
    phone.wait(2.5)
    phone.agent_speaks(0.5)
    phone.wait(1.0)
    assert [decision for _, decision in phone.decisions] == [Say("one"), Say("two")]


def test_an_agent_that_must_leave_is_waited_for_as_long_as_it_may_take() -> None:
    phone = Phone({"say": "goodbye", "expect": {"leaves_within": 6}})
    phone.agent_speaks(0.5)
    phone.wait(2.5)
    phone.agent_speaks(0.5)
    phone.wait(9.0)
    assert phone.decisions == [(1.3, Say("goodbye")), (8.3, HangUp())]

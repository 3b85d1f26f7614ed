"""When a scripted caller speaks: decided from what it hears, on a clock of received samples."""

from __future__ import annotations

from typing import Any

import pytest

from vivavoce.agents.cli.call.mind import ScriptMind
from vivavoce.agents.cli.call.script import CallScript
from vivavoce.agents.cli.caller.line import SAMPLE_RATE, Decision, HangUp, Say

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

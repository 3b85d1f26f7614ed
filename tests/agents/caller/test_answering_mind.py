"""The simulated caller's decisions, on scripted hearing."""

from __future__ import annotations

from dataclasses import dataclass, field

from vivavoce.agents.caller.answering_mind import (
    BARGE_IN_AFTER,
    MAX_REPEATS,
    PATIENCE,
    REPLY_PAUSE,
    AnsweringMind,
)
from vivavoce.agents.caller.line import SAMPLE_RATE, Decision, HangUp, Say
from vivavoce.agents.cli.demo.script import GRAMMAR_SCRIPT, free_script

FRAME = SAMPLE_RATE // 50
LINE_SECONDS = 1.0


@dataclass
class Phone:
    """Plays a host to a mind, frame by frame."""

    mind: AnsweringMind = field(default_factory=lambda: AnsweringMind(GRAMMAR_SCRIPT))
    position: int = 0

    def wait(self, seconds: float) -> Decision | None:
        """Let time pass until the mind decides something, at most `seconds`."""
        end = self.position + round(seconds * SAMPLE_RATE)
        while self.position < end:
            self.position += FRAME
            if (decision := self.mind.decide(self.position)) is not None:
                if isinstance(decision, Say):
                    self.mind.said(decision, self.position, self.position + round(LINE_SECONDS * SAMPLE_RATE))
                return decision
        return None

    def host(self, text: str, seconds: float = 1.0) -> Decision | None:
        """The host says `text`; returns the mind's action, if any."""
        self.mind.host_started(self.position)
        done = self.wait(seconds)
        self.mind.host_ended(self.position)
        self.mind.final(text)
        return done

    def line(self) -> str:
        """Return the mind's next line."""
        decision = self.wait(10.0)
        assert isinstance(decision, Say)
        self.wait(LINE_SECONDS)
        return decision.line


def _in_call() -> Phone:
    phone = Phone()
    phone.host("hello this is the corner table for which day would you like a table")
    return phone


def test_each_question_gets_its_answer() -> None:
    phone = _in_call()
    assert phone.line() == "table for friday please"
    phone.host("on friday at what time")
    assert phone.line() == "at seven"
    phone.host("at seven for how many people")
    assert phone.line() == "four people"


def test_it_waits_for_a_pause_before_it_speaks() -> None:
    phone = Phone()
    phone.host("hello this is the corner table")
    assert phone.wait(REPLY_PAUSE / 2) is None
    phone.host("for which day would you like a table")
    assert phone.wait(REPLY_PAUSE - 0.05) is None
    assert phone.wait(0.1) == Say("table for friday please")


def test_it_waits_for_the_transcript_of_what_it_heard() -> None:
    phone = Phone()
    phone.mind.host_started(0)
    phone.wait(1.0)
    phone.mind.host_ended(phone.position)
    assert phone.wait(2.0) is None
    phone.mind.final("for which day would you like a table")
    assert phone.wait(0.1) == Say("table for friday please")


def test_it_interrupts_once_its_cue_has_stood_for_a_while() -> None:
    phone = _in_call()
    phone.line()
    phone.mind.host_started(phone.position)
    phone.mind.interim("please let me read you our house rules", phone.position)
    assert phone.wait(BARGE_IN_AFTER - 0.05) is None
    assert phone.wait(0.1) == Say("stop please", is_barge_in=True)
    phone.wait(LINE_SECONDS)
    phone.mind.interim("please let me read you our house rules again", phone.position)
    assert phone.wait(1.0) is None, "interrupts only once"


def test_a_cue_that_is_taken_back_interrupts_nothing() -> None:
    phone = _in_call()
    phone.line()
    phone.mind.host_started(phone.position)
    phone.mind.interim("house rules", phone.position)
    phone.wait(BARGE_IN_AFTER / 2)
    phone.mind.interim("four guests", phone.position)
    assert phone.wait(2.0) is None


def test_a_cue_in_a_sentence_that_is_over_lets_it_interrupt_the_next_one() -> None:
    phone = _in_call()
    phone.line()
    assert phone.host("Please let me read you our house rules.", seconds=0.2) is None
    phone.mind.host_started(phone.position)
    phone.mind.interim("We keep", phone.position)
    assert phone.wait(BARGE_IN_AFTER - 0.05) is None
    assert phone.wait(0.1) == Say("stop please", is_barge_in=True)


def test_words_are_compared_without_case_and_punctuation() -> None:
    phone = Phone()
    phone.host("Hello! For which day would you like a table?")
    assert phone.line() == "table for friday please"


def test_a_number_is_read_back_in_any_of_its_spellings() -> None:
    phone = Phone(AnsweringMind(free_script(0)))
    phone.host("For which day would you like a table?")
    phone.line()
    phone.host("I have booked Friday at seven for five guests. Is the booking right?")
    phone.line()
    phone.host("I have changed it to Friday at 8 for 5 guests. Is the booking right?")
    assert phone.line() == dict(phone.mind.script.answers)["booking right"]


def test_what_was_begun_before_the_barge_in_belongs_to_the_turn_before() -> None:
    phone = _in_call()
    phone.line()
    phone.mind.host_started(phone.position)
    phone.mind.interim("our house rules", phone.position)
    assert isinstance(phone.wait(1.0), Say)
    phone.mind.host_ended(phone.position)
    phone.mind.final("please let me read you our house rules")
    assert [turn.answer for turn in phone.mind.turns] == ["please let me read you our house rules", ""]
    assert phone.wait(PATIENCE / 2) is None, "what it cut off is not answered"


def test_of_a_sentence_cut_in_the_middle_it_keeps_what_it_sounded_like() -> None:
    phone = _in_call()
    phone.line()
    phone.mind.host_started(phone.position)
    phone.mind.interim("our house rules we keep", phone.position)
    assert isinstance(phone.wait(1.0), Say)
    phone.mind.host_ended(phone.position)
    phone.mind.final("")
    assert phone.mind.turns[0].answer == "our house rules we keep"


def test_the_first_time_a_booking_is_read_back_it_is_corrected() -> None:
    phone = _in_call()
    phone.line()
    phone.host("i have booked friday at seven for four guests is the booking right")
    assert phone.line() == GRAMMAR_SCRIPT.correction[1]
    phone.host("i have changed it to friday at eight for four guests is the booking right")
    assert phone.line() == "yes thank you goodbye"


def test_a_changed_booking_that_is_read_back_wrong_is_corrected_again_but_not_for_ever() -> None:
    phone = _in_call()
    phone.line()
    phone.host("i have booked friday at seven for four guests is the booking right")
    phone.line()
    phone.host("i have changed it to friday at ten for two guests is the booking right")
    assert phone.line() == "no, at eight"
    phone.host("i have changed it to friday at eight for two guests is the booking right")
    assert phone.line() == "no, four people"
    phone.host("i have changed it to friday at eight for two guests is the booking right")
    assert phone.line() == "yes thank you goodbye", "it may be the caller who does not hear well"


def test_it_hangs_up_at_goodbye() -> None:
    phone = _in_call()
    phone.line()
    phone.host("thank you for calling goodbye")
    assert phone.wait(1.0) == HangUp()


def test_an_unanswered_line_is_said_again_and_then_the_call_has_failed() -> None:
    phone = _in_call()
    said = [phone.line() for _ in range(1 + MAX_REPEATS)]
    assert set(said) == {"table for friday please"}
    decision = phone.wait(PATIENCE + 1)
    assert isinstance(decision, HangUp)
    assert "table for friday please" in decision.problem


def test_a_host_that_never_speaks_fails_the_call() -> None:
    phone = Phone()
    said = [phone.line() for _ in range(1 + MAX_REPEATS)]
    assert set(said) == {GRAMMAR_SCRIPT.opening}
    decision = phone.wait(PATIENCE + 1)
    assert isinstance(decision, HangUp)
    assert GRAMMAR_SCRIPT.opening in decision.problem


def test_a_caller_who_understood_nothing_of_the_greeting_says_hello_until_it_is_asked_something() -> None:
    phone = Phone()
    phone.host("")
    assert phone.line() == GRAMMAR_SCRIPT.opening
    phone.host("hello for which day would you like a table")
    assert phone.line() == "table for friday please"


def test_a_question_that_needs_a_booking_is_not_answered_before_one_was_heard() -> None:
    """A clipped greeting once sounded like it, and the caller corrected a booking before asking for one."""
    phone = Phone()
    phone.host("is the booking right at eight on tomorrow hello")
    assert phone.line() == GRAMMAR_SCRIPT.opening

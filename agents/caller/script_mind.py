"""ScriptMind: decides when a scripted caller says its next line, by its own hearing. Pure; time is received samples."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from vivavoce.agents.caller.line import SAMPLE_RATE, Decision, HangUp, Say
from vivavoce.agents.caller.script import DEFAULT_PAUSE, CallScript, Expectation, Step


@dataclass(slots=True)
class Answer:
    """The agent's words after a line."""

    heard: list[str] = field(default_factory=list)
    """Utterances as the caller's recogniser understood them."""
    captions: dict[str, str] = field(default_factory=dict)
    """The agent's own transcription, by segment."""

    @property
    def text(self) -> str:
        return " ".join([*self.heard, *self.captions.values()])


@dataclass(slots=True)
class SaidLine:
    """A line of the caller and the answer that it heard; positions are samples on the call's clock."""

    start: int
    end: int
    answer: Answer = field(default_factory=Answer)


@dataclass(slots=True)
class ScriptMind:
    """Decides for a scripted caller: it receives events in order, and is asked for a decision once a frame.

    Args:
        script: The lines, and when to say them.
        has_ears: Each utterance of the agent is followed by its recognised words; the caller waits for them.
    """

    script: CallScript
    has_ears: bool
    said_lines: list[SaidLine] = field(default_factory=list)
    greeting: Answer = field(default_factory=Answer)
    """The agent's words before the first line."""
    _begun: deque[int] = field(default_factory=deque)
    _interim: str = ""
    _agent_since: int | None = None
    """Position at which the agent began to speak after the last line."""
    _is_agent_speaking: bool = False
    _quiet_since: int = 0
    _left_at: int | None = None
    _may_return: bool = True

    def host_started(self, position: int) -> None:
        self._begun.append(position)
        self._is_agent_speaking = True
        if self._agent_since is None:
            self._agent_since = position

    def host_ended(self, position: int) -> None:
        self._is_agent_speaking = False
        self._quiet_since = max(self._quiet_since, position)

    def host_left(self, position: int, *, may_return: bool) -> None:
        self._left_at = position
        self._may_return = may_return

    def host_returned(self, position: int) -> None:
        self._left_at = None
        self._quiet_since = max(self._quiet_since, position)

    def interim(self, text: str, position: int) -> None:
        self._interim = text

    def final(self, text: str) -> None:
        begun = self._begun.popleft()
        text, self._interim = text or self._interim, ""
        if text:
            self._answer_of(begun).append(text)

    def captions(self) -> dict[str, str]:
        """Return the dict for the transcription of the agent's next words."""
        return (self.said_lines[-1].answer if self.said_lines else self.greeting).captions

    def _answer_of(self, begun: int) -> list[str]:
        answered = next((line for line in reversed(self.said_lines) if line.start <= begun), None)
        return (self.greeting if answered is None else answered.answer).heard

    def decide(self, position: int) -> Decision | None:
        if self._left_at is not None:
            return self._alone(self._left_at, position)
        if self.said_lines and position < self.said_lines[-1].end:
            return None
        number = len(self.said_lines)
        step = self.script.steps[number] if number < len(self.script.steps) else None
        if step is not None and step.barge_in_after is not None:
            return self._interrupt(step, step.barge_in_after, position)
        if step is None and self._expected.leaves_within is not None:
            is_over = position - self.said_lines[-1].end >= self._expected.leaves_within * SAMPLE_RATE
            return HangUp() if is_over else None
        if self._is_time(step, position):
            return HangUp() if step is None else Say(step.line, keys=step.press or "")
        return self._give_up(position)

    def said(self, say: Say, start: int, end: int) -> None:
        self.said_lines.append(SaidLine(start, end))
        self._agent_since = None
        self._quiet_since = end

    @property
    def _expected(self) -> Expectation:
        """The expectation of the agent's present words."""
        number = len(self.said_lines)
        return self.script.steps[number - 1].expect if number else self.script.greeting_expect

    def _alone(self, left_at: int, position: int) -> HangUp | None:
        """End the call when the agent has left and its last words are recognised, or no agent has taken over in
        time.
        """
        expected = self._expected
        is_answered = self._agent_since is not None and expected.silent_for is None
        is_last = len(self.said_lines) == len(self.script.steps)
        if expected.may_leave or expected.leaves_within is not None or (is_last and is_answered):
            is_understood = not self._is_agent_speaking and not (self.has_ears and self._begun)
            is_quiet = position - max(left_at, self._quiet_since) >= DEFAULT_PAUSE * SAMPLE_RATE
            return HangUp() if is_understood and is_quiet else None
        grace = self.script.takeover if self._may_return else 0.0
        if position - left_at < grace * SAMPLE_RATE:
            return None
        where = (
            f"after {self.script.steps[len(self.said_lines) - 1].line!r}"
            if self.said_lines
            else "before the first line; the agent's log may say why"
        )
        return HangUp(f"the agent left before the script was over, {where}")

    def _is_time(self, step: Step | None, position: int) -> bool:
        """Return whether the agent's turn is over, or the condition that replaces it is met."""
        pause = (step.pause if step is not None else DEFAULT_PAUSE) * SAMPLE_RATE
        if not self.said_lines and not self.script.greeting:
            return position >= pause
        if self.said_lines:
            silence = self.script.steps[len(self.said_lines) - 1].expect.silent_for
            if silence is not None:
                return position - self.said_lines[-1].end >= silence * SAMPLE_RATE
        if self._agent_since is None or self._is_agent_speaking or (self.has_ears and self._begun):
            return False
        return position - self._quiet_since >= pause

    def _interrupt(self, step: Step, after: float, position: int) -> Decision | None:
        if self._agent_since is not None and self._is_agent_speaking:
            spoken = position - self._agent_since
            return Say(step.line, is_barge_in=True, keys=step.press or "") if spoken >= after * SAMPLE_RATE else None
        if self._agent_since is not None and position - self._quiet_since >= self.script.patience * SAMPLE_RATE:
            spoken_seconds = (self._quiet_since - self._agent_since) / SAMPLE_RATE
            return HangUp(
                f"{step.line!r} was to interrupt the agent {after:g} s into its speech, "
                f"but it spoke for {spoken_seconds:.1f} s only"
            )
        return self._give_up(position)

    def _give_up(self, position: int) -> Decision | None:
        quiet = position - self._quiet_since
        if self._is_agent_speaking or quiet < self.script.patience * SAMPLE_RATE:
            return None
        before = f"after {self.script.steps[len(self.said_lines) - 1].line!r}" if self.said_lines else "as a greeting"
        what = "said nothing" if self._agent_since is None else "said nothing that was understood"
        return HangUp(f"the agent {what} {before} within {self.script.patience:g} s")

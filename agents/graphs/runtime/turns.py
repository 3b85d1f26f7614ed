"""JudgedTurn, WaitingTool: who waits for the graph, at most for a JudgeLimit. BodyVoice: the way of a body's text."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import anyio

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.extension.text_parts import PartText, TextParts
from vivavoce.agents.extension.turn_in_hand import TurnInHand

KEY = "graph"
"""The key of `GraphOptions`, and the source of `error` events."""
JUDGE_LIMIT = 30.0
"""Seconds for which a turn or a tool waits until it is judged, without those of bodies, which have their own limits."""


class JudgeLimit:
    """The limit of those waits, which begins anew behind each body; it stands still before the beginning."""

    def __init__(self) -> None:
        self._counts_since = math.inf

    def counts(self) -> None:
        """Begin it anew: the conversation begins, or no body runs any more."""
        self._counts_since = anyio.current_time()

    def stands_still(self) -> None:
        """Let it stand still, since a body runs."""
        self._counts_since = math.inf

    async def in_time(self, judged: anyio.Event) -> bool:
        """Wait for a judgement; return whether it came within the limit."""
        began = anyio.current_time()
        while (left := max(began, self._counts_since) + JUDGE_LIMIT - anyio.current_time()) > 0:
            with anyio.move_on_after(min(left, JUDGE_LIMIT)):
                await judged.wait()
                return True
        return False


class BodyVoice(ABC):
    """Takes the text that a body yields."""

    is_beginning = False
    """Whether it asks for the speech of that text now."""

    @abstractmethod
    def push(self, text: str) -> bool:
        """Speak a piece; return whether more is wanted: not once the caller has interrupted."""

    def split(self) -> None:
        """The body asks for speech of its own, or awaits a task: its next text comes behind that."""

    def close(self) -> None:
        """The body has no more text."""


class JudgedTurn(BodyVoice):
    """One turn. Its bodies answer it by one text, in the order in which they run."""

    def __init__(self, spoken: TurnInHand) -> None:
        self.spoken = spoken
        self.decided = anyio.Event()
        """Set when it is judged, or a body answers it."""
        self._parts: TextParts | None = None
        self._is_settled = False

    @property
    def is_over(self) -> bool:
        """Whether its answer is over."""
        return self.spoken.handle.is_done

    @property
    def takes_answer(self) -> bool:
        """Whether a body may answer it."""
        return not (self.spoken.is_remote or self._is_settled or self.spoken.handle.is_done)

    @property
    def is_waiting(self) -> bool:
        """Whether its answer waits for the judgement."""
        return self.takes_answer and not self.decided.is_set()

    def answer(self) -> None:
        """A body begins to answer it."""
        if self._parts is None:
            self._parts = TextParts(has_limit=True)
            self.spoken.answer(self._parts)
        self._parts.begin_text()
        self.decided.set()

    def moved(self, transition: str, *, is_undone: bool) -> None:
        """It has led to a move, by that transition if one is named; `is_undone`: the move was taken back."""
        self.spoken.note_taken(KEY, is_taken=not is_undone)
        if transition:
            self.spoken.record.moved(transition)

    def judged(self, state: str) -> None:
        """It is judged, and the conversation is in that state."""
        self.spoken.note_taken(KEY, is_taken=True)
        self.spoken.record.answered_in(state)
        self.settle()

    def settle(self) -> None:
        """It is judged, and all of its bodies have ended."""
        self._is_settled = True
        if self._parts is not None:
            self._parts.close()
        self.decided.set()

    def push(self, text: str) -> bool:
        """Speak a piece of the answer."""
        if self._parts is None or not self.takes_answer:
            return False
        self._parts.push(text)
        return True


class WaitingTool:
    """A tool that waits until its event is judged, with all bodies that it leads to."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.ran_body = False

    def body_runs(self) -> None:
        """A body answers."""
        self.ran_body = True


class SayVoice(BodyVoice):
    """Speaks the text of a body outside of turns, by `say()`: one for each text between speeches that it asks for."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._handle: SpeechHandle | None = None
        self._parts: TextParts | None = None

    def push(self, text: str) -> bool:
        """Speak a piece."""
        handle = self._handle
        if handle is not None and handle.is_done and (self._parts is not None or handle.outcome != "completed"):
            return False
        if self._parts is None:
            parts = TextParts()
            self.is_beginning = True
            try:
                self._handle = self._context.session.say(PartText(parts))
            finally:
                self.is_beginning = False
            self._parts = parts
        self._parts.push(text)
        return True

    def split(self) -> None:
        """End the text: the next piece begins another one."""
        self.close()
        self._parts = None

    def close(self) -> None:
        """End the text."""
        if self._parts is not None:
            self._parts.close()

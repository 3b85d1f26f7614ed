"""JudgedTurn, WaitingTool: what waits for the graph. JudgeLimit: for how long at most. BodyVoice: takes a body's
text."""

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
"""Seconds for which a turn or a tool waits until it is judged. Bodies do not count; they have limits of their own."""


class JudgeLimit:
    """The limit of those waits. It begins anew after each body, and does not count before the beginning of the
    conversation."""

    def __init__(self) -> None:
        self._counts_since = math.inf

    def counts(self) -> None:
        """Begin the limit anew: the conversation begins, or no body runs any more."""
        self._counts_since = anyio.current_time()

    def stands_still(self) -> None:
        """Stop the limit, since a body runs."""
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
    """Whether the body is now asking for the speech of that text."""

    @abstractmethod
    def push(self, text: str) -> bool:
        """Speak a piece; return whether more is wanted, which is False once the caller has interrupted."""

    def split(self) -> None:
        """Note that the body asks for speech of its own, or awaits a task: its next text comes after that."""

    def close(self) -> None:
        """Note that the body has no more text."""


class JudgedTurn(BodyVoice):
    """A turn of the caller. Its bodies answer it by one text, in the order in which they run."""

    def __init__(self, spoken: TurnInHand) -> None:
        self.spoken = spoken
        self.decided = anyio.Event()
        """Set when the turn is judged, or a body answers it."""
        self._parts: TextParts | None = None
        self._is_settled = False

    @property
    def is_over(self) -> bool:
        """Whether the answer to the turn is over."""
        return self.spoken.handle.is_done

    @property
    def takes_answer(self) -> bool:
        """Whether a body may answer the turn."""
        return not (self.spoken.is_remote or self._is_settled or self.spoken.handle.is_done)

    @property
    def is_waiting(self) -> bool:
        """Whether the answer waits for the judgement."""
        return self.takes_answer and not self.decided.is_set()

    def answer(self) -> None:
        """Note that a body begins to answer the turn."""
        if self._parts is None:
            self._parts = TextParts(has_limit=True)
            self.spoken.answer(self._parts)
        self._parts.begin_text()
        self.decided.set()

    def moved(self, transition: str, *, is_undone: bool) -> None:
        """Note that the turn has led to a move, by `transition` if given; with `is_undone`, that the move was taken
        back."""
        self.spoken.note_taken(KEY, is_taken=not is_undone)
        if transition:
            self.spoken.record.moved(transition)

    def judged(self, state: str) -> None:
        """Note that the turn is judged; the conversation is now in `state`."""
        self.spoken.note_taken(KEY, is_taken=True)
        self.spoken.record.answered_in(state)
        self.settle()

    def settle(self) -> None:
        """Note that the turn is judged, and that all of its bodies have ended."""
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
        """Note that a body answers."""
        self.ran_body = True


class SayVoice(BodyVoice):
    """Speaks the text of a body outside of turns: one `say()` for each text between speeches that the body asks for."""

    def __init__(self, context: SessionContext) -> None:
        self._context = context
        self._handle: SpeechHandle | None = None
        self._parts: TextParts | None = None

    def push(self, text: str) -> bool:
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
        """End the text; the next piece begins another text."""
        self.close()
        self._parts = None

    def close(self) -> None:
        if self._parts is not None:
            self._parts.close()

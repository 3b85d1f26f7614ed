"""ThoughtFilter: leaves out the thoughts at the beginning of an answer, which open models write as text in tags.

A server reports them in a field of their own if it knows the model (vLLM with `--reasoning-parser`, Groq with
`reasoning_format`); else the model's tags are in the text, and a voice would read the thoughts aloud.
"""

from __future__ import annotations

BEGIN, END = "<think>", "</think>"


class ThoughtFilter:
    """Takes the pieces of an answer and returns those to speak."""

    def __init__(self) -> None:
        self._held: str | None = ""
        """Text that may still belong to a thought; None: the answer has begun."""
        self._is_thought = False
        self._has_thought = False

    def push(self, piece: str) -> str:
        """Return the part of the text that is spoken; white space around a thought is not."""
        if self._held is None or not piece:
            return piece
        self._held += piece
        if not self._is_thought:
            text = self._held.lstrip()
            if text.startswith(BEGIN):
                self._is_thought = True
                self._held = text[len(BEGIN) :]
            elif BEGIN.startswith(text):
                return ""
            else:
                return self._begin(self._held)
        _, end, rest = self._held.partition(END)
        if not end:
            self._held = self._held[1 - len(END) :]
            return ""
        self._is_thought, self._has_thought = False, True
        self._held = ""
        return self.push(rest)

    def finish(self) -> str:
        """Return the text that has turned out to be no thought."""
        held = "" if self._is_thought or not (self._held or "").strip() else self._held or ""
        return self._begin(held)

    def _begin(self, text: str) -> str:
        self._held = None
        return text.lstrip() if self._has_thought else text

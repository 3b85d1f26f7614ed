"""AskYesOrNo: a question that the caller answers with yes or no."""

from __future__ import annotations

import re

from vivavoce.agents.agent import CompletedTurn, StopResponse
from vivavoce.agents.tasks.options import TaskOptions
from vivavoce.agents.tasks.ready.confirmed import ConfirmedTask
from vivavoce.agents.tools.context import RunContext
from vivavoce.pipelines.llm.tools import function_tool

INSTRUCTIONS = (
    "You have asked the caller a question that is answered with yes or no: {question!r} Call `answer` when it is "
    "clear. If it is not, ask again."
)

_YES = frozenset("yes yeah yep yup sure certainly absolutely definitely correct right ok okay".split())
_NO = frozenset("no nope nah never wrong incorrect not".split())
_ASKS = frozenset("is does do".split())
"""First words of a question, such as "is that right", which is no answer."""
_PLAIN = frozenset("that's thats it's its is that it i do does please fine thank thanks you".split())


def yes_or_no(text: str) -> bool | None:
    """Return the answer of a text that is nothing but a plain yes, or a plain no; None if it is more, or a question."""
    words = re.findall(r"[a-z']+", text.casefold().replace("of course", "yes"))
    is_yes = any(word in _YES for word in words)
    is_no = any(word in _NO for word in words)
    if "?" in text or (words and words[0] in _ASKS):
        return None
    if is_yes == is_no or any(word not in (_YES if is_yes else _NO) | _PLAIN for word in words):
        return None
    return is_yes


class AskYesOrNo(ConfirmedTask[bool]):
    """Asks a question; the result is a bool. A plain "yes" or "no" is understood without the model.

    Args:
        question: The question. An empty one is not asked: it was asked before.
        extra_instructions, options: As of a `ConfirmedTask`.
    """

    def __init__(self, question: str, *, extra_instructions: str = "", options: TaskOptions | None = None) -> None:
        super().__init__(
            INSTRUCTIONS.format(question=question),
            question=question,
            extra_instructions=extra_instructions,
            confirms=False,
            options=options,
        )

    async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
        """Take a plain answer without the model."""
        answer = yes_or_no(turn.text)
        if answer is not None:
            self.complete(answer)
            raise StopResponse(is_taken=True)

    @function_tool
    async def answer(self, yes: bool, context: RunContext) -> str:
        """Take the caller's answer.

        Args:
            yes: Whether it is yes.
        """
        return self.heard(yes, context, spoken="yes" if yes else "no")

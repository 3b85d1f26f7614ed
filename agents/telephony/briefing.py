"""Briefing: the agent that briefs the person of a warm transfer, and asks whether they take the call."""

from __future__ import annotations

from typing import ClassVar

import anyio

from vivavoce.agents.agent import Agent
from vivavoce.agents.events import KeyPressed
from vivavoce.agents.history.history import SessionHistory
from vivavoce.agents.telephony.key_entry import KEYS
from vivavoce.pipelines.core.checks import check_instance, check_text, shown
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.tools import function_tool

INSTRUCTIONS = (
    "You are on the telephone with a colleague, to whom you want to transfer a caller, who is on hold and does not "
    "hear you. Tell your colleague who calls and why, answer their questions in one sentence each, and ask whether "
    "they take the call. Call `take_call` when they agree. Call `decline_call` when they do not, or when a voicemail "
    "or another machine answers."
)
CONVERSATION = "The conversation with the caller so far:\n{}"
OPENING = "Tell your colleague in two short sentences who calls and why. Ask whether they take the call."


class Briefing(Agent):
    """Briefs the person that answers, until they take the call, or decline it.

    It is the agent of the second session of `session.telephony.warm_transfer()`. The person decides by the model's
    tools, or by a key. A subclass decides by `take()` and `decline()` where it likes.

    Args:
        text: The agent's first words, as they are; "": the model's, from `history`.
        history: The conversation with the caller, `session.history`; the model gets it with its instructions.
        instructions: Of the model.
        take_key, decline_key: Keys of the telephone that decide; "" for none.
    Raises:
        ConfigurationError: An argument is of another kind, or no key of a telephone.
    """

    takes_keys: ClassVar[bool] = True

    def __init__(
        self,
        text: str = "",
        *,
        history: SessionHistory | None = None,
        instructions: str = INSTRUCTIONS,
        take_key: str = "1",
        decline_key: str = "2",
    ) -> None:
        check_instance("history", history, SessionHistory, or_none=True)
        for name, key in (("take_key", take_key), ("decline_key", decline_key)):
            if check_text(name, key) and key not in tuple(KEYS):
                raise ConfigurationError(f'{name} must be one of {KEYS}, or "" for none, got {shown(key)}')
        lines = [] if history is None else [f"{one.role}: {one.content}" for one in history.messages()]
        told = CONVERSATION.format("\n".join(lines)) if lines else ""
        super().__init__("\n\n".join(part for part in (check_text("instructions", instructions), told) if part))
        self._text = check_text("text", text)
        self._take_key = take_key
        self._decline_key = decline_key
        self._is_taken: bool | None = None
        self._reason = ""
        self._decided = anyio.Event()

    @property
    def is_taken(self) -> bool | None:
        """Whether the person takes the call; None as long as they have not decided."""
        return self._is_taken

    @property
    def reason(self) -> str:
        """Why the person does not take it."""
        return self._reason

    def take(self) -> None:
        """Note that the person takes the call: the caller is connected now. The first decision counts."""
        self._decide(True, "")

    def decline(self, reason: str = "") -> None:
        """Note that the person does not take the call."""
        self._decide(False, check_text("reason", reason))

    async def decided(self) -> None:
        """Wait for the decision."""
        await self._decided.wait()

    async def on_enter(self) -> None:
        """Brief the person."""
        self.session.on(KeyPressed, self._press)
        if self._text:
            await self.session.say(self._text)
        else:
            await self.session.reply(OPENING)

    async def on_exit(self) -> None:
        """Take keys no more."""
        self.session.off(KeyPressed, self._press)

    @function_tool
    async def take_call(self) -> str:
        "Connect your colleague with the caller now: they have agreed."
        self.take()
        return "They are being connected. Say nothing more."

    @function_tool
    async def decline_call(self, reason: str) -> str:
        """End this call: your colleague does not take the caller, or a machine has answered.

        Args:
            reason: Why, in a few words.
        """
        self.decline(reason)
        return "The call ends."

    def _press(self, event: KeyPressed) -> None:
        if event.key == self._take_key:
            self.take()
        elif event.key == self._decline_key:
            self.decline("declined by a key")

    def _decide(self, is_taken: bool, reason: str) -> None:
        if self._is_taken is None:
            self._is_taken, self._reason = is_taken, reason
            self._decided.set()

"""RunContext: what a tool may know of the call that it is in, and what it may do about it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from vivavoce.agents.agent import Session
from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.pipelines.core.checks import check_text
from vivavoce.pipelines.core.errors import SessionError
from vivavoce.pipelines.llm.tools import ToolContext


def _runs_on(text: str) -> bool:
    return True


@dataclass(frozen=True, slots=True, eq=False)
class RunContext(ToolContext):
    """Filled in for a tool's parameter annotated with it. All of it works from a sync tool's thread too.

    Args:
        session: For `say`, `reply`, `interrupt`, `close`.
        speech: The speech that made the call.
        call_id: The call's id.
        note_update: Told of each update; tells whether the call still runs.
    """

    session: Session
    speech: SpeechHandle
    call_id: str
    note_update: Callable[[str], bool] = field(default=_runs_on, repr=False)

    @property
    def userdata(self) -> Any:
        """The session's userdata."""
        return self.session.userdata

    def update(self, text: str) -> SpeechHandle:
        """Tell the caller how it goes while the tool works on: spoken as it is, in its turn, and cut as any speech.

        It waits for what is being said, so that a call which is over soon may be answered first: then await it.
        The model knows of it: what was heard is in the history, and a request made before the call is over says what
        the caller was told. Awaiting the result means "played out"; not awaiting it is fine.

        Raises:
            SessionError: The call is over: it was answered, timed out or cancelled, and only its thread goes on.
        """
        text = check_text("update(text)", text)
        if not self.note_update(text):
            raise SessionError(f"call {self.call_id!r} is over, nothing can be said about it any more; return")
        return self.session.say(text, interruptible=self.speech.interruptible)

    def disallow_interruptions(self) -> None:
        """Protect the speech that made the call, from now on: it is cut by nothing but `interrupt(force=True)`.

        For a tool whose effect cannot be taken back, so that the caller hears of it. Nothing happens if the speech has
        been cut already; the call then runs on, and its result is answered once nobody speaks.
        """
        self.speech.disallow_interruptions()

"""RunContext: the session, the speech and the call that a tool belongs to, with updates for the caller."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.session_type import Session
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
        _note_update: Called with each update; returns whether the call still runs.
    """

    session: Session
    speech: SpeechHandle
    call_id: str
    _note_update: Callable[[str], bool] = field(default=_runs_on, repr=False)

    @property
    def userdata(self) -> Any:
        """The session's userdata."""
        return self.session.userdata

    def update(self, text: str) -> SpeechHandle:
        """Say `text` to the caller while the tool works on: spoken as it is, in its turn, and cut as any speech.

        It waits for the speech that sounds, so a call that is over soon may be answered first: await the result then.
        The model knows of it: the heard words are in the history, and a request made before the call is over quotes the
        update. Awaiting the result means "played out"; not awaiting it is fine.

        Raises:
            SessionError: The call is over: it was answered, timed out or cancelled, and only its thread goes on.
        """
        text = check_text("update(text)", text)
        if not self._note_update(text):
            raise SessionError(f"call {self.call_id!r} is over, nothing can be said about it any more; return")
        return self.session.say(text, interruptible=self.speech.interruptible)

    def disallow_interruptions(self) -> None:
        """Protect the speech that made the call, from now on: it is cut by nothing but `interrupt(force=True)`.

        For a tool whose effect cannot be taken back, so that the caller hears of it. Nothing happens if the speech has
        been cut already; the call then runs on, and its result is answered as soon as the floor is free.
        """
        self.speech.disallow_interruptions()

"""RunContext: what a tool may know of the call that it is in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from vivavoce.agents.agent import Session, Speech
from vivavoce.pipelines.llm.tools import ToolContext


@dataclass(frozen=True, slots=True, eq=False)
class RunContext(ToolContext):
    """Filled in for a tool's parameter annotated with it.

    Args:
        session: For `say`, `reply`, `interrupt`, `close`.
        speech: The speech that made the call.
        call_id: The call's id.
    """

    session: Session
    speech: Speech
    call_id: str

    @property
    def userdata(self) -> Any:
        """The session's userdata."""
        return self.session.userdata

"""Session: the type of a session, for modules below `agents.session`.

Here is the only import upwards, for type checkers alone. The import contract and the test of circles name it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from vivavoce.agents.session.session import AgentSession

Session: TypeAlias = "AgentSession[Any]"

"""CallSite: the part of a session that the calling code belongs to. `call_site` is the one context variable for it.

Application code inherits the call site of the code that started it, in tasks and threads of its own too. Call sites
nest: a tool runs inside the speech that called it. Each call site knows the one around it; the outermost one is the
session's.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextvars import ContextVar

import anyio

from vivavoce.agents.agent import Agent
from vivavoce.agents.session_type import Session


class CallSite:
    """One part of a session that runs code: a speech, a tool call, or a `Run` of application code."""

    def __init__(self) -> None:
        self.outer = next(call_sites(), None)

    @property
    def is_over(self) -> bool:
        """Whether its own code has ended. Code that it has started may still run."""
        return False


class SessionSite(CallSite):
    """The task of a session, and all that it starts."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self.session = session


class ToolSite(CallSite):
    """A tool call. It is never over: code that a tool has started stays the tool's.

    Args:
        speech_id: The speech that called the tool.
        agent: The agent whose tool it is.
    """

    def __init__(self, speech_id: str, call_id: str, agent: Agent | None = None) -> None:
        super().__init__()
        self.speech_id = speech_id
        self.call_id = call_id
        self.agent = agent
        self._scope: anyio.CancelScope | None = None
        self._left = math.inf
        self._holds = 0

    def limit(self, scope: anyio.CancelScope) -> None:
        """Take the scope whose deadline is the limit of the call."""
        self._scope = scope

    def hold(self) -> None:
        """Stop the clock of its limit, until `release()` was called as often."""
        self._holds += 1
        if self._holds == 1 and self._scope is not None:
            self._left = self._scope.deadline - anyio.current_time()
            self._scope.deadline = math.inf

    def release(self) -> None:
        """Let the clock of its limit go on where it stood."""
        self._holds -= 1
        if not self._holds and self._scope is not None:
            self._scope.deadline = anyio.current_time() + self._left


call_site: ContextVar[CallSite | None] = ContextVar("call_site", default=None)


def call_sites() -> Iterator[CallSite]:
    """Yield the call sites of the calling code that are not over, the innermost first."""
    site = call_site.get()
    while site is not None:
        if not site.is_over:
            yield site
        site = site.outer


def calling_tool() -> ToolSite | None:
    """Return the tool call that the calling code is part of, if it is."""
    return next((site for site in call_sites() if isinstance(site, ToolSite)), None)


def calling_session() -> Session | None:
    """Return the session that runs the calling code, if one does."""
    return next((site.session for site in call_sites() if isinstance(site, SessionSite)), None)


def runs_in_session() -> bool:
    """Return whether a session runs the calling code, or code of a session has begun it."""
    return calling_session() is not None

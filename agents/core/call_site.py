"""CallSite: the part of a session that the calling code belongs to. `call_site` is the one context variable for it.

Application code inherits the call site of the code that started it, in tasks and threads of its own too. Call sites
nest: a tool runs inside the speech that called it. Each call site knows the one around it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextvars import ContextVar


class CallSite:
    """One part of a session that runs code: a speech, a tool call, or a `Run` of application code."""

    def __init__(self) -> None:
        self.outer = next(call_sites(), None)

    @property
    def is_over(self) -> bool:
        """Whether its own code has ended. Code that it has started may still run."""
        return False


class ToolSite(CallSite):
    """A tool call. It is never over: code that a tool has started stays the tool's.

    Args:
        speech_id: The speech that called the tool.
    """

    def __init__(self, speech_id: str, call_id: str) -> None:
        super().__init__()
        self.speech_id = speech_id
        self.call_id = call_id


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

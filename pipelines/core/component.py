"""Component: the common part of all provider objects (STT, LLM, TTS …) besides their ports."""

from __future__ import annotations

from types import TracebackType
from typing import ClassVar, Self


class Component:
    """Holds a model and options and may be shared by sessions; `open()` or the request methods are per session.

    The code that made a component closes it; the pipeline closes only the streams that it opened.
    """

    provider: ClassVar[str] = "unknown"
    """Short name for errors, metrics and records, such as `"deepgram"`."""

    @property
    def model(self) -> str:
        """Name of the model in use, for records; empty when there is only one."""
        return ""

    @property
    def members(self) -> tuple[Component, ...]:
        """The components of which it uses one at a time, for a fallback; empty for any other one."""
        return ()

    async def aclose(self) -> None:
        """Free the resources that streams share. Calling it twice is fine."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

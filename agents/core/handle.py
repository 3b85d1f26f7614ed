"""Handle, which a public call returns and the application awaits, and HandleControl, its only writer.

Public objects come in two parts, here and wherever the session changes an object that applications hold: the public
class has the members that applications call, and no others; a `…Control` owns the state and stays inside the session.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator
from typing import Any, Generic, TypeVar

from vivavoce.agents.core.done import Done

OutcomeT = TypeVar("OutcomeT", bound=str)
ControlT = TypeVar("ControlT", bound="HandleControl[Any]")


class HandleControl(ABC, Generic[OutcomeT]):
    """The state that the session changes, on its loop, and the handle shows."""

    def __init__(self, handle_id: str) -> None:
        self.id = handle_id
        self.outcome: OutcomeT | None = None
        self.error: Exception | None = None
        self.done = Done()
        """Set when the handle has resolved."""

    @property
    def is_done(self) -> bool:
        return self.done.is_set()

    @abstractmethod
    async def wait(self) -> None:
        """Wait, in application code, until the handle resolves.

        Raises:
            SessionError: It resolves after the calling code.
        """

    def set_outcome(self, outcome: OutcomeT, error: Exception | None = None) -> None:
        """Set the outcome and resolve the handle; no effect if there is an outcome."""
        if self.outcome is None:
            self.outcome, self.error = outcome, error
            self.resolve()

    def resolve(self) -> None:
        self.done.set()


class Handle(Generic[ControlT]):
    """The result of a public call. Awaiting it, on any event loop, resolves when the result has ended, in any way."""

    def __init__(self, control: ControlT) -> None:
        self._control = control

    def __await__(self) -> Generator[Any, Any, None]:
        return self._control.wait().__await__()

    @property
    def id(self) -> str:
        """The id, as events and records name it."""
        return self._control.id

    @property
    def is_done(self) -> bool:
        """Whether the handle has resolved."""
        return self._control.is_done

    def exception(self) -> Exception | None:
        """Return the error if the outcome is `failed`."""
        return self._control.error

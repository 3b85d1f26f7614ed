"""Failure: the error of a reply, and the component that failed.

`Blaming` finds the component, in a block that costs next to nothing when all goes well.
"""

from __future__ import annotations

from collections.abc import Callable

from vivavoce.pipelines.core.errors import ProviderTimeoutError
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors


class Blaming(strays_as_errors):
    """Reports an error, or a stray cancellation, that leaves the block.

    Args:
        blame: Called with the component.
        component: Whose block it is.
    """

    __slots__ = ("_blame",)

    def __init__(self, blame: Callable[[str], None], component: str) -> None:
        super().__init__(component)
        self._blame = blame

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        if isinstance(error, Exception):
            self._blame(self._what)
        else:
            try:
                super().__exit__(kind, error, trace)
            except Exception:
                self._blame(self._what)
                raise


class Failure:
    """The failure of one speech: the component that is blamed first is the one that failed."""

    def __init__(self) -> None:
        self.component = ""
        self.error: Exception | None = None
        self.expired: ProviderTimeoutError | None = None
        """Set where a limit ended the speech."""
        self._waits_for = ""

    def waits_for(self, component: str) -> None:
        """Note the agent's hook that is waited for now; empty for none."""
        self._waits_for = component

    def blame(self, component: str) -> None:
        """Note which component failed, unless one was noted before."""
        self.component = self.component or component

    def blaming(self, component: str) -> Blaming:
        """Blame `component` for a failure in the block, unless another component was blamed before."""
        return Blaming(self.blame, component)

    def expire(self, component: str, first: float, stall: float) -> ProviderTimeoutError:
        """A limit of that component has ended the speech: return the error that it fails with."""
        kind = "tts" if component == "tts" else "llm"
        component = self._waits_for or component
        names = (f"{kind}_{'first_byte' if kind == 'tts' else 'first_token'}", f"{kind}_stall")
        message = f"it sent nothing for {first:g} s ({names[0]}), or for {stall:g} s after its first piece ({names[1]})"
        self.expired = ProviderTimeoutError(message, provider=component)
        self.blame(component)
        return self.expired

    def note(self, error: Exception) -> None:
        """Note the error that the speech failed with."""
        self.error = error

    def settle(self, error: Exception) -> str:
        """Note the error that the speech failed with; return the component that failed."""
        self.note(error)
        self.component = getattr(error, "component", "") or self.component or "reply"
        return self.component

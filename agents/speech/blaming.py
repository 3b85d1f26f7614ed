"""Failure: the error of a reply, and the component that failed.

`Blaming` finds the component, in a block that costs next to nothing when all goes well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vivavoce.pipelines.core.errors import ProviderTimeoutError
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors
from vivavoce.pipelines.core.watchdog import Watchdog


class Blaming(strays_as_errors):
    """Reports an error, or a stray cancellation, that leaves the block.

    Args:
        blame: Called with the component.
        component: The component that the block belongs to.
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
    """The failure of one speech, or the end of its limit. The component that is blamed first counts as the one that
    failed.

    Args:
        speech_id: The speech; "" for an answer that is begun ahead.
    """

    def __init__(self, speech_id: str = "") -> None:
        self.speech_id = speech_id
        self.component = ""
        self.error: Exception | None = None
        self.expired: ProviderTimeoutError | None = None
        """Set when a limit has ended the speech."""
        self._waited_for: set[str] = set()
        self._limits: list[Watchdog] = []

    def add_limit(self, watchdog: Watchdog) -> Watchdog:
        """Have that limit stop with the others during `standing_still`; return it."""
        self._limits.append(watchdog)
        return watchdog

    @contextmanager
    def standing_still(self) -> Iterator[None]:
        """Stop the limits of the speech during the block, which waits for something with a limit of its own."""
        held = self._limits.copy()
        for watchdog in held:
            watchdog.hold()
        try:
            yield
        finally:
            for watchdog in held:
                watchdog.release()

    def waits_for(self, hook: str, *, is_so: bool) -> None:
        """Note whether the speech now waits for that hook of the agent, such as "llm_stage"."""
        if is_so:
            self._waited_for.add(hook)
        else:
            self._waited_for.discard(hook)

    def blame(self, component: str) -> None:
        """Note which component failed, unless one was noted before."""
        self.component = self.component or component

    def forgive(self) -> None:
        """Take the blame back: the speech goes on."""
        self.component = ""

    def blaming(self, component: str) -> Blaming:
        """Blame `component` for a failure in the block, unless another component was blamed before."""
        return Blaming(self.blame, component)

    def expire(self, component: str, first: float, stall: float) -> ProviderTimeoutError:
        """Blame the component whose limit has ended the speech; return the error of the speech."""
        kind = "tts" if component == "tts" else "llm"
        component = f"{kind}_stage" if f"{kind}_stage" in self._waited_for else component
        names = (f"{kind}_{'first_byte' if kind == 'tts' else 'first_token'}", f"{kind}_stall")
        message = f"it sent nothing for {first:g} s ({names[0]}), or for {stall:g} s after its first piece ({names[1]})"
        self.expired = ProviderTimeoutError(message, provider=component)
        self.blame(component)
        return self.expired

    def note(self, error: Exception) -> None:
        """Note the error of the speech."""
        self.error = error

    def settle(self, error: Exception) -> str:
        """Note the error of the speech; return the component that failed."""
        self.note(error)
        self.component = getattr(error, "component", "") or self.component or "reply"
        return self.component

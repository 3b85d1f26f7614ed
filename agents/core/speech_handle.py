"""SpeechHandle, which `say()` and `reply()` return, and SpeechControl, its only writer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from vivavoce.agents.core.application_code import application_code
from vivavoce.agents.core.call_site import CallSite, call_sites, calling_tool
from vivavoce.agents.core.handle import Handle, HandleControl
from vivavoce.agents.core.stage_run import StageRun, calling_stage
from vivavoce.agents.records import TurnOutcome
from vivavoce.agents.turn.inputs import InterruptRequested, SpeechKind, SpeechProtected
from vivavoce.pipelines.core.checks import check_flag, check_function
from vivavoce.pipelines.core.errors import SessionError, located

logger = logging.getLogger(__name__)

MAX_PRIORITY = 1_000_000
"""The highest priority of a speech; that below 0 is the lowest."""


class SpeechSite(CallSite):
    """The task of a speech."""

    def __init__(self, speech: SpeechHandle) -> None:
        super().__init__()
        self.speech = speech

    @property
    def is_over(self) -> bool:
        return self.speech.is_done


def calling_speech() -> SpeechHandle | None:
    """Return the speech that the calling code is part of, if it is."""
    return next((site.speech for site in call_sites() if isinstance(site, SpeechSite)), None)


def holds_floor() -> bool:
    """Return whether a speech that has the floor, or the caller's words, wait for the calling code; not for a tool."""
    return calling_tool() is None and (calling_speech() is not None or calling_stage() is not None)


class SpeechHandle(Handle["SpeechControl"]):
    """One speech. Awaiting it resolves when its audio has been played or dropped, with any outcome.

    Awaiting raises only a `SessionError`: in a tool that the speech itself runs, since the speech ends after its tools;
    and in an `llm_stage`, `tts_stage` or `stt_stage`, unless the speech has the floor: it is heard behind that code.
    """

    def __repr__(self) -> str:
        return f"SpeechHandle({self.id!r}, {self.kind!r}, outcome={self.outcome!r})"

    @property
    def kind(self) -> SpeechKind:
        """`say`, `reply`, or `turn`: the answer to a turn of the caller."""
        return self._control.kind

    @property
    def interruptible(self) -> bool:
        """Whether the caller can interrupt it."""
        return self._control.interruptible

    @property
    def outcome(self) -> TurnOutcome | None:
        """How the speech ended; None before its end."""
        return self._control.outcome

    @property
    def interrupted(self) -> bool:
        """Whether it was interrupted after its audio had begun."""
        return self._control.outcome == "interrupted"

    @property
    def heard_text(self) -> str:
        """The words that the caller has heard; grows with each step of the speech."""
        return self._control.heard_text

    @property
    def played_seconds(self) -> float:
        """Seconds of its audio that were played."""
        return self._control.played_seconds

    def interrupt(self, *, force: bool = False) -> None:
        """Stop the speech; a protected one needs `force`. To know when it has stopped, await the handle.

        Raises:
            ConfigurationError: `force` is no bool.
        """
        check_flag("force", force)
        self._control.interrupt(force=force)

    def disallow_interruptions(self) -> None:
        """Protect the speech from now on: only `force` interrupts it. No effect on a speech that has ended."""
        self._control.protect()

    def add_done_callback(self, callback: Callable[[SpeechHandle], None]) -> None:
        """Call `callback` with the handle, once, when the speech resolves; at once if it has. It must not block.

        Raises:
            ConfigurationError: `callback` cannot be called.
        """
        check_function("callback", callback)
        self._control.add_done_callback(callback)


class SpeechControl(HandleControl[TurnOutcome]):
    """The state of one speech, which the session changes and its `handle` shows.

    Args:
        post: Enqueues an input of the turn machine and returns at once, from any thread.
    """

    def __init__(
        self,
        speech_id: str,
        kind: SpeechKind,
        *,
        interruptible: bool,
        post: Callable[[InterruptRequested | SpeechProtected], None],
    ) -> None:
        super().__init__(speech_id)
        self.kind = kind
        self.interruptible = interruptible
        self.heard_text = ""
        self.played_seconds = 0.0
        self.handle = SpeechHandle(self)
        self._post = post
        self._has_floor = False
        self._changed = asyncio.Event()
        """Set when it resolves or loses the floor."""
        self._callbacks: list[Callable[[SpeechHandle], None]] = []

    async def wait(self) -> None:
        tool = calling_tool()
        if tool is not None and tool.speech_id == self.id and not self.is_done:
            raise SessionError(
                f"speech {self.id!r} cannot be awaited inside a tool that it runs: it ends after the tool; "
                "return from the tool, or say() something else and await that"
            )
        if (stage := calling_stage()) is None:
            await self.done.wait()
        else:
            with stage.limits.standing_still():
                await self._wait_in(stage)

    async def _wait_in(self, stage: StageRun) -> None:
        own = calling_speech()
        while not self.is_done:
            if not self._has_floor or (own is not None and own.id == self.id):
                raise SessionError(
                    f"speech {self.id!r} cannot be awaited in {stage.name}: it is heard behind {stage.holds_up}, which "
                    "waits for this code; do not await it: say() and reply() speak without that too"
                )
            self._changed.clear()
            await self._changed.wait()

    def floor_is(self, has_floor: bool) -> None:
        """Note whether it has the floor."""
        self._has_floor = has_floor
        self._changed.set()

    def interrupt(self, *, force: bool) -> None:
        """Ask the turn machine to stop it."""
        self._post(InterruptRequested(force=force, speech_id=self.id))

    def protect(self) -> None:
        self.interruptible = False
        self._post(SpeechProtected(self.id))

    def add_heard(self, text: str, seconds: float) -> None:
        """Add the words and the audio of one step that the caller has heard."""
        self.heard_text = f"{self.heard_text} {text}".strip()
        self.played_seconds += seconds

    def resolve(self) -> None:
        """Resolve the handle: without an outcome if the application waits for the generation only."""
        if self.is_done:
            return
        super().resolve()
        self._changed.set()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            self._call(callback)

    def add_done_callback(self, callback: Callable[[SpeechHandle], None]) -> None:
        """Call `callback` when the speech resolves, at once if it has."""
        if self.is_done:
            self._call(callback)
        else:
            self._callbacks.append(callback)

    def _call(self, callback: Callable[[SpeechHandle], None]) -> None:
        try:
            with application_code("a done callback"):
                callback(self.handle)
        except Exception as error:  # noqa: BLE001 - a user callback must not keep a speech from ending
            logger.error("A done callback of speech %s raised %s", self.id, located(error))
            logger.debug("It raised here", exc_info=error)

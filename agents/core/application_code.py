"""Application code: an exit, or a stray cancellation, that it raises becomes an error, and ends no call."""

from __future__ import annotations

from vivavoce.pipelines.core.errors import SessionError, first_error
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors


class application_code(strays_as_errors):  # noqa: N801 - read as a phrase: with application_code("llm_stage")
    """Used around the application's code, right at its call: whatever leaves the block is an `Exception`.

    `SystemExit` and `KeyboardInterrupt` would end the event loop, and with it every session in it. A real Ctrl-C is
    no exception in the code that runs: asyncio cancels the main task.

    Raises:
        SessionError: The code wanted to end the process.
        VoiceError: There was a stray cancellation.
    """

    __slots__ = ()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, Exception):
            return
        if is_exit(error):
            problem = f"{self._what} ended with {type(first_error(error)).__name__}"
            raise SessionError(problem).with_traceback(error.__traceback__) from error
        super().__exit__(kind, error, trace)


def is_exit(error: BaseException) -> bool:
    """Return whether code asked for the end of the process, itself or in a task group, and nothing else happened."""
    if not isinstance(error, BaseExceptionGroup):
        return isinstance(error, SystemExit | KeyboardInterrupt)
    exits, rest = error.split((SystemExit, KeyboardInterrupt))
    return exits is not None and rest is None

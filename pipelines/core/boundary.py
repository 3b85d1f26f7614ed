"""The boundary to a component's code: each exception of it becomes a ProviderError here, with its cause.

Components are written by many people. A `KeyError` of a plugin has the effect of a provider's failure: it ends an
answer, or a stream, which is opened again; it never ends the call. Calls that wait stand inside `provider_errors`.
Streams go through `guarded`, which also checks each item. The owner of a stream guards the calls that do not wait.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Protocol, TypeVar

from vivavoce.pipelines.core.errors import (
    ProviderError,
    ProviderProtocolError,
    describe,
    first_error,
    is_tellable,
    text_of,
)
from vivavoce.pipelines.core.stray_cancellation import is_cancelled

logger = logging.getLogger(__name__)

T = TypeVar("T")


def as_provider_error(error: BaseException, provider: str, *, retryable: bool = False) -> ProviderError:
    """Return `error` itself if it is a ProviderError, also one in groups; else one with `error` as its cause.

    Args:
        retryable: The flag for an error that is no ProviderError.
    """
    leaf = _first_failure(error) or first_error(error)
    if isinstance(leaf, ProviderError):
        return leaf
    kind = type(leaf).__name__
    what = f"it raised {kind}: {text}" if is_tellable(leaf) and (text := text_of(leaf)) else f"it raised {kind}"
    wrapped = ProviderError(what, provider=provider, retryable=retryable)
    wrapped.__cause__ = leaf
    return wrapped.with_traceback(leaf.__traceback__)  # so that logs name the line that raised it


class provider_errors:  # noqa: N801 - read as a phrase: with provider_errors("deepgram")
    """Around a component's code: pass only ProviderErrors on, and the cancellation of the calling task.

    Args:
        retryable: As for `as_provider_error`.
    Raises:
        ProviderError: For each other exception, also a stray cancellation and SystemExit.
    """

    __slots__ = ("_provider", "_retryable")

    def __init__(self, provider: str, *, retryable: bool = False) -> None:
        self._provider = provider
        self._retryable = retryable

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None or isinstance(error, ProviderError | KeyboardInterrupt | GeneratorExit):
            return
        if _first_failure(error) is not None:
            wrapped = as_provider_error(error, self._provider, retryable=self._retryable)
            raise wrapped from wrapped.__cause__
        if isinstance(error, asyncio.CancelledError) and not is_cancelled():
            problem = "it ended with a cancellation that nobody here asked for"
            raise ProviderError(problem, provider=self._provider, retryable=self._retryable) from error


def _first_failure(error: BaseException) -> BaseException | None:
    """Return the first failure in `error`, which may be a group; None beside a KeyboardInterrupt, and if there is none.

    A group may hold the cancellation of a task beside the failure that caused it.
    """
    if not isinstance(error, BaseExceptionGroup):
        return error if isinstance(error, Exception | SystemExit) else None
    if error.subgroup(KeyboardInterrupt) is not None:
        return None
    return next((found for leaf in error.exceptions if (found := _first_failure(leaf)) is not None), None)


class Expected:
    """The expected items of a port's streams.

    Args:
        kinds: Their classes.
        fields: Types of fields, for those kinds that have them; numbers must be finite.
    """

    def __init__(self, *kinds: type, **fields: type | tuple[type, ...]) -> None:
        self._kinds = kinds
        self._fields = tuple(fields.items())

    def check(self, item: object, provider: str, *, retryable: bool = False) -> None:
        """Refuse an item of another kind.

        Raises:
            ProviderProtocolError: The error names the kinds, never the content.
        """
        if not isinstance(item, self._kinds):
            names = ", ".join(kind.__name__ for kind in self._kinds)
            problem = f"needed one of {names}, got {type(item).__name__}; mend the plugin"
            raise ProviderProtocolError(problem, provider=provider, retryable=retryable)
        for name, types in self._fields:
            value = getattr(item, name, _ABSENT)
            if value is _ABSENT or (isinstance(value, types) and _is_finite(value)):
                continue
            wanted = types.__name__ if isinstance(types, type) else " or ".join(each.__name__ for each in types)
            got = f"{value!r}" if isinstance(value, float) else type(value).__name__
            problem = f"needed {wanted} as {type(item).__name__}.{name}, got {got}; mend the plugin"
            raise ProviderProtocolError(problem, provider=provider, retryable=retryable)


_ABSENT = object()


def _is_finite(value: object) -> bool:
    return not isinstance(value, float) or math.isfinite(value)


async def guarded(
    make: Callable[[], AsyncIterator[T]], expected: Expected, provider: str, *, retryable: bool = False
) -> AsyncGenerator[T, None]:
    """Yield the items of the component's stream that `make()` returns.

    Args:
        retryable: As for `as_provider_error`.
    Raises:
        ProviderError: For each exception of the stream.
        ProviderProtocolError: It is no stream, or yields something unexpected.
    """
    with provider_errors(provider, retryable=retryable):
        stream = make()
        if not hasattr(stream, "__aiter__"):
            if inspect.iscoroutine(stream):
                stream.close()
            problem = f"needed an async iterator, got {type(stream).__name__}; write an async generator, with yield"
            raise ProviderProtocolError(problem, provider=provider, retryable=retryable)
        is_over = False
        try:
            async for item in stream:
                expected.check(item, provider, retryable=retryable)
                yield item
            is_over = True
        finally:
            if not is_over:
                await _close(stream, provider)


async def _close(stream: AsyncIterator[object], provider: str) -> None:
    """Close a stream that has not ended; a failure of the close must not hide the reason for it."""
    aclose = getattr(stream, "aclose", None)
    if aclose is None:
        return
    try:
        await aclose()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a foreign close must not hide why the stream is closed
        logger.warning("%s: closing a stream failed: %s", provider, describe(error))
        logger.debug("%s: closing a stream failed here", provider, exc_info=error)


class Closable(Protocol):
    """A component's stream that is closed without waiting."""

    def close(self) -> None:
        """Free it."""
        ...


def close_stream(stream: Closable, provider: str) -> None:
    """Close a component's stream; if that fails, the stream is abandoned, and the failure logged."""
    try:
        stream.close()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the boundary to the component's code: nothing depends on its close
        logger.warning("%s: closing a stream failed: %s", provider, describe(error))

"""Any exception of a component's code is a ProviderError beyond the boundary, with its cause and without its text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from typing import Any

import anyio
import pytest

from vivavoce.pipelines.core.boundary import Expected, as_provider_error, guarded, provider_errors
from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    located,
)
from vivavoce.pipelines.llm.base import LLM_EVENTS, TextDelta
from vivavoce.pipelines.testing import run_virtual

LOST = ProviderConnectionError("lost", provider="other")


def test_a_provider_error_passes_as_it_is_also_out_of_groups() -> None:
    group = ExceptionGroup("tasks", [ExceptionGroup("more tasks", [LOST])])
    assert as_provider_error(LOST, "mine") is LOST
    assert as_provider_error(group, "mine") is LOST
    with pytest.raises(ProviderConnectionError), provider_errors("mine"):
        raise group


@pytest.mark.parametrize("raised", [KeyError("secret"), SystemExit(3), ExceptionGroup("", [ValueError("secret")])])
@pytest.mark.parametrize("retryable", [False, True])
def test_a_foreign_error_is_wrapped_with_its_cause_and_without_its_text(raised: BaseException, retryable: bool) -> None:
    with pytest.raises(ProviderError) as caught, provider_errors("mine", retryable=retryable):
        raise raised
    error = caught.value
    assert (error.provider, error.retryable) == ("mine", retryable)
    assert error.__cause__ is (raised.exceptions[0] if isinstance(raised, ExceptionGroup) else raised)
    assert str(error) == f"mine: it raised {type(error.__cause__).__name__}"
    assert "test_boundary.py" in located(error)


def test_an_error_of_ours_keeps_its_text() -> None:
    with (
        pytest.raises(ProviderError, match="mine: it raised ConfigurationError: no such voice"),
        provider_errors("mine"),
    ):
        raise ConfigurationError("no such voice")


def test_ctrl_c_is_nobodys_failure() -> None:
    with pytest.raises(KeyboardInterrupt), provider_errors("mine"):
        raise KeyboardInterrupt


def test_a_cancellation_of_the_caller_passes_and_a_stray_one_is_an_error() -> None:
    async def main() -> None:
        with anyio.move_on_after(1.0) as scope, provider_errors("mine"):
            await anyio.sleep(5.0)
        assert scope.cancelled_caught
        with pytest.raises(ProviderError, match="a cancellation that nobody here asked for"), provider_errors("mine"):
            raise asyncio.CancelledError

    run_virtual(main())


async def stalls() -> AsyncGenerator[TextDelta, None]:
    await anyio.sleep(5.0)
    yield TextDelta("late")


def test_a_cancellation_by_asyncio_itself_passes() -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1.0):
                await take(stalls)
        task = asyncio.create_task(take(stalls))
        await anyio.sleep(1.0)
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    run_virtual(main())


def test_the_failure_of_a_group_counts_and_not_the_cancellation_beside_it() -> None:
    cause = ValueError("secret")
    with pytest.raises(ProviderError, match="it raised ValueError") as caught, provider_errors("mine"):
        raise BaseExceptionGroup("tasks", [asyncio.CancelledError(), cause])
    assert caught.value.__cause__ is cause
    assert as_provider_error(BaseExceptionGroup("tasks", [asyncio.CancelledError(), LOST]), "mine") is LOST


def test_ctrl_c_passes_out_of_groups_too() -> None:
    with pytest.raises(BaseExceptionGroup), provider_errors("mine"):
        raise BaseExceptionGroup("tasks", [ValueError("first"), KeyboardInterrupt()])


def test_an_error_whose_own_text_raises_is_wrapped_all_the_same() -> None:
    class Unprintable(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no text")

    with pytest.raises(ProviderError, match="mine: it raised Unprintable"), provider_errors("mine"):
        raise Unprintable


async def take(make: Callable[[], Any], expected: Expected = LLM_EVENTS) -> list[Any]:
    return [item async for item in guarded(make, expected, "mine")]


@pytest.mark.parametrize(
    ("item", "problem"),
    [
        ("Hello.", "needed one of TextDelta, ToolCall, Usage, Done, got str"),
        (None, "got NoneType"),
        (TextDelta(None), "needed str as TextDelta.text, got NoneType"),  # type: ignore[arg-type]
    ],
)
def test_an_item_of_another_kind_is_refused(item: Any, problem: str) -> None:
    async def stream() -> AsyncGenerator[Any, None]:
        yield item

    with pytest.raises(ProviderProtocolError, match=problem):
        run_virtual(take(stream))


def test_numbers_must_be_finite() -> None:
    class Ago:
        def __init__(self, ago: float) -> None:
            self.ago = ago

    expected = Expected(Ago, ago=(int, float))
    expected.check(Ago(0.5), "mine")
    with pytest.raises(ProviderProtocolError, match=r"needed int or float as Ago\.ago, got nan"):
        expected.check(Ago(float("nan")), "mine")


async def never_yields() -> None:
    """A coroutine function where a generator was wanted."""


@pytest.mark.parametrize("make", [never_yields, lambda: None, lambda: [TextDelta("Hello.")]])
def test_what_is_no_stream_is_refused_with_a_remedy(make: Callable[[], Any]) -> None:
    with pytest.raises(ProviderProtocolError, match="needed an async iterator, got .*; write an async generator"):
        run_virtual(take(make))


def test_a_stream_that_cannot_even_be_made_is_a_failure_of_its_provider() -> None:
    def make() -> AsyncIterator[TextDelta]:
        raise AttributeError("voice")

    with pytest.raises(ProviderError, match="mine: it raised AttributeError"):
        run_virtual(take(make))


def test_a_stream_that_is_left_is_closed_whatever_it_says_to_that(caplog: pytest.LogCaptureFixture) -> None:
    closed: list[str] = []

    async def stream() -> AsyncGenerator[TextDelta, None]:
        try:
            while True:
                yield TextDelta("more ")
        finally:
            closed.append("closed")
            raise OSError("secret")

    async def main() -> None:
        items = guarded(stream, LLM_EVENTS, "mine")
        await anext(items)
        await items.aclose()

    run_virtual(main())
    assert closed == ["closed"]
    assert "mine: closing a stream failed: OSError" in caplog.text
    assert "secret" not in caplog.text

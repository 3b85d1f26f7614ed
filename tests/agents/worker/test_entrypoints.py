"""The functions that a worker accepts as its entrypoint."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from vivavoce.agents import Worker
from vivavoce.agents.job import JobContext
from vivavoce.pipelines.core.errors import ConfigurationError


async def _call(ctx: JobContext) -> None:
    """Run one call."""


async def _of_a_kind(kind: str, ctx: JobContext) -> None:
    """Run one call."""


async def _with_an_option(ctx: JobContext, kind: str = "") -> None:
    """Run one call."""


class _Office:
    async def __call__(self, ctx: JobContext) -> None:
        """Run one call."""

    async def call(self, ctx: JobContext) -> None:
        """Run one call."""


@functools.wraps(_call)
def _decorated(*arguments: Any) -> Awaitable[None]:
    return _call(*arguments)


def _sync(ctx: JobContext) -> None:
    """Do nothing."""


async def _without_argument() -> None:
    """Do nothing."""


async def _two_arguments(ctx: JobContext, room: str) -> None:
    """Do nothing."""


async def _generator(ctx: JobContext) -> Any:
    yield ctx


@pytest.mark.parametrize(
    "entrypoint",
    [_call, functools.partial(_of_a_kind, "short"), _with_an_option, _Office(), _Office().call, _decorated],
)
def test_an_async_function_of_the_job_s_context_is_an_entrypoint(entrypoint: Callable[..., Awaitable[None]]) -> None:
    assert Worker(entrypoint).entrypoint is entrypoint


@pytest.mark.parametrize("entrypoint", [_sync, _generator, _Office, print, lambda ctx: None])
def test_a_function_that_is_not_async_is_refused(entrypoint: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"must be an async function .*async def entrypoint\(ctx\)"):
        Worker(entrypoint)


@pytest.mark.parametrize("entrypoint", [_without_argument, _two_arguments])
def test_an_entrypoint_that_does_not_take_one_argument_is_refused(entrypoint: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"must take one argument, the JobContext.*with \("):
        Worker(entrypoint)

"""Tokens that an application's function returns, such as those of Microsoft Entra ID, in place of a key."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable

from anyio import to_thread

from vivavoce.pipelines.core.errors import ProviderError, ProviderTimeoutError

TokenProvider = Callable[[], str | Awaitable[str]]
"""Returns a token that is valid now, sync or async, such as the function that azure-identity's
`get_bearer_token_provider` makes."""


async def token_of(provide: TokenProvider, *, provider: str, name: str, limit: float) -> str:
    """Return a token. A function that is not async runs in a thread, since it may ask the network.

    Args:
        name: Of the function for errors.
        limit: Seconds that it may take.
    Raises:
        ProviderError: There is none; the error holds nothing that the function returned or raised.
    """
    try:
        async with asyncio.timeout(limit):
            token = await _called(provide)
    except TimeoutError:
        text = f"no token within {limit:g} s; check {name}"
        failure: ProviderError = ProviderTimeoutError(text, provider=provider, retryable=True)
    except Exception as error:  # noqa: BLE001 - the application's function, whose error may hold a secret
        text = f"no token: {name} failed with {type(error).__name__}"
        failure = ProviderError(text, provider=provider, retryable=True)
    else:
        if isinstance(token, str) and token.isascii() and token.isprintable() and token.strip():
            return token.strip()
        text = f"needed a token of printable ASCII from {name}, got {type(token).__name__}"
        failure = ProviderError(text, provider=provider)
    raise failure


async def _called(provide: TokenProvider) -> object:
    is_async = inspect.iscoroutinefunction(provide) or inspect.iscoroutinefunction(type(provide).__call__)
    told = provide() if is_async else await to_thread.run_sync(provide, abandon_on_cancel=True)
    return await told if inspect.isawaitable(told) else told

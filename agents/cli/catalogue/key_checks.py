"""Asks each vendor whose key is set whether the key works: one cheap request each, side by side."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import anyio

from vivavoce.agents.cli.catalogue.providers import Listed
from vivavoce.pipelines.about import KeyCheck, Provider
from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    ProviderConnectionError,
    ProviderError,
    ProviderStatusError,
    ProviderTimeoutError,
)
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.redaction import Redaction

LIMIT = 5.0
"""Seconds for each vendor to answer."""


class Verdict(StrEnum):
    """The result of a try."""

    WORKS = "works"
    REFUSED = "refused"
    """The vendor says that it is no valid key, or one for something else; or no request can be made with it here."""
    UNREACHABLE = "unreachable"
    """No network, no such host, or no answer in time."""
    UNKNOWN = "unknown"
    """The server has a fault, or an answer that says nothing about the key."""
    UNTRIED = "untried"
    """The vendor has no cheap request that needs a key."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the vendor said; no secrets.

    Args:
        server: The address that was asked; "" if none was.
    """

    verdict: Verdict
    text: str = ""
    server: str = ""


async def try_keys(listed: Sequence[Listed]) -> dict[str, Answer]:
    """Return the answer of each provider with a check whose key is set in the environment, by name."""
    answers: dict[str, Answer] = {}

    async def ask(provider: Provider) -> None:
        answers[provider.name] = await try_key(provider)

    async with anyio.create_task_group() as tasks:
        for each in listed:
            if each.set_key(os.environ) is not None:
                tasks.start_soon(ask, each.provider)
    return answers


async def try_key(provider: Provider, *, api_key: str | None = None, base_url: str | None = None) -> Answer:
    """Ask the vendor, for `LIMIT` seconds at most.

    Args:
        api_key: Else the environment's.
        base_url: Else the vendor's address, or the one of its variable.
    """
    check = provider.check
    if check is None:
        return Answer(Verdict.UNTRIED)
    try:
        client = check.client(api_key=api_key, base_url=base_url)
    except ConfigurationError as error:
        return Answer(Verdict.REFUSED, str(error))
    except Exception as error:  # noqa: BLE001 - a third party's function, which may fail in any way
        return Answer(Verdict.UNKNOWN, f"its check fails: {type(error).__name__}")
    remedies = dict.fromkeys(check.refused, "")  # the caller has a better one
    failures = Failures(provider=provider.name, redact=Redaction(client.secrets), remedies=remedies)
    answer = Answer(Verdict.UNREACHABLE, f"no answer within {LIMIT:g} s")
    try:
        with anyio.move_on_after(LIMIT):
            answer = await _asked(client, check, failures)
    finally:
        await client.aclose()
    return Answer(answer.verdict, answer.text, client.shown_url)


async def _asked(client: Client, check: KeyCheck, failures: Failures) -> Answer:
    try:
        async with client.request(check.path, failures, query=check.query, data=check.data):
            return Answer(Verdict.WORKS)
    except ProviderStatusError as error:
        return Answer(Verdict.REFUSED if error.status in check.refused else Verdict.UNKNOWN, _words(error))
    except (ProviderConnectionError, ProviderTimeoutError) as error:
        return Answer(Verdict.UNREACHABLE, _words(error))
    except ProviderError as error:
        return Answer(Verdict.UNKNOWN, _words(error))


def _words(error: ProviderError) -> str:
    """Return its text without the provider's name."""
    return str(error).removeprefix(f"{error.provider}: ")

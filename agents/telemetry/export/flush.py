"""Flush and shutdown of providers, in a daemon thread: the SDK's block for as long as an exporter does."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any

from vivavoce.pipelines.core.errors import describe

logger = logging.getLogger(__name__)


def flush_providers(providers: Sequence[object], timeout_millis: int) -> Future[None]:
    """Call `force_flush` of each provider that has it; the result is there when all have returned."""
    flushes = [flush for provider in providers if (flush := getattr(provider, "force_flush", None)) is not None]
    return _in_thread([(flush, (timeout_millis,)) for flush in flushes])


def shut_down_providers(providers: Sequence[Any]) -> Future[None]:
    """Call `shutdown` of each provider, which sends waiting items; the result is there when all have returned."""
    return _in_thread([(provider.shutdown, ()) for provider in providers])


def _in_thread(calls: Sequence[tuple[Any, tuple[Any, ...]]]) -> Future[None]:
    done: Future[None] = Future()

    def run() -> None:
        for call, arguments in calls:
            try:
                call(*arguments)
            except Exception as error:  # noqa: BLE001 - foreign code; the call is over and nothing depends on it
                logger.warning("Flushing telemetry raised %s", describe(error))
        done.set_result(None)

    if calls:
        threading.Thread(target=run, name="vivavoce telemetry flush", daemon=True).start()
    else:
        done.set_result(None)
    return done

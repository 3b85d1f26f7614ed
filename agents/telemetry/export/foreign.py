"""Flushing providers of the application's, which may block for as long as they like, in a thread that nobody joins."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from concurrent.futures import Future

from vivavoce.pipelines.core.errors import describe

logger = logging.getLogger(__name__)


def flush_providers(providers: Sequence[object], timeout_millis: int) -> Future[None]:
    """Call `force_flush` of those that have it; the result is there when all have returned."""
    done: Future[None] = Future()
    flushes = [flush for provider in providers if (flush := getattr(provider, "force_flush", None)) is not None]

    def run() -> None:
        for flush in flushes:
            try:
                flush(timeout_millis)
            except Exception as error:  # noqa: BLE001 - foreign code; the call is over and nothing depends on it
                logger.warning("Flushing telemetry raised %s", describe(error))
        done.set_result(None)

    if flushes:
        threading.Thread(target=run, name="vivavoce telemetry flush", daemon=True).start()
    else:
        done.set_result(None)
    return done

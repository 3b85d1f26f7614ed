"""A stream whose code fails is opened again, but not for ever."""

from __future__ import annotations

import anyio

from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.core.reopening import FAILURES, STABLE_AFTER, Reopening
from vivavoce.pipelines.testing import VirtualClock, run_virtual


class Stream:
    def close(self) -> None:
        """Nothing is held."""


def test_a_stream_that_cannot_be_opened_again_after_it_worked_for_long_is_given_up() -> None:
    opened = 0
    failures: list[tuple[str, bool]] = []

    def make() -> Stream:
        nonlocal opened
        opened += 1
        if opened > 1:
            raise OSError("no memory")
        return Stream()

    def on_failure(error: ProviderError, is_given_up: bool) -> None:
        failures.append((str(error), is_given_up))

    async def main() -> None:
        clock = VirtualClock()
        streams = Reopening(make, "mine", clock=clock, on_failure=on_failure)
        streams.open()
        await anyio.sleep(STABLE_AFTER + 1.0)
        streams.failed(KeyError("frame"))
        assert streams.stream is None

    run_virtual(main())
    cannot = "mine: it raised OSError"
    assert failures == [("mine: it raised KeyError", False), (cannot, False), (cannot, True)]
    assert opened == FAILURES

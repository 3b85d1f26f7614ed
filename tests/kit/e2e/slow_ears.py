"""The demo's caller with ears that take their time to open, as on the first run after an installation."""

from __future__ import annotations

import runpy

import anyio

from vivavoce.pipelines.stt.by_utterance import UtteranceStream
from vivavoce.plugins import moonshine

SLOWNESS = 2.5
"""Seconds; loading weights from a disk that is slow, or not in memory yet, takes as long."""


class SlowSTT(moonshine.STT):
    """Opens late."""

    async def open(self) -> UtteranceStream:
        await anyio.sleep(SLOWNESS)
        return await super().open()


if __name__ == "__main__":
    moonshine.STT = SlowSTT  # type: ignore[misc]
    runpy.run_module("vivavoce.agents.cli.demo.caller", run_name="__main__")

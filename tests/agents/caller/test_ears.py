"""The simulated caller's ears: opened parts are closed, also if the recogniser cannot be opened."""

from __future__ import annotations

import pytest

from vivavoce.agents.caller.ears import open_ears
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.stt.base import STTStream
from vivavoce.pipelines.testing import ScriptedSTT, ScriptedVAD, run_virtual
from vivavoce.pipelines.testing.scripted_vad import ScriptedVADStream


class OneVAD(ScriptedVAD):
    """Keeps the stream that it opened."""

    opened: ScriptedVADStream

    def open(self) -> ScriptedVADStream:
        self.opened = super().open()
        return self.opened


class NoSTT(ScriptedSTT):
    """A recogniser that cannot be had."""

    async def open(self) -> STTStream:  # type: ignore[override]
        raise ProviderError("no model", provider="scripted")


def test_ears_close_their_detector_at_the_end() -> None:
    vad = OneVAD()

    async def main() -> None:
        async with open_ears(vad, None) as ears:
            assert ears.vad is vad.opened
            assert not vad.opened.is_closed

    run_virtual(main())
    assert vad.opened.is_closed


def test_ears_without_a_recogniser_close_their_detector_too() -> None:
    vad = OneVAD()

    async def main() -> None:
        async with open_ears(vad, NoSTT()):
            raise AssertionError("there are no such ears")

    with pytest.raises(ProviderError, match="no model"):
        run_virtual(main())
    assert vad.opened.is_closed

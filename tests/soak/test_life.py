"""The soak's own sessions, in virtual time: a recogniser lost on purpose is no failure, an agent that stays deaf is."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import anyio
import pytest

from kit.soak import life as room
from kit.soak.ledger import LOST_CONNECTION
from kit.soak.life import Life
from vivavoce.pipelines.core.errors import ProviderConnectionError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.testing import ScriptedSTT, run_virtual
from vivavoce.pipelines.testing.scripted_stt import ScriptedSTTStream


class DeafSTT(ScriptedSTT):
    """Has one good stream; later ones hear nothing."""

    async def open(self) -> ScriptedSTTStream:
        if not self.streams:
            return await super().open()
        return await self._open_again()

    async def _open_again(self) -> ScriptedSTTStream:
        raise NotImplementedError


class HangingSTT(DeafSTT):
    """Never returns a second stream."""

    async def _open_again(self) -> ScriptedSTTStream:
        await anyio.sleep_forever()
        raise AssertionError


class RefusingSTT(DeafSTT):
    """Refuses a second stream."""

    async def _open_again(self) -> ScriptedSTTStream:
        raise ProviderConnectionError(LOST_CONNECTION, provider=self.provider)


class SoundlessSTT(DeafSTT):
    """Gives second streams that get no audio."""

    async def _open_again(self) -> ScriptedSTTStream:
        stream = await ScriptedSTT.open(self)
        stream.push = _drop  # type: ignore[method-assign]
        return stream


def _drop(frame: AudioFrame) -> None:
    """Lose it."""


@pytest.fixture(autouse=True)
def _no_look_at_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip traces: a thread writes them, and virtual time does not wait for it; the soak itself checks them."""
    monkeypatch.setattr(room, "run_sync", _not_looking)


async def _not_looking(*_: object) -> None:
    pass


def _lives(count: int, end: str, traces: Path) -> Iterator[Life]:
    drawn = (Life(f"life/{number}", traces) for number in range(1_000))
    return islice((life for life in drawn if life.end == end), count)


def test_a_recogniser_that_is_lost_again_and_again_is_opened_again_each_time(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(room, "ACTIONS", {"stt fails": 3, "says": 1})
    for life in _lives(10, "question", tmp_path):
        run_virtual(life.live())
        assert life.mood.provoked["stt"] >= 2


def test_a_recogniser_lost_just_before_none_can_be_had_is_opened_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(room, "ACTIONS", {"stt fails": 1})
    for life in _lives(10, "deaf", tmp_path):
        run_virtual(life.live())


@pytest.mark.parametrize(
    ("stt", "problem"),
    [
        (HangingSTT, "the recogniser was not opened again|closed by itself"),
        (RefusingSTT, "closed by itself"),
        (SoundlessSTT, "the recogniser got 0.00 s of audio"),
    ],
)
def test_a_session_that_hears_no_more_is_a_failure(
    stt: type[ScriptedSTT], problem: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(room, "ACTIONS", {"stt fails": 1})
    monkeypatch.setattr(room, "ScriptedSTT", stt)
    for life in _lives(3, "question", tmp_path):
        with pytest.raises(AssertionError, match=problem):
            run_virtual(life.live())

"""Smart Turn with its published weights: verdicts, and the cascade that finds them."""

from __future__ import annotations

import logging
from pathlib import Path

import anyio.to_thread
import pytest

from kit.limits import LIMIT
from kit.servers import install
from kit.servers.missing import missing
from kit.speech import frames, spoken_naturally
from vivavoce.agents.cli.catalogue.providers import find_plugins
from vivavoce.agents.cli.doctor.findings import Health
from vivavoce.agents.cli.doctor.machine import model_files
from vivavoce.pipelines import CascadingOptions, CascadingPipeline
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.testing import ScriptedLLM, ScriptedSTT, ScriptedTTS, ScriptedTurnDetector, ScriptedVAD
from vivavoce.pipelines.turn_detector.base import TurnContext
from vivavoce.plugins import smart_turn
from vivavoce.plugins.smart_turn.weights import WEIGHTS

pytestmark = pytest.mark.timeout(LIMIT)


@pytest.fixture
async def weights(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder with the published weights; the variable names it."""
    try:
        folder = await anyio.to_thread.run_sync(install.smart_turn_weights)
    except install.InstallError as error:
        missing("smart_turn's weights", str(error))
    monkeypatch.setenv("VIVAVOCE_MODELS", str(folder))
    return folder


@pytest.fixture
def nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder without weights; the variable names it."""
    monkeypatch.setenv("VIVAVOCE_MODELS", str(tmp_path))
    return tmp_path


def cascade(**parts: object) -> CascadingPipeline:
    given = {"stt": ScriptedSTT(), "vad": ScriptedVAD(), "llm": ScriptedLLM("Hi."), "tts": ScriptedTTS(), **parts}
    return CascadingPipeline(**given)  # type: ignore[arg-type]


async def test_whole_sentences_are_complete_and_those_that_break_off_are_not(weights: Path) -> None:
    detector = smart_turn.TurnDetector()

    async def judged(speech: AudioFrame) -> float:
        stream = detector.open()
        for frame in frames(speech):
            stream.push(frame)
        return (await stream.predict(TurnContext(text="so"))).probability

    whole = await spoken_naturally("I would like a table for two.", "Yes, that is right.", "Do you have parking?")
    assert min([await judged(speech) for speech in whole]) > 0.5
    (longer,) = await spoken_naturally("I would like a table for the four of us.")
    cut = AudioFrame(longer.data[: len(longer.data) // 2 // 2 * 2], 16000)
    assert await judged(cut) < 0.5


async def test_a_cascade_without_a_detector_has_it_and_the_log_says_so(
    weights: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        pipeline = cascade()
    found = pipeline.components.turn_detector
    assert isinstance(found, smart_turn.TurnDetector)
    assert found.model == WEIGHTS.file
    assert ("turn_detector", "smart_turn", WEIGHTS.file) in pipeline.capabilities.components
    assert cascade().components.turn_detector is found
    assert f"turn detector: smart_turn, since its weights are there ({WEIGHTS.file} in {weights})" in caplog.text


async def test_a_cascade_has_no_other_detector_than_it_is_given_or_needs(weights: Path) -> None:
    own = ScriptedTurnDetector()
    assert cascade(turn_detector=own).components.turn_detector is own
    off = CascadingOptions(find_turn_detector=False)
    assert cascade(options=off).components.turn_detector is None
    assert cascade(vad=None).components.turn_detector is None
    assert cascade(stt=None, vad=None).components.turn_detector is None


def test_without_weights_a_cascade_has_none(nothing: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert cascade().components.turn_detector is None
    assert not caplog.records


def test_damaged_weights_are_reported_and_turns_end_by_silence(nothing: Path, caplog: pytest.LogCaptureFixture) -> None:
    (nothing / WEIGHTS.file).write_bytes(b"half")
    assert cascade().components.turn_detector is None
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert "run `vivavoce models get smart_turn`" in record.getMessage()


def test_a_detector_without_a_path_needs_the_weights(nothing: Path) -> None:
    with pytest.raises(ConfigurationError, match="no such file; run `vivavoce models get smart_turn`"):
        smart_turn.TurnDetector()


def test_doctor_says_that_the_weights_are_used(weights: Path) -> None:
    (finding,) = model_files(find_plugins()[0])
    assert finding.health is Health.OK
    assert finding.found.endswith("; a cascade without a turn detector uses them")

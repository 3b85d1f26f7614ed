"""plugins/smart_turn: Whisper's features, separation of turns, files and failures; the network is a test's."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnxruntime  # type: ignore[import-untyped]
import pytest

import kit.networks
from kit.limits import LIMIT
from kit.speech import frames, spoken, white_noise
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError, ProviderProtocolError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.turn_detector.base import EndOfTurnPrediction, TurnContext, TurnDetectorStream
from vivavoce.plugins import smart_turn
from vivavoce.plugins.smart_turn.features import BANDS, FRAMES, log_mel, mel_filters
from vivavoce.plugins.smart_turn.network import Network
from vivavoce.plugins.smart_turn.weights import shared_network

RATE = 16000
QUIET = AudioFrame.silence(1.0, RATE)
LOUD = white_noise(1.0, -20)
HELLO = TurnContext(text="hello", agent_text="Hi.")


@pytest.fixture
def network(tmp_path: Path) -> Path:
    return kit.networks.quiet_end(tmp_path / "quiet_end.onnx")


@pytest.fixture
def stream(network: Path) -> TurnDetectorStream:
    return smart_turn.TurnDetector(network).open()


def hear(stream: TurnDetectorStream, *pieces: AudioFrame) -> None:
    for piece in pieces:
        for frame in frames(piece):
            stream.push(frame)


async def after(stream: TurnDetectorStream, *pieces: AudioFrame, context: TurnContext = HELLO) -> EndOfTurnPrediction:
    hear(stream, *pieces)
    return await stream.predict(context)


def sung(seconds: float) -> npt.NDArray[np.int16]:
    """Return a gliding tone of 24 harmonics that swells: the signal of the stored features."""
    t = np.arange(round(seconds * RATE)) / RATE
    harmonics = sum(np.sin(2 * np.pi * h * (120 * t + 15 * t * t)) / h for h in range(1, 25))
    tone = harmonics * (0.55 + 0.45 * np.sin(2 * np.pi * 3 * t)) + 0.05 * np.sin(2 * np.pi * (500 * t + 400 * t**2))
    return np.asarray(np.round(tone / np.abs(tone).max() * 12000), dtype=np.int16)


# Written by transformers 5.23: WhisperFeatureExtractor(chunk_length=8)(…, do_normalize=True), every 9th band and 49th
# frame, of the last 8 s of `sung(seconds)`, with zeros in front.
REFERENCE = json.loads(Path(__file__).with_name("whisper_features.json").read_text())


@pytest.mark.parametrize("seconds", sorted(REFERENCE))
def test_the_features_are_those_of_whispers_extractor(seconds: str) -> None:
    features = log_mel(sung(float(seconds)).tobytes(), mel_filters())
    assert features.shape == (BANDS, FRAMES)
    assert features.dtype == np.float32
    assert features[::9, ::49] == pytest.approx(np.array(REFERENCE[seconds]), abs=1e-4)


async def test_the_verdict_is_the_networks_probability_against_the_threshold(network: Path) -> None:
    detector, strict = smart_turn.TurnDetector(network), smart_turn.TurnDetector(network, threshold=0.999999)
    over = await after(detector.open(), LOUD, QUIET)
    assert over.complete
    assert 0.5 < over.probability < 0.999999
    assert await after(strict.open(), LOUD, QUIET) == EndOfTurnPrediction(False, over.probability)
    going_on = await after(detector.open(), QUIET, LOUD)
    assert not going_on.complete
    assert going_on.probability < 0.5


def test_threads_that_need_the_shared_network_at_once_load_it_once(network: Path) -> None:
    begin = threading.Barrier(4)

    def need(_: int) -> Network:
        begin.wait(LIMIT)
        return shared_network(network, 1)

    with ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(need, range(4)))) == 1


async def test_without_audio_there_is_still_a_verdict(stream: TurnDetectorStream) -> None:
    assert (await stream.predict(HELLO)).probability == pytest.approx(0.5)


async def test_only_the_last_eight_seconds_count(network: Path) -> None:
    detector = smart_turn.TurnDetector(network)
    eight = [LOUD, QUIET] * 4
    alone = await after(detector.open(), *eight)
    assert await after(detector.open(), *[QUIET, LOUD, LOUD] * 10, *eight) == alone


async def test_a_turn_that_goes_on_is_judged_with_its_beginning(network: Path) -> None:
    detector = smart_turn.TurnDetector(network)
    whole = await after(detector.open(), LOUD, QUIET, QUIET, LOUD)
    stream = detector.open()
    await after(stream, LOUD, QUIET)
    assert await after(stream, QUIET, LOUD, context=TurnContext(text="hello there", agent_text="Hi.")) == whole


@pytest.mark.parametrize(
    "next_turn", [TurnContext(text="goodbye", agent_text="Hi."), TurnContext(text="hello", agent_text="Who is there?")]
)
async def test_another_turn_is_judged_without_the_turn_before(network: Path, next_turn: TurnContext) -> None:
    detector = smart_turn.TurnDetector(network)
    alone = await after(detector.open(), QUIET, LOUD)
    stream = detector.open()
    await after(stream, LOUD, LOUD)
    assert await after(stream, QUIET, LOUD, context=next_turn) == alone


async def test_the_turn_before_is_cut_off_even_after_a_long_wait(network: Path) -> None:
    detector = smart_turn.TurnDetector(network)
    alone = await after(detector.open(), *[QUIET] * 6, LOUD)
    stream = detector.open()
    await after(stream, *[LOUD] * 14)
    assert await after(stream, *[QUIET] * 6, LOUD, context=TurnContext(text="so", agent_text="Sure.")) == alone


async def test_sessions_do_not_hear_each_other(network: Path) -> None:
    detector = smart_turn.TurnDetector(network)
    one, other = detector.open(), detector.open()
    hear(one, LOUD, QUIET)
    hear(other, QUIET, LOUD)
    verdicts = await asyncio.gather(one.predict(HELLO), other.predict(HELLO))
    assert [verdict.complete for verdict in verdicts] == [True, False]


async def test_the_event_loop_goes_on_while_the_network_judges(
    stream: TurnDetectorStream, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, is_asked, may_go = onnxruntime.InferenceSession.run, threading.Event(), threading.Event()

    def run_when_let(network: onnxruntime.InferenceSession, *arguments: Any) -> Any:
        is_asked.set()
        assert may_go.wait(60)
        return run(network, *arguments)

    monkeypatch.setattr(onnxruntime.InferenceSession, "run", run_when_let)
    hear(stream, *[LOUD, QUIET] * 4)
    judging = asyncio.ensure_future(stream.predict(HELLO))
    assert await asyncio.to_thread(is_asked.wait, 60)
    assert not judging.done(), "the loop runs while the network does"
    may_go.set()
    assert (await judging).complete


async def test_speech_is_judged(stream: TurnDetectorStream) -> None:
    (speech,) = await spoken("a table for two")
    assert (await after(stream, speech, AudioFrame.silence(0.6, RATE))).complete


async def test_a_file_with_logits_instead_of_probabilities_is_found_out(tmp_path: Path) -> None:
    path = kit.networks.quiet_end(tmp_path / "logits.onnx", sigmoid=False)
    with pytest.raises(ProviderProtocolError, match="smart_turn: needed one probability from 0 to 1, got shape"):
        await after(smart_turn.TurnDetector(path).open(), LOUD, QUIET)


async def test_a_network_that_fails_is_a_provider_error(tmp_path: Path) -> None:
    path = kit.networks.quiet_end(tmp_path / "broken.onnx", fails=True)
    with pytest.raises(ProviderError, match="smart_turn: the network failed"):
        await after(smart_turn.TurnDetector(path).open(), LOUD)


def test_a_file_that_is_no_such_network_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no network")
    with pytest.raises(ConfigurationError, match="onnxruntime refuses"):
        smart_turn.TurnDetector(tmp_path / "text.onnx")
    with pytest.raises(ConfigurationError, match="no such file; get one from"):
        smart_turn.TurnDetector(tmp_path / "none.onnx")
    with pytest.raises(ConfigurationError, match=r"one input 'input_features'.*got .*'input_values'"):
        smart_turn.TurnDetector(kit.networks.quiet_end(tmp_path / "v2.onnx", name="input_values"))
    with pytest.raises(ConfigurationError, match=r"\(batch, 80, 800\), got .*128"):
        smart_turn.TurnDetector(kit.networks.quiet_end(tmp_path / "large.onnx", bands=128))


def test_numbers_out_of_range_are_refused(network: Path) -> None:
    with pytest.raises(ConfigurationError, match="need 0 < threshold < 1, got 1"):
        smart_turn.TurnDetector(network, threshold=1)
    with pytest.raises(ConfigurationError, match="need threads >= 1, a whole number, got 0"):
        smart_turn.TurnDetector(network, threads=0)
    with pytest.raises(ConfigurationError, match="threshold.*'0.5'"):
        smart_turn.TurnDetector(network, threshold="0.5")  # type: ignore[arg-type]


def test_without_onnxruntime_the_error_names_the_extra(network: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'vivavoce\[smart-turn\]'"):
        smart_turn.TurnDetector(network)


def test_a_frame_of_another_rate_is_refused(stream: TurnDetectorStream) -> None:
    with pytest.raises(ValueError, match="mono frames of 16000 Hz, got 48000 Hz"):
        stream.push(AudioFrame.silence(0.02, 48000))

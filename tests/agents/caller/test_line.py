"""The caller's line: received and sent frames lie side by side in the recording."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import numpy as np

from vivavoce.agents.caller.answering_mind import MAX_REPEATS, PATIENCE, AnsweringMind
from vivavoce.agents.caller.line import FRAME_SAMPLES, SAMPLE_RATE, Line
from vivavoce.agents.caller.script import CallScript
from vivavoce.agents.caller.script_mind import ScriptMind
from vivavoce.agents.cli.demo.script import GRAMMAR_SCRIPT
from vivavoce.agents.telephony.tones import key_tones
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.stt.base import STTEvent, STTFinal, STTInterim, STTStream
from vivavoce.pipelines.testing import ScriptedVAD
from vivavoce.pipelines.vad.base import VADEvent, VADOptions, VADSpeechEnded, VADSpeechStarted, VADStream


class LoudnessVAD(VADStream):
    """Takes any frame that is not silent as speech."""

    def __init__(self) -> None:
        self._is_loud = False

    def push(self, frame: AudioFrame) -> Sequence[VADEvent]:
        was, self._is_loud = self._is_loud, any(frame.data)
        if was == self._is_loud:
            return []
        return [VADSpeechStarted(0.02) if self._is_loud else VADSpeechEnded(0.02)]


class ListedSTT(STTStream):
    """Records its calls; the test gives its texts."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.frames = 0

    def push(self, frame: AudioFrame) -> None:
        self.frames += 1

    def speech_started(self, ago: float) -> None:
        self.asked.append("started")

    def voice_paused(self) -> None:
        self.asked.append("paused")

    def voice_resumed(self) -> None:
        self.asked.append("resumed")

    def flush(self) -> None:
        self.asked.append("flush")

    async def events(self) -> AsyncIterator[STTEvent]:
        return
        yield

    async def aclose(self) -> None: ...


LOUD = AudioFrame(b"\x10\x10" * FRAME_SAMPLES, SAMPLE_RATE)
QUIET = AudioFrame(bytes(2 * FRAME_SAMPLES), SAMPLE_RATE)
SPOKEN = b"\x20\x20" * (FRAME_SAMPLES * 3 + 7)


def _line() -> tuple[Line, ListedSTT, list[tuple[str, str]]]:
    stt, told = ListedSTT(), []
    voice = dict.fromkeys(GRAMMAR_SCRIPT.lines, SPOKEN)
    return Line(AnsweringMind(GRAMMAR_SCRIPT), LoudnessVAD(), stt, voice, lambda *event: told.append(event)), stt, told


def _greeted() -> tuple[Line, ListedSTT, list[tuple[str, str]]]:
    line, stt, told = _line()
    for frame in [LOUD] * 50 + [QUIET] * 5:
        assert line.exchange(frame) is None
    line.understood(STTFinal(text="for which day would you like a table"))
    return line, stt, told


def test_it_answers_in_whole_frames_and_then_is_silent_again() -> None:
    line, stt, told = _greeted()
    sent = [line.exchange(QUIET) for _ in range(60)]
    spoken = [frame for frame in sent if frame is not None]
    assert [frame.samples for frame in spoken] == [FRAME_SAMPLES] * 4
    assert b"".join(frame.data for frame in spoken).rstrip(b"\0") == SPOKEN
    assert told == [("heard", "for which day would you like a table"), ("says", "table for friday please")]
    assert stt.asked == ["started", "flush"]
    assert stt.frames == 115


def test_its_recogniser_is_told_where_the_host_pauses() -> None:
    stt = ListedSTT()
    vad = ScriptedVAD(VADOptions(min_silence=0.2)).open()
    line = Line(AnsweringMind(GRAMMAR_SCRIPT), vad, stt, {}, lambda *event: None)
    loud = AudioFrame(b"\x00\x40" * FRAME_SAMPLES, SAMPLE_RATE)
    for frame in [loud] * 20 + [QUIET] * 4 + [loud] * 5 + [QUIET] * 15:
        line.exchange(frame)
    assert stt.asked == ["started", "paused", "resumed", "paused", "flush"]


def test_caller_and_host_lie_side_by_side_in_the_recording() -> None:
    line, _, _ = _greeted()
    for _ in range(60):
        line.exchange(QUIET)
    recording = line.recording()
    assert (recording.num_channels, recording.samples) == (2, 115 * FRAME_SAMPLES)
    caller, host = recording.to_numpy()[:, 0], recording.to_numpy()[:, 1]
    assert np.flatnonzero(host).tolist() == list(range(50 * FRAME_SAMPLES))
    first, last = np.flatnonzero(caller)[[0, -1]]
    assert last - first + 1 == len(SPOKEN) // 2
    assert first % FRAME_SAMPLES == 0


def test_keys_are_pressed_with_the_frames_of_their_tones_and_the_recording_alone_has_those() -> None:
    script = CallScript.model_validate({"greeting": False, "steps": [{"press": "1#", "pause": 0.1}]})
    voice = {"<keys 1#>": key_tones("1#").data}
    line = Line(ScriptMind(script, has_ears=False), LoudnessVAD(), None, voice, lambda *event: None)
    pressed = list[tuple[int, str]]()
    for number in range(40):
        assert line.exchange(QUIET) is None
        if line.pressed:
            pressed.append((number, line.pressed))
    (first, one), (second, two) = pressed
    assert (one, two, second - first) == ("1", "#", 10)
    assert np.abs(line.recording().to_numpy()[:, 0]).max() > 1000


def test_it_speaks_over_the_host_when_its_cue_stands() -> None:
    line, _, told = _greeted()
    for _ in range(60):
        line.exchange(QUIET)
    line.exchange(LOUD)
    line.understood(STTInterim(text="let me read you our house rules"))
    sent = [line.exchange(LOUD) for _ in range(25)]
    assert any(frame is not None for frame in sent)
    assert told[-1] == ("barge_in", "stop please")


def test_it_hangs_up_on_a_host_that_stays_silent() -> None:
    line, _, _ = _line()
    for _ in range(round((MAX_REPEATS + 2) * (PATIENCE + 1) * 50)):  # it says hello first
        line.exchange(QUIET)
    assert line.hung_up is not None
    assert line.hung_up.problem


def test_an_agent_whose_code_fails_has_ended_the_call_with_its_error() -> None:
    line, _, _ = _greeted()
    line.host_failed("the agent's code failed: LookupError: no menu")
    assert line.hung_up is not None
    assert line.hung_up.problem == "the agent's code failed: LookupError: no menu"
    assert line.ended_by == "agent"

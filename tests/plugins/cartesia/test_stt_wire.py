"""The wires of Cartesia's recognisers on messages in the vendor's form, and minutes without audio."""

from __future__ import annotations

import json

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kit.listening_streams import finals, push
from vivavoce.pipelines.core.errors import ProviderError, ProviderStatusError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.stt.base import STTEvent, STTFinal, STTInterim
from vivavoce.pipelines.testing import run_virtual
from vivavoce.pipelines.testing.promises import frames_of
from vivavoce.plugins import cartesia
from vivavoce.plugins.cartesia.ink_wire import InkWire
from vivavoce.plugins.cartesia.turns_wire import TurnsWire
from vivavoce.plugins.cartesia.twin import CartesiaTwin

JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KINDS = st.sampled_from(
    ["transcript", "flush_done", "turn.start", "turn.update", "turn.eager_end", "turn.end", "error"]
)
FIELDS = ("text", "transcript", "is_final", "words", "language", "status_code", "error_code", "message", "request_id")


class Stream:
    """What a stream does with a wire."""

    def __init__(self) -> None:
        self.events: list[STTEvent] = []
        self.position = 0.0
        self.settled = 0.0

    def settle(self, until: float) -> None:
        self.settled = max(self.settled, until)

    def ink(self) -> InkWire:
        return InkWire(
            "en",
            position=lambda: self.position,
            at=lambda seconds: seconds,
            settle=self.settle,
            report=self.events.append,
            failures=Failures(provider="c"),
        )

    def turns(self) -> TurnsWire:
        return TurnsWire(
            "en",
            position=lambda: self.position,
            settle=self.settle,
            report=self.events.append,
            failures=Failures(provider="c"),
        )

    @property
    def texts(self) -> list[str]:
        """The texts of the finals."""
        return [event.text for event in self.events if isinstance(event, STTFinal)]


@given(st.lists(st.tuples(KINDS, st.dictionaries(st.sampled_from(FIELDS), JSON)), max_size=6))
def test_any_messages_are_events_or_an_error_of_the_provider(messages: list[tuple[str, dict[str, object]]]) -> None:
    stream = Stream()
    for wire in (stream.ink(), stream.turns()):
        for kind, fields in messages:
            wire.flush(stream.position)
            try:
                wire.feed(json.dumps({**fields, "type": kind}))
            except ProviderError:
                continue
    assert all(event.text is not None for event in stream.events if isinstance(event, STTInterim | STTFinal))


@given(st.lists(st.sampled_from(["one", " two", " three", ",", " four"]), min_size=1, max_size=8), st.data())
def test_the_words_of_a_turn_are_each_in_one_final_wherever_it_is_flushed(
    parts: list[str], data: st.DataObject
) -> None:
    stream = Stream()
    wire = stream.turns()
    wire.feed('{"type": "turn.start"}')
    for count in range(1, len(parts) + 1):
        wire.feed(json.dumps({"type": "turn.update", "transcript": "".join(parts[:count])}))
        if data.draw(st.booleans()):
            wire.flush(float(count))
    wire.feed(json.dumps({"type": "turn.end", "transcript": "".join(parts)}))
    assert "".join(stream.texts).replace(" ", "") == "".join(parts).replace(" ", "")


def test_an_error_of_the_service_has_its_status_its_name_and_its_request() -> None:
    told = {"type": "error", "title": "Busy", "message": "Later.", "status_code": 503, "request_id": "req_7"}
    for wire in (Stream().ink(), Stream().turns()):
        with pytest.raises(ProviderStatusError, match=r"503.*req_7.*Busy: Later\.") as caught:
            wire.feed(json.dumps(told))
        assert caught.value.retryable


@pytest.mark.parametrize("model", ["ink-2", "ink-whisper"])
def test_a_connection_without_audio_is_kept_and_later_words_have_the_streams_times(model: str) -> None:
    silence = AudioFrame.silence(1.0, 16_000)

    async def main() -> tuple[list[STTFinal], int]:
        async with CartesiaTwin() as twin, cartesia.STT(model, base_url=twin.url, api_key=twin.key) as stt:
            stream = await stt.open()
            heard: list[STTFinal] = []
            for text in ("Hello.", "again"):
                push(stream, twin.speech(text), silence)
                stream.flush()
                heard += await finals(stream, 1)
                await anyio.sleep(120.0)
            await stream.aclose()
            return heard, len(twin.ears)

    (first, second), connections = run_virtual(main())
    assert (first.text, second.text, connections) == ("Hello.", "again", 1)
    if model == "ink-whisper":
        assert first.words[0].start == 0
        assert second.words[0].start == pytest.approx(1.26, abs=0.15)


@pytest.mark.parametrize("model", ["ink-2", "ink-whisper"])
@pytest.mark.parametrize("lost_at", [1.3, 2.2, 3.3, 3.5])
def test_a_connection_lost_in_a_call_costs_no_word_and_doubles_none(model: str, lost_at: float) -> None:
    """The audio comes as it is spoken, and what was kept is sent again at the usual speed."""

    async def main() -> list[str]:
        async with CartesiaTwin() as twin, cartesia.STT(model, base_url=twin.url, api_key=twin.key) as stt:
            stream = await stt.open()
            silence = AudioFrame.silence(1.5, 16_000)
            spoken = [twin.speech("Hello there."), silence, twin.speech("one two three four five six"), silence]
            seconds = 0.0
            for one in spoken:
                if one is silence and stt.capabilities.needs_flush:
                    stream.flush()
                for frame in frames_of(one, 16_000):
                    stream.push(frame)
                    await anyio.sleep(frame.duration)
                    seconds += frame.duration
                    if lost_at <= seconds < lost_at + frame.duration:
                        twin.ear.abort()
            heard = await finals(stream, 2)
            await stream.aclose()
            assert len(twin.ears) == 2
            return [final.text for final in heard]

    assert run_virtual(main()) == ["Hello there.", "one two three four five six"]

"""Scenario 14, rule 18: a sentence for which the voice yields no audio and no error was not heard."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from dataclasses import replace

import pytest

from vivavoce.agents import Agent, SessionOptions, function_tool
from vivavoce.agents.events import ErrorOccurred
from vivavoce.agents.testing import ScriptedLLM, ScriptedTTS, SessionHarness
from vivavoce.pipelines.cascading import CascadingOptions, CascadingPipeline
from vivavoce.pipelines.core.errors import UnvoicedError
from vivavoce.pipelines.core.retry import RetryOptions
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.testing import ScriptedSTT, ScriptedTTSOptions, ScriptedVAD
from vivavoce.pipelines.testing.script import Step
from vivavoce.pipelines.tts.base import AudioChunk
from vivavoce.pipelines.tts.fallback import FallbackTTS
from vivavoce.pipelines.tts.text_filters import EmojiFilter


class Gaps(ScriptedTTS):
    """A voice that yields no audio for some words, as often as the script says.

    Args:
        silent: Words, and how often a text with them gets no audio.
    """

    def __init__(self, silent: Mapping[str, int], *, emits_words: bool = False, streams_text: bool = False) -> None:
        super().__init__(
            emits_words=emits_words,
            streams_text=streams_text,
            options=ScriptedTTSOptions(seconds_per_word=0.2),
        )
        self._silent = dict(silent)
        self._skipped: set[str] = set()

    def _is_silent(self, text: str) -> bool:
        found = next((words for words, times in self._silent.items() if words in text and times > 0), None)
        if found is not None:
            self._silent[found] -= 1
        return found is not None

    async def synthesize(self, text: str) -> AsyncGenerator[AudioChunk, None]:
        if self._is_silent(text):
            self.texts.append(text)
            return
        async for chunk in super().synthesize(text):
            yield chunk

    async def stream(self, text: AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        silent = [sentence for sentence, times in self._silent.items() if times > 0]
        self._silent = {sentence: times - 1 for sentence, times in self._silent.items()}
        self._skipped = {word for sentence in silent for word in sentence.split()}
        async for chunk in super().stream(text):
            yield chunk

    def _word(self, word: str, start: float) -> list[AudioChunk]:
        return [] if word in self._skipped else super()._word(word, start)


FOREVER = 99


def answered(voice: ScriptedTTS, *steps: Step, options: CascadingOptions | None = None) -> SessionHarness:
    """The caller asks once, and hears the answer."""
    model = ScriptedLLM(*steps)
    harness = SessionHarness(Agent("Help."), model, tts=voice)
    if options is not None:
        ears = ScriptedSTT()
        pipeline = CascadingPipeline(stt=ears, llm=model, tts=voice, vad=ScriptedVAD(), options=options)
        harness = SessionHarness(Agent("Help."), model, stt=ears, tts=voice, pipeline=pipeline)
    harness.caller.says("a question", 0.5, 1.5)
    return harness.run(until=8.0)


def unheard(harness: SessionHarness) -> list[tuple[str, str]]:
    """Return the source and the text of each error of a sentence without a voice."""
    events = harness.recording.of(ErrorOccurred)
    return [(event.source, event.error.text) for event in events if isinstance(event.error, UnvoicedError)]


@pytest.mark.parametrize("emits_words", [False, True], ids=["estimated", "word_times"])
@pytest.mark.parametrize(
    ("silent", "heard"),
    [("One two.", "Three. Four five."), ("Three.", "One two. Four five."), ("Four five.", "One two. Three.")],
    ids=["first", "middle", "last"],
)
def test_a_sentence_without_a_voice_was_not_heard(silent: str, heard: str, emits_words: bool) -> None:
    harness = answered(Gaps({silent: FOREVER}, emits_words=emits_words), [0.1, "One two. Three. Four five."])
    harness.expect_outcomes("completed").expect_history(("user", "a question"), ("assistant", heard))
    turn = harness.session.turns[0]
    assert (turn.heard_text, turn.unvoiced) == (heard, (silent,))
    assert unheard(harness) == [("tts", silent)]
    assert harness.tts.texts.count(silent) == 2  # it was asked for once more
    assert [retry.attempt for retry in turn.retries] == [1]


@pytest.mark.parametrize("silent", ["One two.", "Three.", "Four five."])
def test_a_sentence_without_a_voice_that_has_one_the_second_time_is_heard(silent: str) -> None:
    text = "One two. Three. Four five."
    harness = answered(Gaps({silent: 1}), [0.1, text])
    harness.expect_outcomes("completed").expect_history(("user", "a question"), ("assistant", text))
    assert (harness.session.turns[0].unvoiced, unheard(harness)) == ((), [])


def test_an_answer_of_which_nothing_was_voiced_failed() -> None:
    harness = answered(Gaps({"One": FOREVER, "Three": FOREVER}), [0.1, "One two. Three."])
    harness.expect_outcomes("failed").expect_history(("user", "a question"))
    assert harness.session.turns[0].unvoiced == ("One two.", "Three.")
    assert [source for source, _ in unheard(harness)] == ["tts"]


def test_a_voice_that_must_not_be_tried_again_is_asked_once() -> None:
    voice = Gaps({"Three.": FOREVER})
    options = CascadingOptions(tts_retry=RetryOptions(waits=()))
    harness = answered(voice, [0.1, "One two. Three."], options=options)
    harness.expect_history(("user", "a question"), ("assistant", "One two."))
    assert voice.texts == ["One two.", "Three."]


def test_a_sentence_of_signs_alone_needs_no_voice() -> None:
    harness = answered(Gaps({"...": FOREVER}), [0.1, "One two. ... Four."])
    harness.expect_outcomes("completed")
    assert (harness.session.turns[0].unvoiced, unheard(harness)) == ((), [])


def test_a_sentence_without_a_voice_is_judged_by_what_the_filters_leave() -> None:
    options = CascadingOptions(text_filters=(EmojiFilter(),))
    harness = answered(Gaps({"Three.": FOREVER}), [0.1, "One two. 👍 Three. Four."], options=options)
    harness.expect_outcomes("completed")
    assert harness.messages[-1] == ("assistant", "One two. Four.")
    assert unheard(harness) == [("tts", "👍 Three.")]


def test_the_rest_of_an_interrupted_answer_has_no_sentence_without_a_voice() -> None:
    harness = SessionHarness(Agent("Help."), tts=Gaps({"Three.": FOREVER}))

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say("One two. Three. Four five six seven eight.")
        await harness.until(harness.now + 1.5)  # two words, and some of the last sentence
        await harness.session.interrupt()
        await speech
        assert speech.outcome == "interrupted"
        assert speech.heard_text.startswith("One two. Four five")
        assert "Three" not in speech.heard_text

    harness.run(scenario)
    assert harness.session.turns[0].unvoiced == ("Three.",)


def test_a_say_without_a_voice_is_not_heard() -> None:
    harness = SessionHarness(Agent("Help."), tts=Gaps({"One": FOREVER, "Four": FOREVER}))

    async def scenario(harness: SessionHarness) -> None:
        await (half := harness.session.say("One two. Three."))
        assert half.outcome == "completed"
        mute = harness.session.say("Four.")
        await mute
        assert (mute.outcome, mute.heard_text) == ("failed", "")
        assert isinstance(mute.exception(), UnvoicedError)

    harness.run(scenario)
    harness.expect_history(("assistant", "Three."))
    assert unheard(harness) == [("tts", "One two."), ("tts", "Four.")]
    assert [str(event.error) for event in harness.recording.of(ErrorOccurred)] == [
        "scripted: the voice gave no audio for a text of 8 characters, asked twice; the caller did not hear it",
        "scripted: the voice gave no audio for a text of 5 characters, asked twice; the caller did not hear it",
    ]


class Clerk(Agent):
    @function_tool
    async def look_up(self) -> str:
        """Look something up."""
        return "found"


def test_words_without_a_voice_before_a_tool_do_not_end_its_answer() -> None:
    call = ToolCall(call_id="c1", name="look_up", arguments="{}")
    harness = SessionHarness(Clerk("Help."), ScriptedLLM(["Let me see.", call], "It is here."), tts=Gaps({"Let": 9}))
    harness.caller.says("a question", 0.5, 1.5)
    harness.run(until=8.0)
    harness.expect_outcomes("completed").expect_tools(("look_up", "found"))
    assert harness.messages == [("user", "a question"), ("assistant", "It is here.")]
    assert harness.session.turns[0].unvoiced == ("Let me see.",)


def test_an_answer_begun_ahead_with_its_voice_tells_its_unvoiced_sentence_once_it_is_taken() -> None:
    options = SessionOptions(preemptive_tts=True)
    harness = SessionHarness(
        Agent("Help."), ScriptedLLM([0.1, "One two. Three."]), tts=Gaps({"Three.": FOREVER}), options=options
    )
    harness.preemptive = True
    harness.caller.says("a question", 0.5, 1.5)
    harness.run(until=8.0)
    harness.expect_outcomes("completed").expect_history(("user", "a question"), ("assistant", "One two."))
    assert unheard(harness) == [("tts", "Three.")]


def test_a_fallback_asks_the_next_voice_and_an_answer_goes_on_where_all_are_silent() -> None:
    first, second = Gaps({"Three.": FOREVER, "Four.": FOREVER}), Gaps({"Four.": FOREVER})
    harness = SessionHarness(Agent("Help."), tts=FallbackTTS([first, second]))

    async def scenario(harness: SessionHarness) -> None:
        speech = harness.session.say("One two. Three. Four. Five six.")
        await speech
        assert (speech.outcome, speech.heard_text) == ("completed", "One two. Three. Five six.")

    harness.run(scenario)
    assert harness.session.turns[0].unvoiced == ("Four.",)
    assert unheard(harness)[-1] == ("tts", "Four.")


def test_a_stream_with_word_times_leaves_out_the_sentence_that_has_none() -> None:
    voice = Gaps({"Three.": FOREVER}, emits_words=True, streams_text=True)
    harness = answered(voice, [0.1, "One two. ", "Three. ", "Four five."])
    harness.expect_outcomes("completed").expect_history(("user", "a question"), ("assistant", "One two. Four five."))
    assert harness.session.turns[0].unvoiced == ("Three.",)
    assert unheard(harness) == [("tts", "Three.")]


@pytest.mark.parametrize("emits_words", [False, True], ids=["whole_answer", "word_times"])
@pytest.mark.parametrize("times", [1, FOREVER])
def test_a_stream_without_a_voice_is_asked_for_once_more(times: int, emits_words: bool) -> None:
    voice = Gaps({"One two.": times}, emits_words=emits_words, streams_text=True)
    harness = answered(voice, [0.1, "One two."])
    if times == 1:
        harness.expect_outcomes("completed").expect_history(("user", "a question"), ("assistant", "One two."))
        assert unheard(harness) == []
    else:
        harness.expect_outcomes("failed").expect_history(("user", "a question"))
        assert (harness.session.turns[0].unvoiced, unheard(harness)) == (("One two.",), [("tts", "One two.")])
    assert len(voice.texts) == 2


@pytest.mark.parametrize(("times", "heard"), [(1, "One two. Three."), (FOREVER, "One two.")])
def test_a_stream_that_leaves_out_its_last_sentence_is_asked_for_that_once_more(times: int, heard: str) -> None:
    voice = Gaps({"Three.": times}, emits_words=True, streams_text=True)
    harness = answered(voice, [0.1, "One two. ", "Three."])
    harness.expect_outcomes("completed").expect_history(("user", "a question"), ("assistant", heard))


def test_a_stream_without_word_times_is_judged_as_a_whole() -> None:
    voice = Gaps({"Three.": FOREVER}, streams_text=True)
    harness = answered(voice, [0.1, "One two. ", "Three. ", "Four five."])
    harness.expect_outcomes("completed")
    assert harness.messages[-1] == ("assistant", "One two. Three. Four five.")
    assert (harness.session.turns[0].unvoiced, len(voice.texts)) == ((), 1)


class FewTimes(Gaps):
    """A stream with audio for every word, that claims word times and gives them for its first words only.

    Args:
        timed: For how many words.
    """

    def __init__(self, timed: int, silent: Mapping[str, int] | None = None) -> None:
        super().__init__(silent or {}, emits_words=True, streams_text=True)
        self._timed = timed

    async def stream(self, text: AsyncIterator[str]) -> AsyncGenerator[AudioChunk, None]:
        async for chunk in super().stream(text):
            self._timed -= len(chunk.words)
            yield chunk if self._timed >= 0 else replace(chunk, words=())


@pytest.mark.parametrize("timed", [0, 1, 2, 3, 4])
def test_audio_whose_word_times_are_missing_or_stop_early_is_heard_once(timed: int) -> None:
    voice = FewTimes(timed)
    harness = answered(voice, [0.1, "One two. Three. Four five."])
    harness.expect_outcomes("completed").expect_played((2.2, 1.0))
    assert harness.messages[-1] == ("assistant", "One two. Three. Four five.")
    assert (harness.session.turns[0].unvoiced, unheard(harness), len(voice.texts)) == ((), [], 1)


def test_the_second_try_of_a_last_sentence_is_heard_without_word_times_too() -> None:
    voice = FewTimes(2, {"Three.": 1})
    harness = answered(voice, [0.1, "One two. ", "Three."])
    harness.expect_outcomes("completed").expect_history(("user", "a question"), ("assistant", "One two. Three."))
    assert voice.texts[1:] == ["Three."]

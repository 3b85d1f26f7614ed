"""Speakers: who said which words, in the history, for the model, in events, records and snapshots."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from vivavoce.agents import Agent, CompletedTurn
from vivavoce.agents.events import TurnCompleted, UserTranscript
from vivavoce.agents.history.voices import HeardVoices
from vivavoce.agents.memory.history.stored_items import item_text, items_of
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
from vivavoce.pipelines.events import UserFinal, UserInterim
from vivavoce.pipelines.llm.chat_context import ChatContext, ChatMessage
from vivavoce.pipelines.llm.chat_items import Voice
from vivavoce.pipelines.stt.base import STTCapabilities, STTFinal, STTWord
from vivavoce.pipelines.testing import ScriptedSTT, words_at

CAN = STTCapabilities(emits_words=True, diarizes=True)


def said(at: float, *parts: tuple[str, str], **more: Any) -> STTFinal:
    """A final of several voices, which speak from `at` on at 0.2 s a word."""
    words: list[STTWord] = []
    for speaker, text in parts:
        words += words_at(words[-1].end if words else at, text, speaker=speaker)
    return STTFinal(text=" ".join(text for _, text in parts), words=tuple(words), **more)


def call(
    *finals: STTFinal,
    agent: Agent | None = None,
    resume_from: dict[str, Any] | None = None,
) -> SessionHarness:
    """A call in which the caller's side says one final in each of the periods 0.5 to 1.5, 4.5 to 5.5 … s."""
    stt = ScriptedSTT(finals, capabilities=CAN)
    llm = ScriptedLLM(*[f"Answer {number}." for number, _ in enumerate(finals, 1)], default="Fine.")
    harness = SessionHarness(agent or Agent("Help."), llm, stt=stt)
    harness.resume_from = resume_from
    for number in range(len(finals)):
        harness.caller.makes_noise(0.5 + 4.0 * number, 1.5 + 4.0 * number)
    return harness


def asked(harness: SessionHarness, number: int) -> list[str]:
    """The user's messages in the n-th request to the model."""
    return [message.content for message in harness.llm.requests[number].context.messages("user")]


def voices(harness: SessionHarness) -> list[list[tuple[str, str]]]:
    return [message.by_voice() for message in harness.session.history.messages("user")]


def test_one_speaker_stands_in_the_history_and_the_model_gets_plain_words() -> None:
    harness = call(said(0.5, ("A", "a table please")), said(4.5, ("A", "for two"))).run(until=9.0)
    assert voices(harness) == [[("A", "a table please")], [("A", "for two")]]
    assert asked(harness, 1) == ["a table please", "for two"]


def test_the_model_sees_who_said_what_as_soon_as_two_have_spoken() -> None:
    harness = call(
        said(0.5, ("A", "a table please")), said(4.5, ("A", "for two"), ("B", "no, for three"), ("A", "yes, for three"))
    ).run(until=9.0)
    assert asked(harness, 0) == ["a table please"]
    assert asked(harness, 1) == [
        "Speaker A: a table please",
        "Speaker A: for two\nSpeaker B: no, for three\nSpeaker A: yes, for three",
    ]
    messages = harness.session.history.messages("user")
    assert [message.content for message in messages] == ["a table please", "for two no, for three yes, for three"]
    assert messages[1].speakers == ("A", "B")
    assert messages[1].by_voice() == [("A", "for two"), ("B", "no, for three"), ("A", "yes, for three")]


def test_an_utterance_with_one_speaker_and_no_words_is_attributed_too() -> None:
    harness = call(STTFinal(text="a table", speaker="A"), STTFinal(text="for two", speaker="B"))
    harness.run(until=9.0)
    assert asked(harness, 1) == ["Speaker A: a table", "Speaker B: for two"]


def test_the_event_and_the_record_have_words_speakers_languages_and_confidence() -> None:
    final = said(0.5, ("A", "hola"), ("B", "a table"), languages=("en", "es"), confidence=0.75)
    harness = call(final).run(until=5.0)
    (heard,) = harness.recording.of(UserTranscript)
    expected = [("hola", 0.5, "A"), ("a", 0.7, "B"), ("table", 0.9, "B")]
    assert [(word.text, round(word.start, 3), word.speaker) for word in heard.words] == expected
    assert (heard.speaker, heard.language, heard.languages, heard.confidence) == ("", "en", ("en", "es"), 0.75)
    (turn,) = (event.record for event in harness.recording.of(TurnCompleted))
    assert [(word.text, round(word.start, 3), word.speaker) for word in turn.user_words] == expected
    assert (turn.speakers, turn.languages, turn.confidence) == (("A", "B"), ("en", "es"), 0.75)
    report = json.loads(json.dumps(harness.session.report().to_json()))
    (_, word, _) = report["turns"][0]["user_words"]
    assert {**word, "start": 0.7, "end": 0.9} == {
        "text": "a",
        "start": 0.7,
        "end": 0.9,
        "confidence": None,
        "speaker": "B",
        "language": "",
    }


def test_an_answer_begun_ahead_is_used_although_two_have_spoken() -> None:
    stt = ScriptedSTT([said(0.5, ("A", "a table"), ("B", "for two"))], capabilities=CAN, final_delay=0.1)
    harness = SessionHarness(Agent("Help."), ScriptedLLM("Yes."), stt=stt)
    harness.preemptive = True
    harness.caller.makes_noise(0.5, 1.5)
    harness.run(until=5.0)
    assert len(harness.llm.requests) == 1
    assert asked(harness, 0) == ["Speaker A: a table\nSpeaker B: for two"]
    (turn,) = (event.record for event in harness.recording.of(TurnCompleted))
    assert turn.preemptive


def test_an_edit_of_the_words_keeps_their_speakers() -> None:
    class Editing(Agent):
        async def on_user_turn_completed(self, turn: CompletedTurn) -> None:
            turn.text = turn.text.replace("four", "5").removeprefix("well ")

    harness = call(said(0.5, ("A", "well a table"), ("B", "for four please")), agent=Editing("Help.")).run(until=5.0)
    assert voices(harness) == [[("A", "a table"), ("B", "for 5 please")]]
    (turn,) = (event.record for event in harness.recording.of(TurnCompleted))
    assert (turn.user_text, turn.user_words, turn.speakers) == ("a table for 5 please", (), ("A", "B"))


def test_typed_words_have_no_speaker() -> None:
    harness = call(said(0.5, ("A", "yes please")))
    harness.caller.types("yes please", 4.0)
    harness.run(until=8.0)
    assert voices(harness) == [[("A", "yes please")], [("", "yes please")]]
    assert harness.session.history.messages("user")[1].voices == ()


def test_speakers_outlive_the_session_in_its_snapshot_and_in_a_store() -> None:
    first = call(said(0.5, ("A", "a table please"), ("B", "for two"))).run(until=4.0)
    stored = {item.id: item_text(item, images=False) for item in first.session.history.items}
    messages = [item for item in items_of(stored) if isinstance(item, ChatMessage)]
    assert messages[0].by_voice() == [("A", "a table please"), ("B", "for two")]
    snapshot = json.loads(json.dumps(first.session.snapshot()))
    kept = next(item for item in snapshot["history"]["items"] if item["type"] == "message")
    assert kept["voices"] == [{"speaker": "A", "start": 0}, {"speaker": "B", "start": 15}]
    second = call(said(0.5, ("B", "outside")), resume_from=snapshot).run(until=4.0)
    assert asked(second, 0) == ["Speaker A: a table please\nSpeaker B: for two", "Speaker B: outside"]


def test_an_older_history_is_read_and_one_voice_is_written_and_read() -> None:
    old = ChatContext([ChatMessage(role="user", content="Hi")]).to_json()
    assert "voices" not in old["items"][0]
    assert ChatContext.from_json(old).messages()[0].voices == ()
    message = ChatMessage(role="user", content="Hi you", voices=(Voice("A"), Voice("B", 3)))
    (back,) = ChatContext.from_json(json.loads(json.dumps(ChatContext([message]).to_json()))).messages()
    assert back.voices == message.voices


@pytest.mark.parametrize(
    ("voices", "place"),
    [
        ("A", "voices must be a list"),
        (["A"], r"voices\[0\] must be an object"),
        ([{"speaker": 1}], r"\.speaker must be"),
    ],
)
def test_damaged_voices_are_refused(voices: Any, place: str) -> None:
    data = ChatContext([ChatMessage(role="user", content="Hi")]).to_json()
    data["items"][0]["voices"] = voices
    with pytest.raises(Exception, match=place):
        ChatContext.from_json(data)


# --- the words that are found again


def found(heard: Sequence[UserFinal | UserInterim | str], text: str) -> list[tuple[str, str]]:
    known = HeardVoices()
    for one in heard:
        if isinstance(one, str):
            known.typed(one)
        else:
            known.heard(one)
    return ChatMessage(role="user", content=text, voices=known.in_text(text)).by_voice()


def final(*parts: tuple[str, str]) -> UserFinal:
    return UserFinal(**said(0.0, *parts).recognised())


def interim(*parts: tuple[str, str]) -> UserInterim:
    return UserInterim(**said(0.0, *parts).recognised())


@pytest.mark.parametrize(
    ("heard", "text", "expected"),
    [
        ([final(("A", "yes")), final(("B", "yes"))], "yes", [("B", "yes")]),
        ([final(("A", "one two")), interim(("B", "three"))], "one two three", [("A", "one two"), ("B", "three")]),
        ([interim(("B", "three")), final(("A", "three"))], "three", [("A", "three")]),
        ([final(("A", "one two")), final(("B", "three"))], "One, tow three!", [("A", "One, tow"), ("B", "three!")]),
        ([final(("A", "one two"))], "well one two", [("A", "well one two")]),
        ([final(("A", "one"))], "quite another text", [("", "quite another text")]),
        ([final(("A", "one")), "two"], "one two", [("A", "one"), ("", "two")]),
        (
            [final(("A", "我要一张桌子")), final(("B", "两个人"))],
            "我要一张桌子 两个人",
            [("A", "我要一张桌子"), ("B", "两个人")],
        ),
        ([UserFinal(text="one")], "one", [("", "one")]),
    ],
)
def test_the_voices_of_a_text_are_found_by_its_words(
    heard: Sequence[UserFinal | UserInterim | str], text: str, expected: list[tuple[str, str]]
) -> None:
    assert found(heard, text) == expected

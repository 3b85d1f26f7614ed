"""plugins/text_turn: its documented hits and misses, its rules one by one, and how they are replaced."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.turn_detector.base import EndOfTurnPrediction, TurnContext
from vivavoce.plugins import text_turn

EXAMPLES = (Path(text_turn.__file__).parent / "EXAMPLES.md").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Example:
    """One row of the documented list."""

    name: str
    language: str
    agent: str
    caller: str
    truth: str
    judged: str


def rows(columns: int) -> list[list[str]]:
    """Return the cells of the table with so many columns, without its head."""
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in EXAMPLES.splitlines() if line[:1] == "|"]
    return [row for row in cells if len(row) == columns and row[0] != "list" and not row[0].startswith("--")]


LIST = [Example(*row) for row in rows(6)]


async def verdict(text: str, agent_text: str = "", language: str = "en") -> EndOfTurnPrediction:
    stream = text_turn.TurnDetector().open()
    return await stream.predict(TurnContext(text=text, agent_text=agent_text, language=language))


async def is_whole(text: str, agent_text: str = "", language: str = "en") -> bool:
    return (await verdict(text, agent_text, language)).complete


@pytest.mark.parametrize("example", LIST, ids=lambda example: f"{example.language}_{example.caller}".replace(" ", "_"))
async def test_each_documented_example_is_judged_as_documented(example: Example) -> None:
    judged = "whole" if await is_whole(example.caller, example.agent, example.language) else "open"
    assert (judged if judged == example.truth else "**miss**") == example.judged


def test_the_documented_figures_are_those_of_the_list() -> None:
    def of(name: str) -> str:
        return "D" if name == "D" else "A–C"

    total = Counter((of(row.name), row.language, row.truth) for row in LIST)
    hits = Counter((of(row.name), row.language, row.truth) for row in LIST if row.judged == row.truth)
    figures = {
        (name, language, truth): cell
        for name, language, whole, unfinished in rows(4)
        for truth, cell in (("whole", whole), ("open", unfinished))
    }
    assert figures == {key: f"{hits[key]} of {count}" for key, count in total.items()}
    documented = " ".join((text_turn.__doc__ or "").split())
    after = {
        truth: [sum(c[("D", lang, truth)] for lang in ("en", "de")) for c in (hits, total)]
        for truth in ("whole", "open")
    }
    assert f"Hits and misses on {len(LIST)} turns" in documented
    assert f"On the {sum(row.name == 'D' for row in LIST)} of them" in documented
    assert "{} of {} whole turns were judged whole".format(*after["whole"]) in documented
    assert "{} of {} unfinished ones unfinished".format(*after["open"]) in documented


@pytest.mark.parametrize("text", ["I'd like a table for,", "well...", "I need three things:", "and then he —", "so…"])
async def test_punctuation_that_goes_on_leaves_the_turn_open(text: str) -> None:
    assert not await is_whole(text)


@pytest.mark.parametrize("text", ["What are you waiting for?", "Who is that from?", "is it on?", "And you?"])
async def test_a_question_mark_ends_a_turn(text: str) -> None:
    assert await is_whole(text)


async def test_a_full_stop_does_not_end_what_cannot_be_over() -> None:
    assert not await is_whole("I'd like a table for.")


async def test_capitals_and_typographic_apostrophes_make_no_difference() -> None:
    assert not await is_whole("I’D LIKE")
    assert await is_whole("THAT’S ALL")


@pytest.mark.parametrize(
    ("said", "whole"),
    [
        ("5551234", True),
        ("555-1234", True),
        ("+49 30 901820", True),
        ("double five five one two three four", True),
        ("five five five twenty one thirty four", True),
        ("five five five one two three", False),
        ("twenty one thirty four", False),
        ("I'd rather not say", True),
    ],
)
async def test_a_phone_number_is_over_with_enough_digits(said: str, whole: bool) -> None:
    assert await is_whole(said, "What's your phone number?") == whole


@pytest.mark.parametrize(
    ("said", "whole"),
    [("einundzwanzig vierunddreißig", False), ("einundzwanzig vierunddreißig fünfzehn acht", True), ("0151 234", True)],
)
async def test_german_number_words_count_their_digits(said: str, whole: bool) -> None:
    assert await is_whole(said, "Wie ist Ihre Handynummer?", "de") == whole


async def test_a_number_that_nobody_waits_for_ends_a_turn() -> None:
    assert await is_whole("at seven")
    assert await is_whole("room 305")


@pytest.mark.parametrize(
    ("said", "whole"),
    [
        ("Meyer M-E-Y", False),
        ("Meyer M-E-Y-E-R", True),
        ("Meyer m. e. y. e. r.", True),
        ("S M I T H", False),
        ("plan B", True),
    ],
)
async def test_a_spelling_is_over_when_it_spells_the_name_said_before(said: str, whole: bool) -> None:
    assert await is_whole(said, "How do you spell that?") == whole


@pytest.mark.parametrize(
    ("said", "whole"),
    [
        ("it's anna", False),
        ("anna at mail", False),
        ("anna at mail dot com", True),
        ("anna@mail.com", True),
        ("I don't have one", True),
    ],
)
async def test_an_address_is_over_with_its_domain(said: str, whole: bool) -> None:
    assert await is_whole(said, "Can I have your e-mail address?") == whole


async def test_short_answers_are_whole_only_as_answers() -> None:
    assert await is_whole("I am", "Are you the account holder?")
    assert not await is_whole("I am", "Welcome.")
    assert await is_whole("if it rains", "When would you cancel?")
    assert not await is_whole("if it rains", "Welcome.")


@pytest.mark.parametrize(("language", "word"), [("en", "I would like it to be "), ("de", "mach ruf komm und ")])
@pytest.mark.timeout(60)  # a backtracking rule would need hours
async def test_a_very_long_turn_is_judged_by_its_end(language: str, word: str) -> None:
    assert await is_whole(word * 5000 + "danke", language=language)
    assert not await is_whole(word * 5000 + "um", language=language)


async def test_nothing_said_is_no_evidence() -> None:
    assert await verdict(" … ") == EndOfTurnPrediction(True, 0.5)


async def test_the_detectors_language_counts_unless_the_turn_names_its_own() -> None:
    stream = text_turn.TurnDetector(language="de-AT").open()
    assert not (await stream.predict(TurnContext(text="ich hätte gern einen"))).complete
    assert (await stream.predict(TurnContext(text="ich hätte gern einen", language="en-GB"))).complete


async def test_a_language_without_rules_counts_as_whole() -> None:
    assert await verdict("je voudrais une", language="fr") == EndOfTurnPrediction(True, 0.5)


async def test_rules_can_be_changed_and_added() -> None:
    rules: dict[str, text_turn.Judge] = {
        "en": replace(text_turn.ENGLISH, fillers=text_turn.ENGLISH.fillers | {"innit"}),
        "fr": lambda context: 0.1 if re.search(r"\b(?:une?|pour)$", context.text) else 0.8,
    }
    stream = text_turn.TurnDetector(language="fr", rules=rules).open()
    assert await stream.predict(TurnContext(text="je voudrais une")) == EndOfTurnPrediction(False, 0.1)
    assert await stream.predict(TurnContext(text="une table")) == EndOfTurnPrediction(True, 0.8)
    assert not (await stream.predict(TurnContext(text="it's cold innit", language="en"))).complete
    assert not (await stream.predict(TurnContext(text="einen", language="de"))).complete


async def test_the_threshold_moves_the_verdict_but_not_the_probability() -> None:
    strict = text_turn.TurnDetector(threshold=0.95).open()
    judged = await strict.predict(TurnContext(text="a table for two"))
    assert not judged.complete
    assert judged.probability == (await verdict("a table for two")).probability


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"language must be one of \['de', 'en'\], got 'fr'"):
        text_turn.TurnDetector(language="fr")
    with pytest.raises(ConfigurationError, match="need 0 < threshold < 1, got 0"):
        text_turn.TurnDetector(threshold=0)

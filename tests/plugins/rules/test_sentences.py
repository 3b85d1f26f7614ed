"""Free sentences, as a recogniser for any English sentence writes them, and the values that a slot filling gets."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.llm.chat_context import ChatMessage
from vivavoce.plugins import rules
from vivavoce.plugins.rules.state import replay

DRINK = rules.Slot(name="drink", parser=rules.choice("water", "green tea", "St. Émilion"), ask="What will you drink?")
DAY = rules.Slot(name="day", parser=rules.days(), ask="For which day?")
TIME = rules.Slot(name="time", parser=rules.times(), ask="At what time?")
PEOPLE = rules.Slot(name="people", parser=rules.party_sizes(), ask="For how many people?")
NAME = rules.Slot(name="name", parser=rules.names(), ask="What name is it?")
SLOTS = (DRINK, DAY, TIME, PEOPLE, NAME)
TALK = rules.SlotFilling(slots=SLOTS, done="Noted.")


def values(*sentences: str, asked: rules.Slot = DRINK) -> dict[str, rules.Value]:
    """Return the values after the sentences; the first one answers the question of the slot `asked`."""
    slots = (asked, *(slot for slot in SLOTS if slot is not asked))
    items = [ChatMessage(role="user", content=sentence) for sentence in sentences]
    return replay(replace(TALK, slots=slots), items).values


TIMES = [
    ("7:30 PM.", "19:30"),
    ("7:30 p.m., please.", "19:30"),
    ("At 7.30pm.", "19:30"),
    ("730 p.m.", "19:30"),
    ("At 1930.", "19:30"),
    ("7 PM", "19:00"),
    ("7pm.", "19:00"),
    ("7 a.m.", "07:00"),
    ("Seven thirty.", "19:30"),
    ("Seven-thirty, please.", "19:30"),
    ("7 30", "19:30"),
    ("Let's say seven twenty.", "19:20"),
    ("At seven twenty-five.", "19:25"),
    ("Seven oh five.", "19:05"),
    ("Eight ten.", "20:10"),
    ("Half past seven.", "19:30"),
    ("Half seven would be great.", "19:30"),
    ("Quarter to eight.", "19:45"),
    ("A quarter to eight.", "19:45"),
    ("A quarter past eight", "20:15"),
    ("Quarter two eight.", "19:45"),
    ("A quarter pass seven.", "19:15"),
    ("Add 8.", "20:00"),
    ("Five to eight.", "19:55"),
    ("Twenty-five past six.", "18:25"),
    ("Twenty minutes past six.", "18:20"),
    ("Ten to one.", "12:50"),
    ("7 o'clock.", "19:00"),
    ("Seven o’clock in the evening.", "19:00"),
    ("Seven oclock", "19:00"),
    ("Nine o'clock in the morning.", "09:00"),
    ("Tomorrow evening at eight.", "20:00"),
    ("Tomorrow morning at 9.", "09:00"),
    ("On Saturday morning, for four people, at ten.", "10:00"),
    ("At ten on Friday morning.", "10:00"),
    ("Tonight at nine.", "21:00"),
    ("At two in the afternoon.", "14:00"),
    ("Good morning, could I have a table at eight?", "20:00"),
    ("Nineteen thirty.", "19:30"),
    ("At nineteen hundred hours.", "19:00"),
    ("Around eight, I think.", "20:00"),
    ("At about half past six.", "18:30"),
    ("We would like to come at 8.", "20:00"),
    ("The time should be nine.", "21:00"),
    ("At ate.", "20:00"),
    ("Half past ate.", "20:30"),
    ("Ate o'clock, please.", "20:00"),
    ("At to o'clock.", "14:00"),
    ("At noon.", "12:00"),
    ("12 noon", "12:00"),
    ("Midnight!", "00:00"),
    ("Twelve thirty", "12:30"),
]


@pytest.mark.parametrize(("sentence", "time"), TIMES)
def test_a_time_is_understood_in_any_question(sentence: str, time: str) -> None:
    assert values(sentence).get("time") == time
    assert values(sentence, asked=TIME).get("time") == time


DAYS = [
    ("On Friday.", "friday"),
    ("Friday's fine.", "friday"),
    ("Good. Friday, then.", "friday"),
    ("Next Friday, please.", "next friday"),
    ("This Saturday.", "saturday"),
    ("Tomorrow evening at eight.", "tomorrow"),
    ("The day after tomorrow.", "day after tomorrow"),
    ("Day after tomorrow.", "day after tomorrow"),
    ("Tonight.", "today"),
    ("This evening, if you can.", "today"),
    ("The 3rd of May.", "may 3rd"),
    ("the third of may", "may 3rd"),
    ("May 3rd.", "may 3rd"),
    ("May the third at noon.", "may 3rd"),
    ("On the twenty-first of June", "june 21st"),
    ("June twenty one", "june 21st"),
    ("12 December", "december 12th"),
    ("December 22, 2027.", "december 22nd 2027"),
    ("Friday, the 3rd of May.", "friday may 3rd"),
    ("On Friday the third", "friday the 3rd"),
    ("On the 23rd, please.", "the 23rd"),
    ("The first Friday in May.", "first friday in may"),
    ("In two weeks.", "in two weeks"),
    ("Next month, on the first.", "the 1st of next month"),
    ("On the third of next month, please.", "the 3rd of next month"),
    ("A week on Tuesday.", "a week from tuesday"),
    ("Friday next week", "friday next week"),
    ("Christmas Eve.", "christmas eve"),
]


@pytest.mark.parametrize(("sentence", "day"), DAYS)
def test_a_day_is_understood_in_any_question(sentence: str, day: str) -> None:
    assert values(sentence).get("day") == day
    assert values(sentence, asked=DAY).get("day") == day


SIZES = [
    ("Four people.", 4),
    ("4 people, please", 4),
    ("For four.", 4),
    ("We're five.", 5),
    ("We'll be six.", 6),
    ("There will be three of us.", 3),
    ("There are going to be eight of us", 8),
    ("The two of us.", 2),
    ("Just the two of us.", 2),
    ("Both of us.", 2),
    ("A couple.", 2),
    ("A couple of people", 2),
    ("A table for my husband and me.", 2),
    ("There'll be eight adults, three kids.", 11),
    ("Me and two friends", 3),
    ("A dozen people", 12),
    ("Half a dozen guests", 6),
    ("Just me.", 1),
    ("It's only one person.", 1),
    ("Two adults and two children.", 4),
    ("Two adults, one child and a baby", 4),
    ("A table for four on Friday.", 4),
    ("A party of twenty.", 20),
    ("Twelve adults.", 12),
    ("For people.", 4),
    ("A table for to, please.", 2),
    ("A table for too.", 2),
    ("For to people.", 2),
    ("We are to people.", 2),
    ("A table four four.", 4),
    ("For for people.", 4),
    ("For ate people.", 8),
    ("Ate of us.", 8),
]


@pytest.mark.parametrize(("sentence", "size"), SIZES)
def test_a_party_size_is_understood_in_any_question(sentence: str, size: int) -> None:
    assert values(sentence).get("people") == size
    assert values(sentence, asked=PEOPLE).get("people") == size


SAID_NAMES = [
    ("The name's Bond. James Bond.", "James Bond"),
    ("My name is Anna Smith.", "Anna Smith"),
    ("my name's anna smith", "Anna Smith"),
    ("The name is O'Neill.", "O'Neill"),
    ("Please put it under the name of Miller.", "Miller"),
    ("Under Miller, please.", "Miller"),
    ("In the name of McDonald", "McDonald"),
    ("You can call me Ada.", "Ada"),
    ("My name is Zoë Müller and I would like a table.", "Zoë Müller"),
    ("My last name is Meyer, M-A-I-E-R.", "Maier"),
]


@pytest.mark.parametrize(("sentence", "name"), SAID_NAMES)
def test_a_name_that_is_said_to_be_one_is_understood_in_any_question(sentence: str, name: str) -> None:
    assert values(sentence).get("name") == name
    assert values(sentence, asked=NAME).get("name") == name


@pytest.mark.parametrize(
    ("sentence", "name"),
    [
        ("Anna Smith.", "Anna Smith"),
        ("Anna.", "Anna"),
        ("Um, Smith, please.", "Smith"),
        ("It's for Miller.", "Miller"),
        ("This is Anna Smith speaking.", "Anna Smith"),
        ("I'm Ada Lovelace.", "Ada Lovelace"),
        ("Yes, it's Hannah.", "Hannah"),
        ("April May", "April May"),
        ("May Jones.", "May Jones"),
        ("It's John. John Smith.", "John Smith"),
        ("Well, this is John from London.", "John"),
        ("Will Turner", "Will Turner"),
        ("Mr. and Mrs. Brown", "Mr And Mrs Brown"),
        ("Yes, of course. Anna Schmidt.", "Anna Schmidt"),
        ("Smith, S-M-Y-T-H", "Smyth"),
        ("Jay Smith.", "Jay Smith"),
        ("M-I-L-L-E-R", "Miller"),
        ("Anna, no, Hannah Smith", "Hannah Smith"),
    ],
)
def test_the_question_for_a_name_takes_a_name_alone(sentence: str, name: str) -> None:
    assert values(sentence, asked=NAME).get("name") == name
    assert "name" not in values(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        *("Yes.", "No, thank you.", "I don't know.", "What was that?", "Say that again, please.", "Sorry?", "Hello?"),
        *(
            "I'm hungry.",
            "I'm calling about a table.",
            "This is ridiculous.",
            "On Friday.",
            "For four people.",
            "Five.",
        ),
        *("It's for tonight.", "Just a moment.", "That would be great.", "My name is difficult to spell.", "At eight."),
        "It is for my wife.",
    ],
)
def test_what_is_no_name_is_not_taken_for_one(sentence: str) -> None:
    assert "name" not in values(sentence, asked=NAME)


QUESTIONS = {"day": DAY, "time": TIME, "people": PEOPLE, "drink": DRINK, "name": NAME}


@pytest.mark.parametrize(
    ("asked", "sentence", "expected"),
    [
        ("people", "Five.", {"people": 5}),
        ("people", "My wife and I.", {"people": 2}),
        ("people", "Five-ish.", {"people": 5}),
        ("people", "Four plus one.", {"people": 5}),
        ("people", "Five plus me.", {"people": 6}),
        ("time", "Change it from seven to eight.", {"time": "20:00"}),
        ("people", "Not four, five.", {"people": 5}),
        ("people", "Fourteen. Sorry, forty. No, fifteen.", {"people": 15}),
        ("time", "Seven for two.", {"time": "19:00", "people": 2}),
        ("time", "Five.", {"time": "17:00"}),
        ("day", "Five.", {}),
        ("people", "Around eight.", {"people": 8}),
        ("time", "Around eight.", {"time": "20:00"}),
        ("time", "For eight, please.", {"time": "20:00"}),
        ("people", "For eight, please.", {"people": 8}),
        ("time", "A table for eight at nine.", {"time": "21:00", "people": 8}),
        ("people", "At eight.", {"time": "20:00"}),
        ("people", "For.", {"people": 4}),
        ("people", "To.", {"people": 2}),
        ("people", "Ate.", {"people": 8}),
        ("time", "Ate.", {"time": "20:00"}),
        ("people", "At seven, and we are four.", {"time": "19:00", "people": 4}),
        ("people", "We come at seven, and there'll be, um, four.", {"time": "19:00", "people": 4}),
        ("day", "the third", {"day": "the 3rd"}),
        ("people", "seven or eight", {}),
        ("people", "five, five", {"people": 5}),
        ("time", "730", {"time": "19:30"}),
        ("drink", "St Émilion", {"drink": "st. émilion"}),
        ("drink", "Green-tea, please!", {"drink": "green tea"}),
        ("drink", "for two", {"people": 2}),
        ("drink", "for two at six", {"people": 2, "time": "18:00"}),
    ],
)
def test_a_value_that_two_slots_may_take_goes_to_the_open_question(
    asked: str, sentence: str, expected: dict[str, rules.Value]
) -> None:
    assert values(sentence, asked=QUESTIONS[asked]) == expected


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        ("people", "Seven or eight people."),
        ("people", "Between five and eight."),
        ("people", "Six, maybe seven."),
        ("people", "Fourteen. Sorry, forty."),
        ("people", "Two couples."),
        ("people", "Table seven."),
        ("people", "Two to three people."),
        ("people", "A hundred people."),
        ("people", "Fifty of us"),
        ("people", "A couple of minutes, please."),
        ("people", "I have a couple of questions."),
        ("people", "One moment, please."),
        ("people", "One more thing."),
        ("people", "No one else."),
        ("people", "Two more people."),
        ("people", "Another two people."),
        ("people", "My number is 555-0100."),
        ("people", "Five five five oh one."),
        ("people", "In twenty minutes."),
        ("people", "For two hours."),
        ("people", "With four friends."),
        ("people", "Is it for people with dogs?"),
        ("people", "You are so nice to people."),
        ("people", "I ate at home."),
        ("people", "2.5"),
        ("time", "Between seven and eight."),
        ("time", "From seven to eight."),
        ("time", "At seven or eight."),
        ("time", "In two hours."),
        ("time", "Seven, or if that's not possible, eight."),
        ("time", "In the evening."),
        ("time", "At 25:70."),
        ("time", "Give me five minutes."),
        ("time", "I'd like to, too."),
        ("day", "Friday or Saturday."),
        ("day", "We may come."),
        ("day", "Friday and Saturday."),
        ("day", "Neither Friday nor Saturday."),
        ("day", "Any day but Friday."),
        ("day", "Monday to Friday."),
        ("day", "What day is it today?"),
        ("day", "We may need four chairs."),
        ("day", "Wait a second."),
        ("day", "The second table, please."),
        ("day", "How are you today?"),
        ("day", "I was there last Friday."),
        ("day", "May 32nd."),
        ("day", "The thirtieth of February"),
        ("day", "One day."),
        ("day", "Not on Friday."),
        ("day", "I can't do Friday."),
        ("day", "Friday doesn't work for me."),
        ("drink", "Four, please."),
        ("drink", "This is Anna."),
        ("drink", "No."),
    ],
)
def test_what_is_uncertain_or_no_value_is_not_taken_for_one(asked: str, sentence: str) -> None:
    assert values(sentence, asked=QUESTIONS[asked]) == {}


CORRECTIONS = [
    ("For four, no, five people.", {"people": 5}),
    ("For four — no, five.", {"people": 5}),
    ("Friday — sorry, Saturday.", {"day": "saturday"}),
    ("At seven, actually make it eight.", {"time": "20:00"}),
    ("At seven, no wait, half past.", {"time": "19:30"}),
    ("At seven. No, wait. Eight.", {"time": "20:00"}),
    ("Not Friday but Saturday.", {"day": "saturday"}),
    ("Not at seven but eight.", {"time": "20:00"}),
    ("Not for two but three.", {"people": 3}),
    ("Friday, I mean Saturday.", {"day": "saturday"}),
    ("Saturday rather than Friday.", {"day": "saturday"}),
    ("Saturday instead of Friday.", {"day": "saturday"}),
    ("I can't do Friday, but Saturday would work.", {"day": "saturday"}),
    ("Friday is no good, let's say Saturday.", {"day": "saturday"}),
    ("Friday, or rather Saturday.", {"day": "saturday"}),
    ("Friday or Saturday, let's say Saturday.", {"day": "saturday"}),
    ("For four at seven, sorry, eight.", {"people": 4, "time": "20:00"}),
    ("At seven for four, sorry, five.", {"people": 5, "time": "19:00"}),
    ("At seven on Friday, no, eight.", {"day": "friday", "time": "20:00"}),
    ("At seven, no, five people.", {"people": 5, "time": "19:00"}),
    ("On Friday at seven. Sorry, I meant Saturday at eight.", {"day": "saturday", "time": "20:00"}),
    ("May 3rd, no, May 4th.", {"day": "may 4th"}),
    ("At seven thirty, actually eight.", {"time": "20:00"}),
    ("A quarter to eight. Hold on, a quarter past eight.", {"time": "20:15"}),
    ("A table for two, scratch that, three, tomorrow at six.", {"people": 3, "day": "tomorrow", "time": "18:00"}),
    ("Tomorrow morning at nine, no, at ten.", {"day": "tomorrow", "time": "10:00"}),
    ("At 7:30 a.m. I mean p.m.", {"time": "19:30"}),
    ("Seven in the morning, no, in the evening.", {"time": "19:00"}),
    ("Tomorrow at seven. No, the day after.", {"day": "day after tomorrow", "time": "19:00"}),
    ("It was Friday, change it to Saturday.", {"day": "saturday"}),
    ("Move it from Friday to Saturday.", {"day": "saturday"}),
    ("Change it from four to five people.", {"people": 5}),
    ("Friday, unless Saturday is free.", {"day": "friday"}),
    ("7 a.m. Sorry, 8.", {"time": "08:00"}),
    ("At 7 a.m., no, at 7 p.m.", {"time": "19:00"}),
    ("My name is Anna, sorry, Hannah Smith.", {"name": "Hannah Smith"}),
    ("My name is not Miller, it's Muller.", {"name": "Muller"}),
    ("Water. No, green tea.", {"drink": "green tea"}),
    ("For for, no, for five.", {"people": 5}),
]


@pytest.mark.parametrize(("sentence", "expected"), CORRECTIONS)
@pytest.mark.parametrize("asked", ["drink", "day"])
def test_a_correction_inside_a_sentence_counts(sentence: str, expected: dict[str, rules.Value], asked: str) -> None:
    assert values(sentence, asked=QUESTIONS[asked]) == expected


def test_a_correction_inside_a_sentence_is_not_taken_for_the_answer_to_the_question() -> None:
    assert values("At seven, no, eight.", asked=PEOPLE) == {"time": "20:00"}
    assert values("Five, no, six.", asked=PEOPLE) == {"people": 6}


@pytest.mark.parametrize(
    ("sentences", "expected"),
    [
        (("Four people.", "Can we make that six people instead?"), {"people": 6}),
        (("Four people.", "Make it six."), {"people": 6}),
        (("Four people.", "No, six."), {"people": 6}),
        (("Four people at seven.", "Could you change the time to eight?"), {"people": 4, "time": "20:00"}),
        (("Four people at seven.", "Make it eight."), {"people": 4, "time": "19:00"}),
        (("Four people at seven.", "No, on Friday."), {"people": 4, "time": "19:00", "day": "friday"}),
        (("On Friday.", "Not on Friday."), {}),
        (("On Friday.", "Sorry, I can't do Friday."), {}),
        (("On Friday.", "Not on Friday, and we are four."), {"people": 4}),
        (("On Friday.", "Not on Saturday."), {"day": "friday"}),
        (("On Friday.", "Friday, not Saturday."), {"day": "friday"}),
        (("On Friday at seven.", "The time is wrong."), {"day": "friday"}),
        (("On Friday at seven.", "The day, please."), {"time": "19:00"}),
        (("On Friday at seven.", "What time is it now?"), {"day": "friday", "time": "19:00"}),
        (("On Friday.", "Yes."), {"day": "friday"}),
        (("My name is Anna.", "Actually, the name is Hannah."), {"name": "Hannah"}),
        (("Four people.", "My wife and I are looking forward to it."), {"people": 4}),
        (("Four people.", "No, make it forty people."), {"people": 4}),
        (("Four people.", "We'll be five after all."), {"people": 5}),
    ],
)
def test_a_correction_later_in_the_call_counts(sentences: tuple[str, ...], expected: dict[str, rules.Value]) -> None:
    assert values(*sentences) == expected


def test_no_and_a_number_corrects_the_value_just_given_and_a_number_alone_answers_the_question() -> None:
    talk = replace(TALK, slots=(TIME, PEOPLE))
    said = [ChatMessage(role="user", content=text) for text in ("At seven.", "No, eight.", "Five.")]
    assert replay(talk, said[:2]).values == {"time": "20:00"}
    assert replay(talk, said).values == {"time": "20:00", "people": 5}


MARKERS = st.sampled_from(
    [", no, ", " — sorry, ", ". Actually, make it ", ", I mean ", ". No wait, ", ", or rather ", ", scratch that, "]
)
PART_OF_DAY = re.compile(r"morning|afternoon|evening|night|[ap]\.?m", re.IGNORECASE)
KINDS: list[tuple[rules.Slot, list[tuple[str, rules.Value]]]] = [
    (TIME, [row for row in TIMES if not (PART_OF_DAY.search(row[0]) or "ate" in row[0].lower())]),
    (DAY, [*DAYS]),
    (PEOPLE, [*SIZES[: [row[0] for row in SIZES].index("For people.")]]),
    (NAME, [*SAID_NAMES]),
]
"""Sentences with one value each, none misheard. A part of the day goes on for a corrected time, so no time has one."""
ONE_SLOT = st.sampled_from(KINDS)


@given(data=st.data(), marker=MARKERS, kind=ONE_SLOT)
def test_a_corrected_sentence_has_the_value_of_its_last_part(
    data: st.DataObject, marker: str, kind: tuple[rules.Slot, list[tuple[str, rules.Value]]]
) -> None:
    slot, table = kind
    first, last = (data.draw(st.sampled_from(table)) for _ in range(2))
    assert corrected(first[0], marker, last[0], slot) == last[1]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[0].name)
def test_each_sentence_corrects_each_other_one(kind: tuple[rules.Slot, list[tuple[str, rules.Value]]]) -> None:
    slot, table = kind
    pairs = [(first, last) for first in table for last in table]
    wrong = [(first[0], last[0]) for first, last in pairs if corrected(first[0], " - no, ", last[0], slot) != last[1]]
    assert wrong == []


def corrected(first: str, marker: str, last: str, slot: rules.Slot) -> rules.Value | None:
    """Return the value of a sentence that corrects itself."""
    return values(f"{first.strip('.!')}{marker}{last}", asked=slot).get(slot.name)


SENTENCES = st.sampled_from(
    [*(row[0] for row in TIMES + DAYS + SAID_NAMES), *(row[0] for row in SIZES), *(row[0] for row in CORRECTIONS)]
)


@given(sentence=SENTENCES, change=st.sampled_from([str.upper, str.lower, str.title, str.swapcase]))
def test_capitals_do_not_matter(sentence: str, change: Callable[[str], str]) -> None:
    assert values(change(sentence)) == values(sentence)


@given(data=st.data(), sentence=SENTENCES)
def test_punctuation_between_words_does_not_matter(data: st.DataObject, sentence: str) -> None:
    words = sentence.replace("-", " ").replace("—", " ").split()
    marks = st.sampled_from([" ", ", ", "... ", " — ", "; ", "! ", "  ", "? "])
    punctuated = "".join(word.rstrip(".,!?;") + data.draw(marks) for word in words)
    assert values(punctuated) == values(sentence)

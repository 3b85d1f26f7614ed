"""The page's list of words and calls, in a real browser: every tool call is at the place where it happened."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kit.page.browser import ModulesPage, page_for_modules

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

DRIVER = """
async (steps) => {
    const { Captions } = await import('/captions.js');
    const frame = document.createElement('div'), list = document.createElement('ol');
    frame.append(list);
    document.body.append(frame);
    const captions = new Captions(list);
    let now = 0;
    performance.now = () => now;
    for (const [at, what, ...given] of steps) {
        now = 1000 * at;
        if (what === 'record') captions.tools(given[0]);
        else captions.transcription({ id: given[0], text: given[0], isDone: true, attributes: {} }, what, what);
    }
    return [...list.children].map((entry) => entry.querySelector('.words, .call').textContent);
}
"""


VOICES = """
async (steps) => {
    const { Captions } = await import('/captions.js');
    const frame = document.createElement('div'), list = document.createElement('ol');
    frame.append(list);
    document.body.append(frame);
    const captions = new Captions(list);
    for (const [id, text, speakers] of steps) {
        const attributes = { 'lk.segment_id': id, ...(speakers ? { 'vivavoce.speakers': speakers } : {}) };
        captions.transcription({ id, text, isDone: true, attributes }, 'user', 'You');
    }
    return [...list.children].map((entry) => entry.querySelector('.who').textContent);
}
"""


@pytest.fixture(scope="module")
def page() -> Iterator[ModulesPage]:
    with page_for_modules() as page:
        yield page


def record(
    at: float, heard: str, *tools: tuple[str, float, float], late: float = 0.0, session: float = 1.0
) -> list[Any]:
    """A turn record that comes at its turn's end, or `late` seconds after it.

    Args:
        tools: Name, start and seconds of each call.
        session: The second in which the session began.
    """
    calls = [
        {
            "name": name,
            "arguments": "{}",
            "output": "",
            "is_error": False,
            "started_at": start - session,
            "seconds": seconds,
        }
        for name, start, seconds in tools
    ]
    return [at, "record", {"tools": calls, "heard_text": heard, "ended_at": at - late - session}]


def shown(page: ModulesPage, *steps: list[Any]) -> list[str]:
    return list(page.evaluate(DRIVER, list(steps)))


def test_a_call_stands_before_the_words_that_the_caller_said_before_the_answer_was_over(page: ModulesPage) -> None:
    assert shown(
        page,
        [2.0, "user", "book at seven"],
        [3.5, "agent", "Your table is"],
        [5.0, "user", "no at eight"],
        record(5.1, "Your table is", ("book", 2.6, 0.1)),
    ) == ["book at seven", "book()", "Your table is", "no at eight"]


def test_a_call_whose_answer_has_words_before_it_stands_between_both(page: ModulesPage) -> None:
    assert shown(
        page,
        [2.0, "user", "book at seven"],
        [2.8, "agent", "One moment."],
        [6.0, "agent", "It is booked."],
        [7.0, "user", "thank you"],
        record(7.1, "One moment. It is booked.", ("book", 2.6, 0.1)),
    ) == ["book at seven", "One moment.", "book()", "It is booked.", "thank you"]


def test_a_call_stands_before_what_the_caller_said_while_it_ran_also_where_no_words_are_in_the_record(
    page: ModulesPage,
) -> None:
    assert shown(
        page,
        [2.0, "user", "book at seven"],
        [2.8, "agent", "One moment."],
        [4.0, "user", "hello"],
        [7.0, "agent", "It is booked."],
        record(9.0, "", ("book", 2.6, 4.0)),
    ) == ["book at seven", "One moment.", "book()", "hello", "It is booked."]


def test_calls_of_one_turn_keep_their_order(page: ModulesPage) -> None:
    assert shown(
        page,
        [2.0, "user", "book at seven"],
        [6.0, "agent", "It is booked."],
        record(8.0, "It is booked.", ("look", 2.6, 0.2), ("check", 2.6, 0.1), ("book", 4.0, 0.5)),
        [9.0, "user", "and a taxi"],
        record(12.0, "", ("taxi", 10.0, 1.0)),
    ) == ["book at seven", "look()", "check()", "book()", "It is booked.", "and a taxi", "taxi()"]


def test_a_call_stands_before_its_answer_also_where_the_record_is_late(page: ModulesPage) -> None:
    assert shown(
        page,
        [1.5, "agent", "For which day?"],
        record(2.5, "For which day?"),
        [3.0, "user", "book at seven"],
        [4.0, "agent", "It is booked."],
        record(7.0, "It is booked.", ("book", 3.6, 0.1), late=1.0),
    ) == ["For which day?", "book at seven", "book()", "It is booked."]


def test_a_call_of_another_session_stands_at_its_place_by_the_time_of_that_session(page: ModulesPage) -> None:
    assert shown(
        page,
        [1.5, "agent", "For which day?"],
        record(2.5, "For which day?"),
        [22.0, "user", "book at seven"],
        [23.0, "agent", "It is booked."],
        record(25.0, "It is booked.", ("book", 22.6, 0.1), session=20.0),
    ) == ["For which day?", "book at seven", "book()", "It is booked."]


def test_speakers_stand_beside_their_words_as_soon_as_there_are_two(page: ModulesPage) -> None:
    steps = [["1", "a table", "A"], ["2", "for", "B"], ["2", "for two no three", "B, A"], ["3", "yes", ""]]
    assert page.evaluate(VOICES, steps) == ["You", "You · speaker B, A", "You"]

"""The page's Markdown: hostile texts of the greatest length are shown in time; ordinary ones as they were before."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kit.limits import LIMIT
from kit.page.browser import ModulesPage, page_for_modules
from vivavoce.agents.replies.part import MAX_TEXT

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

LINE = "\u2028"
"""Ends a line for a dot in a pattern, but none of ours."""
LENGTH = MAX_TEXT - 10
HOSTILE = {
    "heading": "#" + " " * LENGTH + LINE,
    "end of a heading": "# " + " #" * (LENGTH // 2) + "x",
    "item": "-" + " " * LENGTH + LINE,
    "fence": "```" + " " * LENGTH + "!",
    "rule": "- " * (LENGTH // 2) + "x",
    "addresses": ("http://" + "!" * 1900 + "x ") * (LENGTH // 1909),
    "marks": "*a _b ~~c `d " * (LENGTH // 13),
    "brackets": "[" * (LENGTH // 2) + "[](" * (LENGTH // 6),
}
"""Texts that a pattern may search again and again."""
LONG = {
    "lines": "a\n" * (LENGTH // 2),
    "paragraphs": "a\n\n" * (LENGTH // 3),
    "items": "- a\n" * (LENGTH // 4),
    "quotes": "> " * 100 + "a\n" * (LENGTH // 4),
}
"""Texts with as many elements as there can be."""
BLOCKS = [
    ("##  Menu ##  ", "<h4>Menu</h4>"),
    ("#no heading", "<p>#no heading</p>"),
    ("# #", "<h3></h3>"),
    ("``` python\na\n```\nb", "<pre><code>a</code></pre><p>b</p>"),
    ("````\n```\n`````", "<pre><code>```</code></pre>"),
    ("``` a b", "<p>``` a b</p>"),
    ("2) two\n3) three", '<ol start="2"><li>two</li><li>three</li></ol>'),
    ("- one\n  - **two**", "<ul><li>one<ul><li><strong>two</strong></li></ul></li></ul>"),
    ("- - -", "<hr>"),
    ("``a`b``", "<p><code>a`b</code></p>"),
]
TIME = """
async (text) => {
    const { markdown } = await import('/markdown.js');
    const from = performance.now();
    const shown = document.createElement('div');
    shown.append(...markdown(text));
    return (performance.now() - from) / 1000;
}
"""
HTML = """
async (text) => {
    const { markdown } = await import('/markdown.js');
    const shown = document.createElement('div');
    shown.append(...markdown(text));
    return shown.innerHTML;
}
"""


@pytest.fixture(scope="module")
def page() -> Iterator[ModulesPage]:
    with page_for_modules() as page:
        yield page


def seconds_of_hostile_texts(page: ModulesPage) -> dict[str, float]:
    seconds: dict[str, float] = {}
    for name, text in HOSTILE.items():
        try:
            seconds[name] = page.evaluate(TIME, text, limit=LIMIT)
        except TimeoutError:
            pytest.fail(f"{name} takes more than {LIMIT:.0f} s")
    return seconds


def test_every_hostile_text_of_a_part_is_shown(page: ModulesPage) -> None:
    assert set(seconds_of_hostile_texts(page)) == set(HOSTILE)


@pytest.mark.test_all("its seconds are judged")
def test_no_text_of_a_part_holds_the_page_up(page: ModulesPage) -> None:
    slow = {name: seconds for name, seconds in seconds_of_hostile_texts(page).items() if seconds > 4.0}
    assert slow == {}  # they take some milliseconds


def test_a_text_of_many_elements_is_shown(page: ModulesPage) -> None:
    for text in LONG.values():
        page.evaluate(TIME, text)


def test_blocks_begin_and_end_where_they_should(page: ModulesPage) -> None:
    assert [(text, page.evaluate(HTML, text)) for text, _ in BLOCKS] == BLOCKS

"""Passage: a part of a document. `passages_of` cuts a text into passages of whole sentences."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from vivavoce.pipelines.tts.sentences import SentenceCutter, SentenceOptions

LENGTH = 600
"""Characters of a passage at most: about as much as a caller is told at once. A longer sentence is cut."""

_HEADING = re.compile(r"^#{1,6}[ \t]+(.+?)[ \t#]*$")
_BLANK_LINES = re.compile(r"\n\s*\n")


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage that a search has found.

    Args:
        text: Whole sentences, behind the heading that they stand under.
        score: How well it fits. For words alone: the share of the query's words that it has, 0 … 1, where a rare word
            counts more than a frequent one. With an embedder: the cosine of both vectors, and up to 0.1 for the words.
        source: As it was added.
        metadata: As it was added.
    """

    text: str
    score: float
    source: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


def passages_of(text: str, *, has_headings: bool = False) -> list[str]:
    """Return the passages of a text, in its order.

    Args:
        has_headings: Whether a line behind `#` is a heading, as in Markdown: no passage reaches over one, and each
            begins with the one that it stands under.
    """
    text = text.replace("\r\n", "\n").replace("\r", "\n").replace("\0", " ")
    found: list[str] = []
    for heading, body in _sections(text) if has_headings else (("", text),):
        room = max(LENGTH - len(heading), LENGTH // 2)
        texts = list(_joined(_sentences(body, room), room))
        found += [f"{heading}\n{part}" if heading else part for part in texts]
    return found


def _sections(text: str) -> Iterator[tuple[str, str]]:
    """Yield each heading with the text below it; a section without text is left out."""
    heading, lines = "", list[str]()
    for line in text.split("\n"):
        if (found := _HEADING.match(line)) is None:
            lines.append(line)
            continue
        yield heading, "\n".join(lines)
        heading, lines = found[1][: LENGTH // 2], []
    yield heading, "\n".join(lines)


def _sentences(text: str, longest: int) -> Iterator[str]:
    options = SentenceOptions(max_first_length=longest, max_length=longest)
    for paragraph in _BLANK_LINES.split(text):
        cutter = SentenceCutter(options)
        lines = " ".join(paragraph.split("\n")) if not _has_structure(paragraph) else paragraph
        yield from (sentence for sentence in (*cutter.push(lines), *cutter.finish()) if sentence.strip())


def _has_structure(paragraph: str) -> bool:
    return re.search(r"^\s*(?:[-+*•|]|\d{1,3}[.)]\s)", paragraph, re.M) is not None


def _joined(sentences: Iterator[str], longest: int) -> Iterator[str]:
    """Yield as many sentences together as fit."""
    passage = ""
    for sentence in sentences:
        sentence = sentence.strip()
        if passage and len(passage) + 1 + len(sentence) > longest:
            yield passage
            passage = ""
        passage = f"{passage} {sentence}" if passage else sentence
    if passage:
        yield passage

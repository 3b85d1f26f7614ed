"""MarkdownFilter: the spoken form of Markdown, sentence by sentence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Literal

from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_MARKED = re.compile(r"[*_`~\[\]|<&\\]|^\s*(?:#{1,6}\s|>|[-+•]\s|\d{1,9}[.)]\s|[-=]{3,})", re.MULTILINE)
_ROW_RULE = re.compile(r"[\s|:-]*-[\s|:-]*$")
_CELL = re.compile(r"(?<!\\)\|")
_LEFT_OVER = re.compile(
    r"\*\*+|__+(?!\w)|(?<!\w)__+|~~+|`+"  # marks whose other half is in another sentence
    r"|(?<![\w*])\*(?=\w)|(?<=[^\W\d])\*(?!\w)|(?<=[.!?,])\*(?!\w)|(?<!\w)_(?=\w)|(?<=\w)_(?!\w)"
)

_TAGS = frozenset(
    "a abbr audio b big blockquote body center cite code dd del details div dl dt em emphasis figure font footer h1 h2 "
    "h3 h4 h5 h6 head header hr html i img ins kbd li lang mark ol p phoneme pre prosody q s samp script section "
    "small span speak strike strong style sub summary sup table tbody td th thead think thinking tr tt u ul var video "
    "voice w wbr".split()
)
"""Tags of HTML and SSML without attributes; other words in angle brackets are words, unless they come in pairs."""
_OTHER_TAG = re.compile(r"`+[^`]*`+|</?[a-z](?:[^\W_]|-)*[:_.][\w.:-]*(?:\s[^<>]*|/)?>", re.IGNORECASE)
"""A tag whose name HTML does not allow, such as `<ns:spell>`, which the parser reads as text or as an address; or code,
to leave its tags alone."""
_NAME = re.compile(r"[^\s/<>]+")


@dataclass(frozen=True, slots=True)
class MarkdownFilter:
    """Removes the marks of Markdown, by markdown-it-py (CommonMark); the table in `text_filters` has examples.

    A mark whose other half is in another sentence is removed too. Headings, list items and table rows end with a full
    stop, so that a voice pauses there.

    Args:
        code: Whether fenced code blocks are read ("speak") or left out ("skip"). Code inside a sentence is read.
    """

    code: Literal["skip", "speak"] = "skip"

    def __post_init__(self) -> None:
        if self.code not in ("skip", "speak"):
            raise ConfigurationError(f"code must be 'skip' or 'speak', got {self.code!r}")

    def may_change(self, text: str) -> bool:
        """Whether the text has a sign that Markdown uses."""
        return _MARKED.search(text) is not None

    @property
    def is_prepared(self) -> bool:
        """Whether `prepare()` has nothing left to do."""
        return _parser.cache_info().currsize > 0

    def prepare(self) -> None:
        """Load the parser."""
        _parser()

    def __call__(self, text: str) -> str:
        """Return `text` in its spoken form."""
        text = _without_other_tags(text)
        stripped = text.strip()
        if stripped.startswith("|") and "\n" not in stripped:
            return self._row(stripped)
        blocks = (block for block in self._blocks(_parser().parse(text)) if block)
        return " ".join(blocks)

    def _row(self, text: str) -> str:
        if _ROW_RULE.match(text):
            return ""
        cells = (self._inline(cell.strip()) for cell in _CELL.split(text.strip("| ")))
        return _ended(", ".join(cell for cell in cells if cell))

    def _inline(self, text: str) -> str:
        return "".join(_text(token.children or ()) for token in _parser().parseInline(text)).strip()

    def _blocks(self, tokens: Sequence[Token]) -> Iterator[str]:
        marker, is_item = "", False
        for token in tokens:
            if token.type == "list_item_open":
                marker, is_item = (f"{token.info}{token.markup} " if token.info else ""), True
            elif token.type == "heading_open":
                is_item = True
            elif token.type == "inline":
                said = _text(token.children or ()).strip()
                yield marker + (_ended(said) if is_item else said)
                marker, is_item = "", False
            elif token.type == "fence" and self.code == "speak":
                yield " ".join(token.content.split())
        if marker:  # an item whose text is in the next sentence
            yield marker.strip()


def _without_other_tags(text: str) -> str:
    tags = [found for found in _OTHER_TAG.finditer(text) if found[0][0] == "<"]
    closed = _closed(tag[0] for tag in tags)
    for tag in reversed(tags):
        before, behind = text[: tag.start()], text[tag.end() :]
        is_tag = _name(tag[0]) in closed or "=" in tag[0] or tag[0].endswith("/>") or _opens(before, tag[0], behind)
        text = before + behind if is_tag else text
    return text


def _text(tokens: Sequence[Token]) -> str:
    parts: list[str] = []
    closed = _closed(token.content for token in tokens if token.type == "html_inline")
    for place, token in enumerate(tokens):
        if token.type in ("softbreak", "hardbreak"):
            parts.append(" ")
        elif token.type == "image":
            parts.append(_text(token.children or ()))
        elif token.type == "code_inline":
            parts.append(token.content)
        elif token.type == "html_inline":
            before, behind = (_content(near) for near in (tokens[:place][-1:], tokens[place + 1 : place + 2]))
            is_tag = _name(token.content) in closed or _opens(before, token.content, behind)
            parts.append(_said_tag(token.content, is_tag))
        elif token.type in ("text", "text_special"):
            parts.append(_LEFT_OVER.sub("", token.content))
    return "".join(parts)


def _content(tokens: Sequence[Token]) -> str:
    return "".join(token.content for token in tokens if token.type == "text")


def _name(tag: str) -> str:
    name = _NAME.search(tag)
    return "" if name is None else name[0].casefold()


def _closed(tags: Iterable[str]) -> set[str]:
    """Return the names of the tags that are closed."""
    return {_name(tag) for tag in tags if tag.startswith("</")}


def _opens(before: str, tag: str, behind: str) -> bool:
    """Return whether the tag seems to begin a marked text that ends in another sentence: such as `<spell>A. B</spell>`,
    and not `Press <Enter>.`"""
    return behind[:1].isalnum() and not before[-1:].isalnum() and " " not in tag


def _said_tag(tag: str, is_tag: bool) -> str:
    """Return the words of `tag`: none if it is of HTML or SSML, but words ("Press <Enter>", "<your name>") stay.

    Args:
        is_tag: Whether it is one of another kind.
    """
    name = tag.strip("</> ").lower()
    if name == "br":
        return " "
    is_word = not is_tag and tag[1].isalpha() and "=" not in tag and not tag.endswith("/>") and name not in _TAGS
    return tag[1:-1] if is_word else ""


def _ended(text: str) -> str:
    return text + "." if text and text[-1].isalnum() else text


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # 30 ms

    # Off: rules that need the text around a sentence, or would swallow it (indented code, HTML blocks, definitions).
    return MarkdownIt("commonmark").enable("strikethrough").disable(["code", "html_block", "reference"])

"""Grammar: JSGF text prepared for the decoder, with its words, several public rules and fillers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from vivavoce.pipelines.core.errors import ConfigurationError

HEADER = "#JSGF"
FILLER_SUFFIX = "_filler"
"""Marks a filler's word in the decoder, so that a grammar may use the same word as a word."""

_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_DECLARATION = re.compile(r"#JSGF[^\n;]*;?|\b(?:grammar|import)\b[^;]*;")
_PUBLIC = re.compile(r"\bpublic\s+(<[^>]*>)\s*=")
_NO_WORD = re.compile(r"<[^>]*>|\{[^}]*\}|/[\d.eE+-]+/|\bpublic\b(?=\s*<)|[=|;*+()\[\]]")


@dataclass(frozen=True, slots=True)
class Grammar:
    """A grammar for the decoder.

    Args:
        text: JSGF with one public rule, which allows the fillers too.
        words: The words of the user's grammar, in its spelling.
        fillers: The filler words.
    """

    text: str
    words: frozenset[str]
    fillers: tuple[str, ...] = ()


def read_grammar(source: str | Path) -> str:
    """Return the JSGF text: `source` itself, or the file that it names.

    Raises:
        ConfigurationError: It is neither.
    """
    if isinstance(source, str) and source.lstrip().startswith(HEADER):
        return source.lstrip()
    path = Path(source)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"grammar must be JSGF text that starts with {HEADER!r}, or a file of it, got {str(source)[:80]!r}: {error}"
        ) from error
    if not text.lstrip().startswith(HEADER):
        raise ConfigurationError(f"grammar must start with {HEADER!r}, which the file {str(path)!r} does not")
    return text.lstrip()


def prepare(text: str, fillers: tuple[str, ...] = ()) -> Grammar:
    """Join the public rules, since the decoder takes only the first, and allow utterances of fillers alone.

    Fillers beside the rules' words would replace some of those: 8 of 240 booking phrases were wrong with them
    everywhere, 3 with them alone, 2 without.

    Raises:
        ConfigurationError: There is no public rule.
    """
    bare = _COMMENT.sub(" ", text)
    rules = _PUBLIC.findall(bare)
    if not rules:
        raise ConfigurationError("grammar must have a public rule (`public <name> = …;`), found none")
    words = frozenset(_NO_WORD.sub(" ", _DECLARATION.sub(" ", bare)).split())
    if len(rules) == 1 and not fillers:
        return Grammar(bare, words)
    private = _PUBLIC.sub(r"\1 =", bare)
    said = " | ".join(rules)
    if not fillers:
        return Grammar(f"{private}\npublic <vivavoce_all> = {said};\n", words)
    marked = " | ".join(f"{word}{FILLER_SUFFIX}" for word in fillers)
    top = f"<vivavoce_filler> = {marked};\npublic <vivavoce_all> = {said} | <vivavoce_filler>+;\n"
    return Grammar(f"{private}\n{top}", words, fillers)

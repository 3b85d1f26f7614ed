"""Cutting text into sentences for voices that take whole ones, each as soon as it is certain.

A cut depends on the text alone, never on the pieces in which it came, and no text is lost or changed: the sentences and
the white space between them are the text. A sentence is certain with the first letter of the next one, with a line
break after its full stop, or with the end. A sentence that looks finished counts as certain when nothing follows for
`PAUSE` seconds: it does not wait for a model's tool call.

It uses no library: the available ones (sentence-stream, stream2sentence, pysbd) change the text, cut by its pieces, or
need the whole text.

| text | cut |
|---|---|
| `Dr. Smith`, `e.g. Bern`, `J. Smith`, `No. 5`, `3.5`, `vivavoce.dev` | no |
| `am 3. Oktober`, `der 2. Versuch` | no (a German ordinal) |
| `at 5 p.m. The next`, `So did I. Then` | yes |
| `"Stop!" he said` (small letter follows) | no |
| `Yes. "No."`, `One. 2 apples`, `Wait... What?`, `Hi! 👍 Well` | yes |
| `你好。再见`, `क्या है? हाँ` | yes |
| blank line; list item, heading, table row (`|`), quoted line | at the line's end |
| a link's text, inline code | never inside, but for the longest length |
| a fenced code block, with `keeps_code` | one piece |
| no end within the longest length | at the last comma, else white space, within it |
| nothing follows for a while | yes, but not behind a digit, a single letter, an abbreviation or a list number |
"""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from dataclasses import dataclass

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.words import is_spaceless, word_end
from vivavoce.pipelines.tts.live_text import PAUSE, LiveText

_ABBREVIATIONS = frozenset(
    "Abs Apr Art Aug Ave Bd Bt Cap Cf Co Col Cpl Dec Dez Dr Dra Drs Esq Ext Feb Fig Fr Fri Ft Gen Gov Hon Hr Hrn Inc "
    "Ing Jan Jr Jul Jun Kap Lt Ltd Mag Maj Mar Messrs Mlle Mme Mon Mr Mrs Ms Mt Nos Nov Nr Oct Okt Ph Pr Prof Rd Rep "
    "Rev Sat Sen Sep Sept Sgt Sr Sra Srs Srta St Ste Str Sun Tel Thu Tue Vol Vs Wed "
    "approx bzw ca cf dr evtl exkl ggf inkl mr mrs resp sog st vgl vs zzgl".split()
)
"""Words before a full stop inside a sentence; single letters (but "I") and dotted ones ("e.g") count too."""

_BEFORE_NUMBERS = frozenset("abs art ch cap fig kap no nos nr num núm para pos pp sec str tab tel vol ziff".split())
"""Abbreviations only if a number follows."""

_BEFORE_ORDINALS = frozenset(
    "ab alle am beim bis das dem den der des die im ins ihr ihre ihren jeden jeder jedes kein mein meine meinen sein "
    "seit seine seinen unser unsere unseren vom zum zur".split()
)
"""German words after which a number with a full stop is an ordinal if a capital follows."""

_MONTHS = frozenset("jan feb mär mae apr mai jun jul aug sep okt oct nov dez dec".split())

_ENDERS = ".!?…。！？．｡؟۔।॥։።။។"
_CANDIDATE = re.compile(rf"[{_ENDERS}\n]")
_CLOSERS = r"""'")\]}»”’“‘」』）》】〕〉*_~`"""
_END = re.compile(rf"[{_ENDERS}]+[{_CLOSERS}]*")
_SPACELESS_ENDERS = frozenset("。！？｡။។")
"""Full stops of scripts that put no space behind them."""
_LAST_END = re.compile(rf"([{_ENDERS}]+)[{_CLOSERS}]*$")
_LAST_CHARACTERS = frozenset(_ENDERS + _CLOSERS.replace("\\", ""))
_AHEAD = 8
"""Characters behind a place that say whether a word ends there."""
_LAST_END_LENGTH = 16
"""Characters at the end of a text in which its last full stop is searched."""
_PAIRS = (
    ("(", ")"),
    ("[", "]"),
    ("{", "}"),
    ("«", "»"),
    ("「", "」"),
    ("『", "』"),
    ("（", "）"),
    ("《", "》"),
    ("【", "】"),
)
_SYMMETRIC = ('"', "**", "__", "`")
_ROMAN_NUMBER = re.compile(r"\s*[ivxlIVXL]{1,5}$")
_BLANKS = re.compile(r"[^\S\n]*")
_OPENERS = re.compile(r"""[\s"'“„”‘‚«‹»(\[{（「『《【¿¡*_#>~`+–—•-]*""")
_WORD = re.compile(r"(?<![\w.@/-])[\w.]+$")
_ORDINAL = re.compile(r"(?:^|[^\d.,\w])\d{1,2}$")
_LINE_NUMBER = re.compile(r"\s*\d{1,3}$")
_STRUCTURE = re.compile(r"\s*(?:[-+*•]\s|\d{1,3}[.)]\s|#{1,6}\s|\||>|```|~~~)")
_STRUCTURE_LENGTH = 7
"""Characters of a line that show whether it has a structure."""
_FENCE = re.compile(r"\s*(`+|~+)")
_CLAUSE = re.compile(r"[,;:–—](?=\s)|[，、；：]")
_GAP = re.compile(r"(?<!\d)\s|\s(?!\d)")  # not inside "10 000"
_GAP_OR_END = re.compile(r"\s|(?<=[。！？｡။។，、；：])")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceOptions:
    """Rules for cutting text for a voice. Lengths are in characters.

    Each option: docs/options.md.
    """

    min_first_length: int = 0
    """A shorter first sentence waits for the next one, for voices that stress short pieces badly; costs latency."""
    min_length: int = 0
    """The same for the later sentences."""
    max_first_length: int = 140
    """A longer first sentence is cut at a comma or between words, so that the voice can begin."""
    max_length: int = 240
    """The same for the later sentences."""

    def __post_init__(self) -> None:
        for low, high in ((self.min_first_length, self.max_first_length), (self.min_length, self.max_length)):
            if not 0 <= low < high or high < 20:
                raise ConfigurationError(
                    f"need 0 <= min length < max length and max length >= 20, got {low!r}, {high!r}"
                )


_DEFAULT = SentenceOptions()


async def sentences(
    text: str | AsyncIterator[str], options: SentenceOptions = _DEFAULT, *, keeps_code: bool = False
) -> AsyncGenerator[str, None]:
    """Yield the sentences of `text`, whole or as it comes, without the white space around them; the last at its end.

    Of a `LiveText`, a sentence that looks finished comes when nothing follows for `PAUSE` seconds.
    """
    cutter = SentenceCutter(options, keeps_code=keeps_code)
    if isinstance(text, str):
        for sentence in cutter.push(text):
            yield sentence
    else:
        live = text if isinstance(text, LiveText) else None
        async for piece in text:
            for sentence in cutter.push(piece):
                yield sentence
            if live is not None and cutter.looks_finished and not await live.follows(PAUSE):
                for sentence in cutter.settle():
                    yield sentence
    for sentence in cutter.finish():
        yield sentence


class SentenceCutter:
    """Takes text piece by piece and gives sentences.

    Args:
        keeps_code: Give a fenced code block as one sentence, for filters that leave it out.
    """

    def __init__(self, options: SentenceOptions = _DEFAULT, *, keeps_code: bool = False) -> None:
        self._options = options
        self._keeps_code = keeps_code
        self._text = ""
        self._scan = 0
        """Where the search for the next candidate begins; the text before it is decided."""
        self._is_first = True
        self._is_over = False

    @property
    def pending(self) -> str:
        """The text of the sentence that is not certain yet."""
        return self._text

    def push(self, text: str) -> Iterator[str]:
        """Take more text and yield the sentences that are certain now."""
        self._text += text
        while (end := self._next_end()) is not None:
            sentence, self._text, self._scan = self._text[:end].strip(), self._text[end:], 0
            if sentence:
                self._is_first = False
                yield sentence

    @property
    def looks_finished(self) -> bool:
        """Whether the pending text may count as a sentence if nothing follows."""
        return self._last_end() > 0

    def settle(self) -> Iterator[str]:
        """Nothing follows for now: yield the pending text if it looks finished."""
        end = self._last_end()
        if end:
            sentence, self._text, self._scan = self._text[:end].strip(), self._text[end:], 0
            self._is_first = False
            yield sentence

    def finish(self) -> Iterator[str]:
        """Yield the rest; the text is over."""
        self._is_over = True
        yield from self.push("")
        rest, self._text = self._text.strip(), ""
        if rest:
            yield rest

    def _next_end(self) -> int | None:
        """Return where the first sentence ends; None while it is not certain."""
        text, options = self._text, self._options
        if self._keeps_code:
            is_code, end = self._code_end()
            if is_code:
                return end
        least = options.min_first_length if self._is_first else options.min_length
        most = options.max_first_length if self._is_first else options.max_length
        while (found := _CANDIDATE.search(text, self._scan, most)) is not None:
            at = found.start()
            end = self._line_end(at) if text[at] == "\n" else self._sentence_end(at)
            if end is None:
                return None
            if end and len(text[:end].strip()) >= max(1, least) and not self._opener(end):
                return end
            self._scan = at + 1
        self._scan = max(self._scan, min(len(text), most))
        return self._long_end(most) if len(text) >= most else None

    def _code_end(self) -> tuple[bool, int | None]:
        """Return whether the text begins with a code block, or may do so; and the end of the block."""
        text = self._text
        fence = _FENCE.match(text)
        if fence is None:
            return False, None
        if len(fence[1]) < 3:
            return not self._is_over and fence.end() == len(text), None
        closing = re.compile(rf"\n[^\S\n]*{fence[1][0]}{{{len(fence[1])},}}[^\S\n]*\n").search(text, fence.end())
        if closing is not None:
            return True, closing.end()
        return True, None

    def _line_end(self, at: int) -> int | None:
        """Judge the line break at `at`: the sentence's end, 0 for none; None while unknown."""
        text = self._text
        line = text[text.rfind("\n", 0, at) + 1 : at]
        if _STRUCTURE.match(line + " "):
            return at + 1
        follows = _BLANKS.match(text, at + 1)
        assert follows is not None
        next_line = text[follows.end() : follows.end() + _STRUCTURE_LENGTH]
        if next_line.startswith("\n"):
            return follows.end() + 1
        if _STRUCTURE.match(next_line):
            return at + 1
        return 0 if len(next_line) >= _STRUCTURE_LENGTH or self._is_over else None

    def _sentence_end(self, at: int) -> int | None:
        """Judge the mark at `at`: the sentence's end, 0 for none; None while unknown."""
        text = self._text
        run = _END.match(text, at)
        assert run is not None
        end = run.end()
        if end == len(text):
            return None
        if not _SPACELESS_ENDERS.isdisjoint(run[0]):
            return end
        if not text[end].isspace():
            return 0
        blanks = _BLANKS.match(text, end)
        assert blanks is not None
        follows = blanks.end()
        if follows == len(text):
            return None
        is_dot = run[0] == "."
        if text[follows] == "\n":
            return 0 if is_dot and self._is_abbreviation(at, "") else end
        opened = _OPENERS.match(text, follows)
        assert opened is not None
        if opened.end() == len(text):
            return None
        letter = text[opened.end()]
        if letter.islower():
            return 0
        if is_dot and (self._is_abbreviation(at, letter) or _LINE_NUMBER.match(text[self._line_start(at) : at])):
            return 0
        if is_dot and letter.isalpha() and _ORDINAL.search(text, max(0, at - 4), at):
            is_ordinal = self._is_ordinal(at, opened.end())
            if is_ordinal is None:
                return None
            return 0 if is_ordinal else end
        return end

    def _last_end(self) -> int:
        """Return the end of a sentence that only white space follows; 0: it does not look finished."""
        text = self._text.rstrip()
        if text[-1:] not in _LAST_CHARACTERS:
            return 0
        run = _LAST_END.search(text, max(0, len(text) - _LAST_END_LENGTH))
        if run is None:
            return 0
        at, least = run.start(), self._options.min_first_length if self._is_first else self._options.min_length
        if len(text.strip()) < least or _is_open(text) or (self._keeps_code and self._code_end()[0]):
            return 0
        if not any(letter.isalnum() for letter in text[:at]):
            return 0
        return 0 if run[1] in (".", "．") and self._may_go_on(at) else len(text)

    def _may_go_on(self, at: int) -> bool:
        """Whether the full stop at `at` may be inside a sentence, by the text before it."""
        if self._text[at - 1].isdigit() or _ROMAN_NUMBER.match(self._text[self._line_start(at) : at]):
            return True
        if self._is_abbreviation(at, "0"):
            return True
        found = _WORD.search(self._text, max(0, at - 20), at)
        last = found[0].rpartition(".")[2] if found is not None else ""
        return len(last) == 1 and ord(last) < 0x2E80

    def _is_abbreviation(self, at: int, letter: str) -> bool:
        found = _WORD.search(self._text, max(0, at - 20), at)
        if found is None:
            return False
        word = found[0]
        if "." in word:
            parts = word.split(".")
            return word.casefold() not in ("a.m", "p.m") and all(len(p) <= 2 and p.isalpha() for p in parts)
        if len(word) == 1:
            return word.isalpha() and word != "I"
        return word in _ABBREVIATIONS or (letter.isdigit() and word.casefold() in _BEFORE_NUMBERS)

    def _is_ordinal(self, at: int, follows: int) -> bool | None:
        words = self._text[:at].split()
        if len(words) > 1 and words[-2].casefold() in _BEFORE_ORDINALS:
            return True
        month = self._text[follows : follows + 3]
        if month.isalpha() and len(month) < 3 and not self._is_over:
            return None
        return month.casefold() in _MONTHS

    def _line_start(self, at: int) -> int:
        return self._text.rfind("\n", 0, at) + 1

    def _opener(self, end: int) -> int:
        """Return the start of a link's text or inline code that is still open at `end`; 0: none."""
        head = self._text[:end]
        bracket = head.rfind("[")
        if bracket > head.rfind("]"):
            return max(1, bracket)
        return max(1, head.rfind("`")) if head.count("`") % 2 else 0

    def _long_end(self, most: int) -> int | None:
        """Return where to cut a text without an end within `most` characters."""
        text, least = self._text, most // 3
        for pattern in (_CLAUSE, _GAP):
            cuts = [found.end() for found in pattern.finditer(text, least, most - 1)]
            for end in reversed(cuts):
                opener = self._opener(end)
                if not opener:
                    return end
                if opener > least:
                    return opener
        if is_spaceless(text[least:most]):
            known = text[: most + _AHEAD]
            is_known = len(known) == most + _AHEAD or any(sign.isspace() for sign in known[most:])
            if not (is_known or self._is_over):
                return None  # the next letters may go on with the word that seems to end there
            return word_end(known, most) or most
        gap = _GAP_OR_END.search(text, most)
        if gap is not None and gap.end() <= 4 * most:
            return gap.end()
        return 4 * most if len(text) >= 4 * most else None


def _is_open(text: str) -> bool:
    """Whether a quotation, a bracket, a link's text or inline code has begun in `text` and not ended."""
    if any(text.count(mark) % 2 for mark in _SYMMETRIC) or any(text.count(a) > text.count(b) for a, b in _PAIRS):
        return True
    low, opening, closing = text.count("„"), text.count("“"), text.count("”")
    return low > opening + closing or (not low and opening > closing)

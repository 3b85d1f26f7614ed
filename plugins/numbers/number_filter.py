"""NumberFilter: finds the numbers of a locale in a text and writes them in words."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.plugins.numbers.languages import LANGUAGES, NEVER, Language

if TYPE_CHECKING:
    from babel import Locale
    from unicode_rbnf import RbnfEngine

_DIGIT = re.compile(r"[0-9]")
_HYPHEN = re.compile(r"[\u2010-\u2012\ufe63\uff0d](?=\W?\d)")
"""The hyphens of Unicode, for numbers the same as the one of ASCII: hyphen, non-breaking one, figure dash, small and
full-width forms."""
_MINUS = r"(?:-|[\u2212\u207b] ?|(?<!\d )\u2013)"
"""The sign of a number below zero. People write an en dash for it too; behind a number and a space it is of a range."""
_LEADING_MINUS = re.compile(_MINUS)
_DIFFERENCE = re.compile(
    r"(?:(?:(?<=[\d%)])|(?<=\d[$€£¥])|(?<=\d\s[$€£¥])) ?|(?<=\b[^\W\d_]))[\u2212\u207b] ?"
    r"(?=[$€£¥]?\d|[^\W\d_]\b|[-\u2212]\d)"
)
"""A minus sign between numbers, sums of money or variables."""
_APOSTROPHES = "'\u2019"
_N_CASE = frozenset("ab am beim bis dem den des im seit vom zum zur".split())
"""German words that an ordinal with the ending -n follows."""
_E_CASE = frozenset("das der die".split())


@dataclass(frozen=True, slots=True)
class NumberFilter:
    """A text filter that writes numbers in words, as a language speaks them.

    Args:
        locale: A language, `de en es fr it nl`, with a country where separators and dates differ: "en_GB", "de-CH".
    Raises:
        ConfigurationError: The locale is unknown, or the extra `numbers` is not installed.
    """

    locale: str

    def __post_init__(self) -> None:
        _speller(self.locale)

    def may_change(self, text: str) -> bool:
        """Whether there is a digit."""
        return _DIGIT.search(text) is not None

    def prepare(self) -> None:
        """Load the language's rules."""
        _speller(self.locale)

    def __call__(self, text: str) -> str:
        """Return `text` with its numbers in words."""
        return _speller(self.locale).spell(text)


@cache
def _speller(name: str) -> _Speller:
    try:
        from babel import Locale, UnknownLocaleError
        from unicode_rbnf import RbnfEngine
    except ImportError as error:
        raise ConfigurationError(
            f"needed unicode-rbnf and babel, got {error}; run pip install 'vivavoce[numbers]'"
        ) from error
    try:
        locale = Locale.parse(name.replace("-", "_"))
    except (UnknownLocaleError, ValueError) as error:
        raise ConfigurationError(f"locale must be one such as 'en_US', got {name!r}") from error
    if locale.language not in LANGUAGES:
        raise ConfigurationError(f"locale must be of a language of {sorted(LANGUAGES)}, got {name!r}")
    return _Speller(LANGUAGES[locale.language], RbnfEngine.for_language(locale.language), locale)


def _group_characters(symbol: str) -> str:
    """Return the pattern of the characters that group digits where the locale data name `symbol`."""
    if not symbol.strip():
        return r"[\u00a0\u202f ]"
    # Releases of CLDR differ in which apostrophe they name; people write both.
    return rf"[\u00a0\u202f{_APOSTROPHES if symbol in _APOSTROPHES else re.escape(symbol)}]"


class _Speller:
    """Finds the numbers of one locale in a text and spells them."""

    def __init__(self, language: Language, engine: RbnfEngine, locale: Locale) -> None:
        symbols = locale.number_symbols["latn"]
        self._language = language
        self._engine = engine
        self._months = [str(locale.months["format"]["wide"][number]) for number in range(1, 13)]
        self._is_german = locale.language == "de"
        self._is_english = locale.language == "en"
        self._is_month_first = locale.date_formats["short"].pattern.lower().startswith("m")
        self._decimal = str(symbols["decimal"])
        group = _group_characters(str(symbols["group"]))
        number = rf"(?:\d{{1,3}}(?:{group}\d{{3}})+(?!\d)|\d+)(?:{re.escape(self._decimal)}\d+)?"
        self._number = re.compile(number)
        rules = self._rules(number)
        self._say = {name: say for name, (_, say) in rules.items()}
        alternatives = "|".join(f"(?P<{name}>{pattern})" for name, (pattern, _) in rules.items())
        self._signed = re.compile(_MINUS + "?" + number)
        self._pattern = re.compile(rf"(?<![\w.,:/+-])(?:{alternatives})(?![\w°º]|[.,:/-]\d|/)", re.IGNORECASE)

    def spell(self, text: str) -> str:
        """Return `text` with its numbers in words."""
        text = _DIFFERENCE.sub(f" {self._language.minus} ", _HYPHEN.sub("-", text))
        return self._pattern.sub(lambda found: self._say[found.lastgroup or ""](found), text)

    def _rules(self, number: str) -> dict[str, tuple[str, Callable[[re.Match[str]], str]]]:
        """Return the patterns, in order of precedence, with the function that speaks each."""
        language = self._language
        month = "|".join(map(re.escape, self._months))
        sign = "|".join(map(re.escape, sorted(language.currencies, key=len, reverse=True)))
        scale = rf"(?: (?:{'|'.join(language.scales)})\b)?"
        span = rf"{number} ?[-–] ?{number}"
        signed_span = rf"{_MINUS}?{number} ?[-–] ?{_MINUS}?{number}"
        digits = r"[+(]?\+?\d[\d ()/-]{5,}\d|0\d+|\d{10,}"
        return {
            "iso": (r"\d{4}-\d{2}-\d{2}", self._say_iso),
            "date": (r"\d{1,2}\.\d{1,2}\.\d{4}|\d{1,2}/\d{1,2}/\d{4}", self._say_date),
            "month_day": (
                rf"(?:{month}) \d{{1,2}}(?:st|nd|rd|th)?(?:,? \d{{4}})?" if self._is_english else NEVER,
                self._say_named_day,
            ),
            "day_month": (rf"{language.day_pattern} (?:{month})(?: \d{{4}})?", self._say_named_day),
            "time": (language.time_pattern, self._say_time),
            "money_range": (rf"(?:{sign}) ?{span}|{span}[ \u00a0]?(?:{sign})", self._say_money_range),
            "money": (
                rf"{_MINUS}?(?:{sign}) ?{_MINUS}?{number}{scale}|{_MINUS}?{number}{scale}[ \u00a0]?(?:{sign})",
                self._say_money,
            ),
            "percent": (rf"{_MINUS}?{number}[ \u00a0\u202f]?%", self._say_percent),
            "ordinal": (language.ordinal_pattern, self._say_ordinal),
            "years": (r"[12]\d{3} ?[-–] ?[12]\d{3}", self._say_range),
            "grouped": (
                rf"{_MINUS}?\d{{1,3}}(?:{number[number.index('[') : number.index(']') + 1]}\d{{3}})+",
                self._say_number,
            ),
            "digits": (digits, self._say_digits),
            "range": (rf"{signed_span}(?: ?%)?", self._say_range),
            "number": (rf"{_MINUS}?{number}", self._say_number),
        }

    def _say_iso(self, found: re.Match[str]) -> str:
        year, month, day = map(int, found[0].split("-"))
        return self._date(day, month, year, found)

    def _say_date(self, found: re.Match[str]) -> str:
        day, month, year = map(int, re.split(r"[./]", found[0]))
        if self._is_month_first and "/" in found[0]:
            day, month = month, day
        return self._date(day, month, year, found)

    def _say_named_day(self, found: re.Match[str]) -> str:
        name = next(name for name in self._months if name.casefold() in found[0].casefold())
        numbers = [int(part) for part in re.findall(r"\d+", found[0])]
        is_leading = not found[0][0].isdigit()
        return self._date(
            numbers[0], self._months.index(name) + 1, numbers[1] if len(numbers) > 1 else None, found, is_leading
        )

    def _date(
        self, day: int, month: int, year: int | None, found: re.Match[str], month_leads: bool | None = None
    ) -> str:
        if not (1 <= month <= 12 and 1 <= day <= 31):
            return found[0]
        name, said_year = self._months[month - 1], "" if year is None else self._year(year)
        if self._is_english:
            ordinal = self._ordinal(day)
            leads = self._is_month_first if month_leads is None else month_leads
            said = f"{name} {ordinal}" if leads else f"{ordinal} of {name}"
            return f"{said}, {said_year}" if said_year else said
        if self._is_german:
            return f"{self._german_ordinal(day, found, 'r')} {name} {said_year}".rstrip()
        number = self._ordinal(1) if day == 1 and self._language.has_ordinal_first else self._cardinal(day)
        return self._language.date_joint.join(part for part in (number, name, said_year) if part)

    def _say_time(self, found: re.Match[str]) -> str:
        language, text = self._language, found[0]
        hour, *rest = (int(part) for part in re.findall(r"\d+", text))
        minute = rest[0] if rest else 0
        said = language.one_hour if hour == 1 else self._cardinal(hour)
        half = re.search(r"([ap])\.?m", text, re.IGNORECASE)
        if not minute:
            said = said if half else language.full_hour.format(hour=said)
            if hour == 1:
                said = said.replace("une heures", "une heure")
        else:
            minutes = self._cardinal(minute)
            if self._is_english and minute < 10:
                minutes = f"oh {minutes}"
            said = language.time.format(hour=said, minute=minutes).replace("une heures", "une heure")
        if half:
            return f"{said} {half[1].lower()}.m."
        return said

    def _say_money(self, found: re.Match[str]) -> str:
        text = found[0]
        signless = _LEADING_MINUS.sub("", text)
        said = self._money(signless)
        return said if signless == text else f"{self._language.minus} {said}"

    def _money(self, text: str) -> str:
        language = self._language
        amount = self._number.search(text)
        assert amount is not None
        rest = text[: amount.start()] + text[amount.end() :]
        scale = next((word for word in language.scales if word.casefold() in rest.casefold()), "")
        sign = rest.casefold().replace(scale.casefold(), "").strip().upper()
        currency = language.currencies[sign]
        whole, _, part = amount[0].partition(self._decimal)
        count = int(re.sub(r"\D", "", whole))
        if scale:
            return f"{self._amount(amount[0])} {scale} {currency.many}"
        if len(part) > 2:
            return f"{self._amount(amount[0])} {currency.many}"
        cents = int(part.ljust(2, "0")) if part else 0
        said = currency.one if count == 1 else f"{self._cardinal(count)} {currency.many}"
        if not cents:
            return said
        small = self._cardinal(cents)
        if currency.cents:
            small = currency.cent if cents == 1 else f"{small} {currency.cents}"
            if not count:
                return small
        return f"{said}{currency.joint}{small}"

    def _say_percent(self, found: re.Match[str]) -> str:
        amount = found[0].removesuffix("%").strip()
        return f"{self._amount(amount)} {self._language.percent}"

    def _say_ordinal(self, found: re.Match[str]) -> str:
        number = int(re.sub(r"\D", "", found[0]))
        if self._is_german:
            return self._german_ordinal(number, found, "")
        return self._ordinal(number, is_feminine=found[0].endswith(("ª", "re")))

    def _say_range(self, found: re.Match[str]) -> str:
        span = found[0].removesuffix("%").strip()
        first = self._signed.match(span)
        assert first is not None
        last = span[first.end() :].strip()[1:].strip()
        said = f"{self._plain(first[0])} {self._language.to} {self._plain(last)}"
        return said if span == found[0] else f"{said} {self._language.percent}"

    def _say_money_range(self, found: re.Match[str]) -> str:
        low, high = self._number.findall(found[0])
        sign = self._number.sub("", found[0]).strip(" -–\u00a0").upper()
        return f"{self._amount(low)} {self._language.to} {self._amount(high)} {self._language.currencies[sign].many}"

    def _say_digits(self, found: re.Match[str]) -> str:
        text = found[0]
        if sum(letter.isdigit() for letter in text) < 7 and not text.startswith("0"):
            return " ".join(self._plain(part) if _DIGIT.search(part) else part for part in text.split())
        groups = re.findall(r"\d+", text)
        said = ", ".join(" ".join(self._cardinal(int(digit)) for digit in group) for group in groups)
        return f"plus {said}" if "+" in text else said

    def _say_number(self, found: re.Match[str]) -> str:
        follows = found.string[found.end() : found.end() + 2]
        if found[0] == "1" and follows[:1] == " " and follows[1:].isalpha():
            rulesets = self._engine.format_number(1).text_by_ruleset
            return rulesets.get("spellout-cardinal-masculine", rulesets["spellout-numbering"])
        return self._plain(found[0])

    def _plain(self, text: str) -> str:
        if text.isdigit() and len(text) == 4:
            return self._year(int(text))
        return self._amount(text)

    def _amount(self, text: str) -> str:
        whole, _, part = text.partition(self._decimal)
        number = self._cardinal(int(re.sub(r"\D", "", whole)))
        if _LEADING_MINUS.match(text):
            number = f"{self._language.minus} {number}"
        if part:
            number = " ".join([number, self._language.point, *(self._cardinal(int(digit)) for digit in part)])
        return number

    def _cardinal(self, number: int) -> str:
        return self._engine.format_number(number).text

    def _year(self, number: int) -> str:
        from unicode_rbnf import FormatPurpose

        first, last = self._language.years
        if not first <= number <= last:
            return self._cardinal(number)
        return self._engine.format_number(number, FormatPurpose.YEAR).text

    def _ordinal(self, number: int, *, is_feminine: bool = False) -> str:
        return self._ordinals(number, "feminine" if is_feminine else "masculine")

    def _german_ordinal(self, number: int, found: re.Match[str], otherwise: str) -> str:
        before = found.string[: found.start()].split()
        word = before[-1].casefold() if before else ""
        ending = "n" if word in _N_CASE else "" if word in _E_CASE else otherwise
        return self._ordinals(number, ending)

    def _ordinals(self, number: int, kind: str) -> str:
        from unicode_rbnf import FormatPurpose

        said = self._engine.format_number(number, FormatPurpose.ORDINAL)
        return said.text_by_ruleset.get(f"spellout-ordinal-{kind}", said.text)

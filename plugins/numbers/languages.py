"""Language: the words and patterns for times, money, ranges and ordinals that CLDR lacks, for six languages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

NEVER = r"(?!)"
"""A pattern without matches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Currency:
    """A currency's words.

    Args:
        one, many: One unit, with its article, and the name for several.
        joint: Stands between units and hundredths.
        cent, cents: One hundredth, with its article, and the name for several; empty if only the number is spoken.
    """

    one: str
    many: str
    joint: str = " "
    cent: str = ""
    cents: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Language:
    """How a language speaks numbers.

    Args:
        point: Between a number and its decimals, which are spoken one by one.
        to: Between the ends of a range.
        minus: Before a number below zero.
        percent: For `%`.
        full_hour, time: Formats of `hour` and `minute`, in words.
        one_hour: The number 1 in a time.
        time_pattern, ordinal_pattern: Patterns of times and ordinals.
        day_pattern: Pattern of a day before its month; `NEVER` where days are plain numbers.
        date_joint: Between day, month and year.
        has_ordinal_first: Whether the first of a month is an ordinal where the other days are plain numbers.
        years: First and last number of four digits that is read as a year.
        scales: Words that stand between a number and its currency.
        currencies: By sign and code.
    """

    point: str
    minus: str
    to: str
    percent: str
    full_hour: str
    time: str
    one_hour: str
    time_pattern: str = r"(?:[01]?\d|2[0-3]):[0-5]\d"
    ordinal_pattern: str = NEVER
    day_pattern: str = NEVER
    date_joint: str = " "
    has_ordinal_first: bool = False
    years: tuple[int, int] = (0, -1)
    scales: tuple[str, ...] = ()
    currencies: Mapping[str, Currency]


def _currencies(
    dollar: Currency, euro: Currency, pound: Currency, yen: Currency, franc: Currency
) -> dict[str, Currency]:
    return {
        "$": dollar,
        "US$": dollar,
        "USD": dollar,
        "€": euro,
        "EUR": euro,
        "£": pound,
        "GBP": pound,
        "¥": yen,
        "JPY": yen,
        "CHF": franc,
    }


LANGUAGES: Mapping[str, Language] = {
    "de": Language(
        point="Komma",
        minus="minus",
        to="bis",
        percent="Prozent",
        full_hour="{hour} Uhr",
        time="{hour} Uhr {minute}",
        one_hour="ein",
        time_pattern=r"(?:[01]?\d|2[0-3])(?::[0-5]\d(?: Uhr)?|\.[0-5]\d Uhr| Uhr(?! \d))",
        ordinal_pattern=r"(?<=\w )\d{1,3}\.(?= [^\W\d_])",
        day_pattern=r"\d{1,2}\.",
        years=(1100, 1999),
        scales=("Tausend", "Millionen", "Million", "Milliarden", "Milliarde"),
        currencies=_currencies(
            Currency(one="ein Dollar", many="Dollar"),
            Currency(one="ein Euro", many="Euro"),
            Currency(one="ein Pfund", many="Pfund"),
            Currency(one="ein Yen", many="Yen"),
            Currency(one="ein Franken", many="Franken"),
        ),
    ),
    "en": Language(
        point="point",
        minus="minus",
        to="to",
        percent="percent",
        full_hour="{hour} o'clock",
        time="{hour} {minute}",
        one_hour="one",
        time_pattern=r"(?:[01]?\d|2[0-3]):[0-5]\d(?: ?[ap]\.?m\b\.?)?|(?:0?[1-9]|1[0-2]) ?[ap]\.?m\b\.?",
        ordinal_pattern=r"\d+(?:st|nd|rd|th)\b",
        day_pattern=r"\d{1,2}(?:st|nd|rd|th)?(?: of)?",
        years=(1100, 2099),
        scales=("thousand", "million", "billion", "trillion"),
        currencies=_currencies(
            Currency(one="one dollar", many="dollars", joint=" and ", cent="one cent", cents="cents"),
            Currency(one="one euro", many="euros", joint=" and ", cent="one cent", cents="cents"),
            Currency(one="one pound", many="pounds", joint=" and ", cent="one penny", cents="pence"),
            Currency(one="one yen", many="yen", joint=" and "),
            Currency(one="one franc", many="francs", joint=" and ", cent="one centime", cents="centimes"),
        ),
    ),
    "es": Language(
        point="coma",
        minus="menos",
        to="a",
        percent="por ciento",
        full_hour="{hour} en punto",
        time="{hour} y {minute}",
        one_hour="una",
        ordinal_pattern=r"\d{1,3}\.?[ºª]",
        date_joint=" de ",
        scales=("mil millones", "mil", "millones", "millón"),
        currencies=_currencies(
            Currency(one="un dólar", many="dólares", joint=" con "),
            Currency(one="un euro", many="euros", joint=" con "),
            Currency(one="una libra", many="libras", joint=" con "),
            Currency(one="un yen", many="yenes", joint=" con "),
            Currency(one="un franco", many="francos", joint=" con "),
        ),
    ),
    "fr": Language(
        point="virgule",
        minus="moins",
        to="à",
        percent="pour cent",
        full_hour="{hour} heures",
        time="{hour} heures {minute}",
        one_hour="une",
        time_pattern=r"(?:[01]?\d|2[0-3]) ?(?::|[hH]) ?[0-5]\d|(?:[01]?\d|2[0-3]) ?h\b",
        has_ordinal_first=True,
        ordinal_pattern=r"(?:1(?:er|re|ère)|\d{1,3}(?:e|ème))\b",
        scales=("mille", "millions", "million", "milliards", "milliard"),
        currencies=_currencies(
            Currency(one="un dollar", many="dollars"),
            Currency(one="un euro", many="euros"),
            Currency(one="une livre", many="livres"),
            Currency(one="un yen", many="yens"),
            Currency(one="un franc", many="francs"),
        ),
    ),
    "it": Language(
        point="virgola",
        minus="meno",
        to="a",
        percent="per cento",
        full_hour="{hour} in punto",
        time="{hour} e {minute}",
        one_hour="una",
        has_ordinal_first=True,
        ordinal_pattern=r"\d{1,3}[ºª°](?! ?C)",
        scales=("mila", "milioni", "milione", "miliardi", "miliardo"),
        currencies=_currencies(
            Currency(one="un dollaro", many="dollari", joint=" e "),
            Currency(one="un euro", many="euro", joint=" e "),
            Currency(one="una sterlina", many="sterline", joint=" e "),
            Currency(one="uno yen", many="yen", joint=" e "),
            Currency(one="un franco", many="franchi", joint=" e "),
        ),
    ),
    "nl": Language(
        point="komma",
        minus="min",
        to="tot",
        percent="procent",
        full_hour="{hour} uur",
        time="{hour} uur {minute}",
        one_hour="één",
        time_pattern=r"(?:[01]?\d|2[0-3]):[0-5]\d(?: uur)?",
        ordinal_pattern=r"\d{1,3}(?:e|de|ste)\b",
        years=(1100, 1999),
        scales=("duizend", "miljoen", "miljard"),
        currencies=_currencies(
            Currency(one="één dollar", many="dollar"),
            Currency(one="één euro", many="euro"),
            Currency(one="één pond", many="pond"),
            Currency(one="één yen", many="yen"),
            Currency(one="één frank", many="frank"),
        ),
    ),
}

"""Numbers are written in the words of the locale; other text stays as it is."""

from __future__ import annotations

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.plugins.numbers import NumberFilter


@pytest.mark.parametrize(
    ("locale", "written", "said"),
    [
        ("en", "1,200 people and 1 dog.", "one thousand two hundred people and one dog."),
        ("en", "12 - 00", "twelve - zero"),
        ("en", "3.5, -4 and 0.25", "three point five, minus four and zero point two five"),
        (
            "en",
            "$3.50, €1, $5 million, 20 USD",
            "three dollars and fifty cents, one euro, five million dollars, twenty dollars",
        ),
        ("en", "$0.99, £2.01, $1.125", "ninety-nine cents, two pounds and one penny, one point one two five dollars"),
        ("en", "$5-10, 5–10 €", "five to ten dollars, five to ten euros"),
        ("en", "40%, 2.5 %, 5-10%", "forty percent, two point five percent, five to ten percent"),
        ("en", "at 5:30 pm, 7pm, 6 a.m.", "at five thirty p.m., seven p.m., six a.m."),
        ("en", "9:00, 9:05, 17:30", "nine o'clock, nine oh five, seventeen thirty"),
        ("en", "May 5, 2026 and 5 May", "May fifth, twenty twenty-six and fifth of May"),
        ("en", "2026-05-05", "May fifth, twenty twenty-six"),
        ("en_US", "5/6/2026", "May sixth, twenty twenty-six"),
        ("en_GB", "5/6/2026", "fifth of June, twenty twenty-six"),
        ("en", "the 3rd and 21st, in 1999.", "the third and twenty-first, in nineteen ninety-nine."),
        ("en", "5-10, 1990–1995", "five to ten, nineteen ninety to nineteen ninety-five"),
        ("en", "call 555-1234.", "call five five five, one two three four."),
        ("en", "+1 (555) 123-4567", "plus one, five five five, one two three, four five six seven"),
        ("en", "007, 10 20 30", "zero zero seven, ten twenty thirty"),
        ("en", "4242 4242 4242 4242", ", ".join(["four two four two"] * 4)),
        ("en", "1.2.3, 24/7, A4, 5kg, 20°C, v2.0, 1/2, 25:70", "1.2.3, 24/7, A4, 5kg, 20°C, v2.0, 1/2, 25:70"),
        ("en", "2026-99-99 and 45/45/2026", "2026-99-99 and 45/45/2026"),
        (
            "de",
            "1.200 Leute, 3,5 oder -4, aber 3.5",
            "eintausendzweihundert Leute, drei Komma fünf oder minus vier, aber 3.5",
        ),
        ("de", "1 Apfel, 3,50 €, 1 €, 5 Millionen €", "ein Apfel, drei Euro fünfzig, ein Euro, fünf Millionen Euro"),
        ("de", "um 17:30 Uhr, 1 Uhr, 8.15 Uhr", "um siebzehn Uhr dreißig, ein Uhr, acht Uhr fünfzehn"),
        (
            "de",
            "am 3. Mai, der 3. Mai, 3.5.2026",
            "am dritten Mai, der dritte Mai, dritter Mai zweitausendsechsundzwanzig",
        ),
        ("de", "der 2. Versuch im 3. Stock", "der zweite Versuch im dritten Stock"),
        ("de", "1999, 5-10, 2,5 %", "neunzehnhundertneunundneunzig, fünf bis zehn, zwei Komma fünf Prozent"),
        ("de", "030 123456", "null drei null, eins zwei drei vier fünf sechs"),
        ("de-CH", "1’200.50, CHF 20", "eintausendzweihundert Komma fünf null, zwanzig Franken"),
        ("de-CH", "1'200.50, CHF 1'200", "eintausendzweihundert Komma fünf null, eintausendzweihundert Franken"),
        ("fr", "1 200 et 3,5, 80 %", "mille deux cents et trois virgule cinq, quatre-vingts pour cent"),
        ("fr", "3,50 €, 17h30, 1h, 2e", "trois euros cinquante, dix-sept heures trente, une heure, deuxième"),
        ("fr", "le 1er mai, 2026-05-01", "le premier mai, premier mai deux mille vingt-six"),
        ("es", "3,50 €, 5:30, 3º, 3.ª", "tres euros con cincuenta, cinco y treinta, tercero, tercera"),
        ("es", "2026-05-05", "cinco de mayo de dos mil veintiséis"),
        (
            "it",
            "3,50 €, 5:30, 3º, 2026-05-01",
            "tre euro e cinquanta, cinque e trenta, terzo, primo maggio duemilaventisei",
        ),
        ("nl", "1.200, € 3,50, 5:30 uur, 3e", "duizendtweehonderd, drie euro vijftig, vijf uur dertig, derde"),
    ],
)
def test_numbers_are_said_as_the_locale_does(locale: str, written: str, said: str) -> None:
    assert NumberFilter(locale)(written) == said


MINUS = {"en": "minus", "de": "minus", "es": "menos", "fr": "moins", "it": "meno", "nl": "min"}


@pytest.mark.parametrize("sign", ["-", "\u2212", "\ufe63", "\uff0d", "\u2010", "\u2011", "\u2012", "\u2013"])
@pytest.mark.parametrize("locale", sorted(MINUS))
def test_every_minus_sign_is_minus_in_every_language(locale: str, sign: str) -> None:
    spell, minus = NumberFilter(locale), MINUS[locale]
    assert spell(f"{sign}4") == f"{minus} {spell('4')}"
    assert spell(f"({sign}40 %)") == f"({minus} {spell('40 %')})"
    assert spell(f"{sign}5 €") == f"{minus} {spell('5 €')}"
    assert spell(f"x {sign}€5") == f"x {minus} {spell('€5')}"
    assert spell(f"{sign}1000 x") == f"{minus} {spell('1000')} x"


@pytest.mark.parametrize(
    ("locale", "written", "said"),
    [
        ("en", "5−3, 5 − 3 and 10% − 2%", "five minus three, five minus three and ten percent minus two percent"),
        ("en", "−10–−5, -3–4 and 5 – 10", "minus ten to minus five, minus three to four and five to ten"),
        (
            "en",
            "− 4, −$3.50, $−5, −1,200",
            "minus four, minus three dollars and fifty cents, minus five dollars, minus one thousand two hundred",
        ),
        ("en", "a – 5, 12 – 20, −20°C", "a – five, twelve to twenty, −20°C"),
        ("en", "5−x and 5 − −3", "five minus x and five minus minus three"),
        ("en", "x−3, $5−$3, 5 €−3 €", "x minus three, five dollars minus three dollars, five euros minus three euros"),
        ("de", "−1.200 und −3,5", "minus eintausendzweihundert und minus drei Komma fünf"),
    ],
)
def test_a_minus_sign_is_a_difference_or_a_number_below_zero(locale: str, written: str, said: str) -> None:
    assert NumberFilter(locale)(written) == said


@pytest.mark.parametrize("hyphen", ["\u2010", "\u2011", "\u2012", "\ufe63", "\uff0d"])
@pytest.mark.parametrize("written", ["5-10, 5 - 10 %", "2026-05-05", "call 555-1234.", "$5-10 and A-5", "well-known 5"])
def test_every_hyphen_in_numbers_is_the_one_of_the_keyboard(hyphen: str, written: str) -> None:
    spell = NumberFilter("en")
    assert spell(written.replace("-", hyphen)).replace(hyphen, "-") == spell(written)


@pytest.mark.parametrize("wrong", ["xx", "", "en_XX_YY", "ja"])
def test_an_unknown_locale_is_refused(wrong: str) -> None:
    with pytest.raises(ConfigurationError, match="locale must be"):
        NumberFilter(wrong)


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "unicode_rbnf", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'vivavoce\[numbers\]'"):
        NumberFilter("en_ZA")


def test_text_without_digits_is_left_alone() -> None:
    assert not NumberFilter("en").may_change("No numbers here, sir.")
    assert NumberFilter("en").may_change("1")


@given(
    st.sampled_from(["en", "en_GB", "de", "fr", "es", "it", "nl", "de_CH"]),
    st.lists(
        st.sampled_from(
            "0 1 2 7 12 30 99 1999 2026 , . : - – / % $ € £ EUR Uhr pm h er st rd º ª ( ) + May Mai mai million".split(
                " "
            )
            + ["−", *" " * 6]
        ),
        max_size=25,
    ).map("".join),
)
def test_no_text_makes_it_fail_and_only_what_has_digits_changes(locale: str, text: str) -> None:
    said = NumberFilter(locale)(text)
    assert said or not text
    if not any(letter.isdigit() for letter in text):
        assert said == text

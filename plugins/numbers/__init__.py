"""A text filter that writes numbers in words, by unicode-rbnf (CLDR's spell-out rules) and babel.

    pip install 'vivavoce[numbers]'

A voice reads digits in its own language, so no pipeline uses this filter by default. Add it behind the other filters if
the voice reads numbers badly, or if it shall read phone numbers and codes digit by digit:

    from vivavoce.pipelines.tts.text_filters import DEFAULT_TEXT_FILTERS

    filters = (*DEFAULT_TEXT_FILTERS, numbers.NumberFilter("en_US"))
    CascadingPipeline(..., options=CascadingOptions(text_filters=filters))

| written | said in `en` | written | said in `de` |
|---|---|---|---|
| `1,200 people` | one thousand two hundred people | `1.200` | eintausendzweihundert |
| `3.5`, `-4`, `−4` | three point five, minus four, minus four | `3,5` | drei Komma fünf |
| `$3.50`, `$5 million` | three dollars and fifty cents, five million dollars | `3,50 €` | drei Euro fünfzig |
| `40%` | forty percent | `2,5 %` | zwei Komma fünf Prozent |
| `5:30 pm`, `9:00`, `9:05` | five thirty p.m., nine o'clock, nine oh five | `17:30 Uhr` | siebzehn Uhr dreißig |
| `May 5, 2026`, `2026-05-05` | May fifth, twenty twenty-six | `am 3. Mai` | am dritten Mai |
| `3rd`, `in 1999` | third, in nineteen ninety-nine | `der 2. Versuch` | der zweite Versuch |
| `5-10`, `1990–1995` | five to ten, nineteen ninety to nineteen ninety-five | `5-10` | fünf bis zehn |
| `555-1234`, `007`, seven digits or more | five five five, one two three four … | `030 12` | null drei null, … |

A text that is not a number of the locale (`3.5` in German, `1.2.3`, `24/7`, `A4`, `5kg`) stays as it is written.

Both libraries have free licences (MIT and BSD). num2words is LGPL and has neither cases nor genders.
"""

from __future__ import annotations

from vivavoce.plugins.numbers.number_filter import NumberFilter

__all__ = ["NumberFilter"]

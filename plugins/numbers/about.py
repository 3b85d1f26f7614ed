"""The facts about the filter of numbers."""

from __future__ import annotations

from vivavoce.pipelines.about import Part, Provider
from vivavoce.plugins.numbers.languages import LANGUAGES
from vivavoce.plugins.numbers.number_filter import NumberFilter

PROVIDERS = (
    Provider(
        name="numbers",
        title="Numbers in words",
        docs="",
        parts=(
            Part(
                kind="text_filter",
                make=NumberFilter,
                arguments='"en_US"',
                sample={"locale": "en_US"},
                languages=LANGUAGES,
                note="It writes numbers in words, for voices that read digits badly.",
            ),
        ),
    ),
)

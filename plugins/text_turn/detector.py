"""TurnDetector and its stream: choose the language's rules, and the limit of a complete turn."""

from __future__ import annotations

from collections.abc import Mapping

from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.turn_detector import base
from vivavoce.pipelines.turn_detector.base import EndOfTurnPrediction, TurnContext, TurnDetectorCapabilities
from vivavoce.plugins.text_turn.english import ENGLISH
from vivavoce.plugins.text_turn.german import GERMAN
from vivavoce.plugins.text_turn.rules import UNKNOWN, Judge


class TurnDetector(base.TurnDetector):
    """Rules on the text of the turn; share one between sessions.

    Args:
        language: The default, such as `"en"` or `"de-AT"`, for turns without a language.
        rules: Judges by language (`"de"`), instead of or besides the two of this plugin.
        threshold: The least probability of a complete turn.
    Raises:
        ConfigurationError: There are no rules for `language`, or `threshold` is out of range.
    """

    provider = "text_turn"

    def __init__(
        self, *, language: str = "en", rules: Mapping[str, Judge] | None = None, threshold: float = 0.5
    ) -> None:
        self._judges: dict[str, Judge] = {"en": ENGLISH, "de": GERMAN, **(rules or {})}
        self._language = _primary(language)
        if self._language not in self._judges:
            raise ConfigurationError(
                f"language must be one of {sorted(self._judges)}, got {language!r}; give rules={{{language!r}: …}}"
            )
        if not 0 < threshold < 1:
            raise ConfigurationError(f"need 0 < threshold < 1, got {threshold!r}")
        self._threshold = threshold

    @property
    def capabilities(self) -> TurnDetectorCapabilities:
        return TurnDetectorCapabilities(needs_audio=False, needs_transcript=True)

    def open(self) -> TurnDetectorStream:
        return TurnDetectorStream(self._judges, self._language, self._threshold)


class TurnDetectorStream(base.TurnDetectorStream):
    """One session's questions; it keeps nothing between them."""

    def __init__(self, judges: Mapping[str, Judge], language: str, threshold: float) -> None:
        self._judges = judges
        self._language = language
        self._threshold = threshold

    async def predict(self, context: TurnContext) -> EndOfTurnPrediction:
        """Judge at once; a language without rules counts as complete, with a probability of one half."""
        judge = self._judges.get(_primary(context.language) or self._language)
        if judge is None:
            return EndOfTurnPrediction(complete=True, probability=UNKNOWN)
        probability = judge(context)
        return EndOfTurnPrediction(complete=probability >= self._threshold, probability=probability)


def _primary(language: str) -> str:
    """Return the language of a tag such as `de-AT`."""
    return language.replace("_", "-").split("-")[0].lower()

"""Price: the price of one model, and PriceList: the prices of all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from vivavoce.agents.records import UsageRecord
from vivavoce.pipelines.core.checks import is_number, shown
from vivavoce.pipelines.core.errors import ConfigurationError, contained, describe

MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a model, in US dollars or any other unit that all prices of a budget share.

    `Price()` is the price of a free model. Tokens of audio, and tokens that a cache has or takes in, have the price of
    the tokens of which they are a part where they have none of their own.

    Each option: docs/options.md.
    """

    million_input: float | None = None
    """Price of a million tokens that a model reads."""
    million_output: float | None = None
    """Price of a million tokens that it writes."""
    million_cached: float | None = None
    """Price of a million input tokens that the provider had kept."""
    million_cache_write: float | None = None
    """Price of a million input tokens that the provider keeps from then on."""
    million_audio_input: float | None = None
    """Price of a million tokens of audio that a model hears."""
    million_audio_output: float | None = None
    """Price of a million tokens of audio that it speaks."""
    million_cached_audio: float | None = None
    """Price of a million tokens of heard audio that the provider had kept."""
    audio_minute: float | None = None
    """Price of a minute of audio, recognised, or made by a voice without a price for characters."""
    million_characters: float | None = None
    """Price of a million characters spoken."""

    def __post_init__(self) -> None:
        for each in fields(self):
            amount = getattr(self, each.name)
            if amount is not None and not (is_number(amount) and 0 <= amount < float("inf")):
                raise ConfigurationError(f"need {each.name} >= 0, a number, or None, got {shown(amount)}")

    @property
    def is_free(self) -> bool:
        """Whether the model is free."""
        return all(getattr(self, each.name) is None for each in fields(self))

    def of(self, used: UsageRecord) -> float:
        """Return the cost of a usage."""
        text, text_out = self.million_input or 0.0, self.million_output or 0.0
        cached = _or(self.million_cached, text)
        audio, audio_out = _or(self.million_audio_input, text), _or(self.million_audio_output, text_out)
        audio_cached = _or(self.million_cached_audio, _or(self.million_audio_input, cached))
        cached_text = used.llm_cached_tokens - used.llm_cached_audio_tokens
        fresh_audio = used.llm_input_audio_tokens - used.llm_cached_audio_tokens
        fresh_text = used.llm_input_tokens - used.llm_input_audio_tokens - cached_text - used.llm_cache_write_tokens
        text_made = used.llm_output_tokens - used.llm_output_audio_tokens
        tokens = (
            (max(0, fresh_text) + used.embedding_tokens) * text
            + max(0, cached_text) * cached
            + used.llm_cache_write_tokens * _or(self.million_cache_write, text)
            + max(0, fresh_audio) * audio
            + used.llm_cached_audio_tokens * audio_cached
            + max(0, text_made) * text_out
            + used.llm_output_audio_tokens * audio_out
        )
        seconds = used.stt_audio_seconds
        if self.million_characters is None:
            seconds += used.tts_audio_seconds
        characters = used.tts_characters * (self.million_characters or 0.0)
        return (tokens + characters) / MILLION + seconds / 60 * (self.audio_minute or 0.0)


def _or(amount: float | None, other: float) -> float:
    return other if amount is None else amount


PriceFunction = Callable[[str], Price | None]
"""Returns the price of a model by its name, `provider/model`, or None if the function knows none."""
Prices = Mapping[str, Price] | PriceFunction

_NEEDS: dict[str, tuple[tuple[str, ...], ...]] = {
    "stt": (("audio_minute",),),
    "llm": (("million_input", "million_output"),),
    "tts": (("million_characters",), ("audio_minute",)),
    "realtime_model": (("million_audio_input", "million_audio_output"), ("million_audio_input", "million_output")),
}
"""For each kind of component, the sets of amounts that its price may have; one complete set is needed."""

COUNTED = tuple(_NEEDS)
"""The kinds of components whose usage is counted."""


class PriceList:
    """Knows the prices of a budget.

    Args:
        prices: As in `BudgetOptions`.
    """

    def __init__(self, prices: Prices | None) -> None:
        self._prices = prices
        self._known: dict[str, Price | None] = {}

    def of(self, name: str) -> Price | None:
        """Return the price of a model, or None without one.

        Raises:
            ConfigurationError: The function of the application raised, or returned something else.
        """
        if name not in self._known:
            self._known[name] = self._look_up(name)
        return self._known[name]

    def check(self, parts: Iterable[tuple[str, str]]) -> None:
        """Check that the usage of each component has a price.

        Args:
            parts: Kind and name of each; one may come twice.
        Raises:
            ConfigurationError: Some have none, or one without the amounts that count; it names all of them.
        """
        found = {part: self.of(part[1]) for part in parts}
        problems = [_incomplete(kind, name, price) for (kind, name), price in found.items() if price is not None]
        missing = _missing([part for part, price in found.items() if price is None])
        if wrong := [problem for problem in (missing, *problems) if problem]:
            raise ConfigurationError("; and ".join(wrong))

    def _look_up(self, name: str) -> Price | None:
        prices: Any = self._prices
        if prices is None:
            return None
        if isinstance(prices, Mapping):
            return prices.get(name)
        try:
            price = prices(name)
        except BaseException as raised:  # noqa: BLE001 - a function of the application; its error says so
            error = contained(raised, "the function")
            raise ConfigurationError(f"BudgetOptions.prices({name!r}) raised {describe(error)}") from error
        if price is not None and not isinstance(price, Price):
            raise ConfigurationError(f"BudgetOptions.prices({name!r}) must return a Price or None, got {shown(price)}")
        return price


def _missing(parts: Sequence[tuple[str, str]]) -> str:
    """Return how to give the components a price, with the form of each entry; "" if all have one."""
    if not parts:
        return ""
    named = ", ".join(f"the {kind} {name!r}" for kind, name in parts)
    entries: dict[str, list[str]] = {}  # components of several kinds may have one name
    for kind, name in parts:
        entries.setdefault(name, []).extend(f"{amount}=…" for amount in _NEEDS[kind][0])
    shape = ", ".join(f"{name!r}: Price({', '.join(amounts)})" for name, amounts in entries.items())
    them, free = ("it", "if it") if len(parts) == 1 else ("them", "for one that")
    return (
        f"a cost limit needs the price of each component, got none for {named}; add {them} to BudgetOptions.prices: "
        f"{{{shape}}}, or Price() {free} costs nothing"
    )


def _incomplete(kind: str, name: str, price: Price) -> str:
    """Return the amounts that the price of a component lacks, in words; "" if none."""
    sets = _NEEDS[kind]
    if price.is_free or any(all(getattr(price, one) is not None for one in needs) for needs in sets):
        return ""
    amounts = ", or ".join(" and ".join(needs) for needs in sets)
    return f"the price of the {kind} {name!r} needs {amounts}, by which its usage is counted, got {price!r}"

"""Prices: the cost of a usage, and the components that a cost limit refuses."""

from __future__ import annotations

import math
from typing import Any

import pytest

from vivavoce.agents.budget.options import BudgetOptions
from vivavoce.agents.budget.price import Price, PriceList
from vivavoce.agents.records import UsageRecord
from vivavoce.pipelines.core.errors import ConfigurationError

FULL = Price(
    million_input=4.0,
    million_output=16.0,
    million_cached=0.5,
    million_cache_write=5.0,
    million_audio_input=32.0,
    million_audio_output=64.0,
    million_cached_audio=1.0,
    audio_minute=0.006,
    million_characters=15.0,
)
MILLION = 1_000_000


@pytest.mark.parametrize(
    ("used", "cost"),
    [
        (UsageRecord(llm_input_tokens=MILLION), 4.0),
        (UsageRecord(llm_input_tokens=MILLION, llm_cached_tokens=MILLION), 0.5),
        (UsageRecord(llm_input_tokens=3 * MILLION, llm_cached_tokens=MILLION, llm_cache_write_tokens=MILLION), 9.5),
        (UsageRecord(llm_output_tokens=MILLION), 16.0),
        (UsageRecord(llm_input_tokens=MILLION, llm_input_audio_tokens=MILLION), 32.0),
        (UsageRecord(llm_output_tokens=2 * MILLION, llm_output_audio_tokens=MILLION), 80.0),
        (
            UsageRecord(
                llm_input_tokens=4 * MILLION,
                llm_input_audio_tokens=2 * MILLION,
                llm_cached_tokens=2 * MILLION,
                llm_cached_audio_tokens=MILLION,
            ),
            4.0 + 0.5 + 32.0 + 1.0,
        ),
        (UsageRecord(stt_audio_seconds=90.0), 0.009),
        (UsageRecord(tts_characters=200, tts_audio_seconds=60.0), 0.003),
    ],
)
def test_each_kind_of_usage_has_its_own_price(used: UsageRecord, cost: float) -> None:
    assert FULL.of(used) == pytest.approx(cost)


def test_parts_of_the_tokens_without_a_price_have_that_of_the_whole() -> None:
    plain = Price(million_input=4.0, million_output=16.0)
    used = UsageRecord(
        llm_input_tokens=MILLION,
        llm_input_audio_tokens=MILLION // 2,
        llm_cached_tokens=MILLION // 4,
        llm_cache_write_tokens=MILLION // 8,
        llm_output_tokens=MILLION,
        llm_output_audio_tokens=MILLION,
    )
    assert plain.of(used) == pytest.approx(20.0)


def test_a_voice_without_a_price_for_characters_costs_by_the_minute() -> None:
    assert Price(audio_minute=0.015).of(UsageRecord(tts_characters=200, tts_audio_seconds=120.0)) == pytest.approx(0.03)


def test_a_price_without_amounts_is_free() -> None:
    used = UsageRecord(llm_input_tokens=9, llm_output_tokens=9, tts_characters=9, stt_audio_seconds=9.0)
    assert (Price().of(used), Price().is_free, Price(audio_minute=0).is_free) == (0.0, True, False)


@pytest.mark.parametrize("amount", [-1, math.nan, math.inf, True, "2.5"])
def test_an_amount_that_is_none_is_refused(amount: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"need million_input >= 0, a number, or None, got"):
        Price(million_input=amount)


def test_a_component_without_a_price_is_refused_by_name_with_the_entry_that_is_missing() -> None:
    prices = PriceList({"openai/gpt-4o": Price(million_input=2.5, million_output=10)})
    prices.check([("llm", "openai/gpt-4o")])
    with pytest.raises(ConfigurationError) as refused:
        prices.check([("tts", "openai/tts-1")])
    assert str(refused.value) == (
        "a cost limit needs the price of each component, got none for the tts 'openai/tts-1'; add it to "
        "BudgetOptions.prices: {'openai/tts-1': Price(million_characters=…)}, or Price() if it costs nothing"
    )


def test_all_components_without_a_price_are_refused_at_once_each_with_its_entry() -> None:
    half = Price(million_input=2.5)
    prices = PriceList({"openai/large": half})
    parts = [("stt", "openai/ears"), ("llm", "openai/large"), ("llm", "openai/small"), ("tts", "openai/voice")]
    with pytest.raises(ConfigurationError) as refused:
        prices.check([*parts, *parts])
    assert str(refused.value) == (
        "a cost limit needs the price of each component, got none for the stt 'openai/ears', the llm 'openai/small', "
        "the tts 'openai/voice'; add them to BudgetOptions.prices: {'openai/ears': Price(audio_minute=…), "
        "'openai/small': Price(million_input=…, million_output=…), 'openai/voice': Price(million_characters=…)}, or "
        "Price() for one that costs nothing; and the price of the llm 'openai/large' needs million_input and "
        f"million_output, by which its usage is counted, got {half!r}"
    )


def test_components_of_one_name_share_an_entry_with_the_amounts_of_all() -> None:
    with pytest.raises(ConfigurationError, match=r"\{'acme': Price\(audio_minute=…, million_characters=…\)\}"):
        PriceList({}).check([("stt", "acme"), ("tts", "acme")])


@pytest.mark.parametrize(
    ("kind", "price", "is_enough"),
    [
        ("stt", Price(audio_minute=0.006), True),
        ("stt", Price(million_characters=1.0), False),
        ("tts", Price(audio_minute=0.015), True),
        ("tts", Price(million_characters=15.0), True),
        ("tts", Price(million_input=1.0), False),
        ("llm", Price(million_input=1.0), False),
        ("llm", Price(million_input=1.0, million_output=1.0), True),
        ("realtime_model", Price(million_input=1.0, million_output=1.0), False),
        ("realtime_model", Price(million_audio_input=1.0, million_audio_output=1.0), True),
        ("realtime_model", Price(million_audio_input=1.0, million_output=1.0), True),
        ("llm", Price(), True),
    ],
)
def test_a_price_must_have_the_amounts_by_which_the_component_is_counted(
    kind: str, price: Price, is_enough: bool
) -> None:
    prices = PriceList({"acme/one": price})
    if is_enough:
        prices.check([(kind, "acme/one")])
        return
    with pytest.raises(ConfigurationError, match=f"the price of the {kind} 'acme/one' needs .*, by which its usage"):
        prices.check([(kind, "acme/one")])


def test_a_function_is_asked_once_for_each_name() -> None:
    asked: list[str] = []

    def price_of(name: str) -> Price | None:
        asked.append(name)
        return Price() if name == "acme" else None

    prices = PriceList(price_of)
    assert [prices.of(name) for name in ("acme", "acme", "other", "other")] == [Price(), Price(), None, None]
    assert asked == ["acme", "other"]


def test_a_function_that_raises_or_returns_something_else_is_named() -> None:
    def lost(name: str) -> Price:
        raise KeyError(name)

    def text(name: str) -> Any:
        return "cheap"

    def leaving(name: str) -> Price:
        raise SystemExit

    with pytest.raises(ConfigurationError, match=r"BudgetOptions.prices\('acme'\) raised KeyError"):
        PriceList(lost).of("acme")
    with pytest.raises(ConfigurationError, match=r"raised SessionError: the function ended with SystemExit"):
        PriceList(leaving).of("acme")
    with pytest.raises(ConfigurationError, match=r"BudgetOptions.prices\('acme'\) must return a Price or None, got 'c"):
        PriceList(text).of("acme")


PRICES = {"acme": Price()}


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"cost": -2, "prices": PRICES}, r"need 0 <= cost <= 1e\+15, or -1 for no limit, got -2"),
        ({"cost": math.nan, "prices": PRICES}, r"need 0 <= cost <= 1e\+15, or -1 for no limit, got nan"),
        ({"cost": True, "prices": PRICES}, r"cost <= .* got True"),
        ({"latency": "2"}, r"need 0 <= latency <= 1e\+15 \(s\), or -1 for no limit, got '2'"),
        ({"latency": math.inf}, r"latency <= .* got inf"),
        ({"accuracy": 1.5}, r"need 0 <= accuracy <= 1, or -1 for no limit, got 1.5"),
        ({"cost": 1.0}, r"a cost limit needs prices, got None; such as"),
        ({"prices": {"acme": 2.5}}, r"prices must map 'provider/model' to Price\(…\), got 'acme': 2.5"),
        ({"prices": 3}, r"prices must be a dict of .* or a function, got 3"),
        ({"warn_at": 0}, r"need warn_at > 0"),
        ({"warn_at": 1.1}, r"need 0 < warn_at <= 1, a share of the limit, got 1.1"),
        ({"degrade": lambda session: None}, r"need degrade as a list"),
        ({"degrade": ["cheaper"]}, r"need each of degrade as a function, got 'cheaper'"),
        ({"goodbye": None}, r"need goodbye as a str"),
        ({"then": "stop"}, r"need then 'close' or 'hangup', got 'stop'"),
    ],
)
def test_options_that_can_never_work_are_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        BudgetOptions(**given)

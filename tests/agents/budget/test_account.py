"""The account of a budget: when a limit is near or reached, and laws that hold for any order of inputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.agents.budget.account import TURNS, Account, Decision
from vivavoce.agents.budget.amounts import KINDS, Allocation, Kind, limits_of, uses_of
from vivavoce.agents.budget.price import Price
from vivavoce.agents.core.usage import UsageByModel
from vivavoce.agents.records import UsageRecord
from vivavoce.pipelines.core.errors import ConfigurationError

PRICES = {
    "acme/mind": Price(million_input=2.0, million_output=8.0, million_audio_input=20.0),
    "acme/ears": Price(audio_minute=0.006),
    "acme/voice": Price(million_characters=15.0),
    "acme/free": Price(),
}


class Counting(Account):
    """An account, with the count of the models that it reads."""

    def __init__(self, limits: Allocation, warn_at: float) -> None:
        self._count = UsageByModel()
        super().__init__(limits, warn_at=warn_at, price_of=PRICES.get, usage=self._count.models)

    def use_model(self, name: str, used: UsageRecord) -> list[Decision]:
        self._count.add(name, used)
        return self.used()


def account(cost: float = -1, accuracy: float = -1, latency: float = -1, warn_at: float = 0.8) -> Counting:
    limits = Allocation(cost=cost, accuracy=accuracy, latency=latency)
    return Counting(limits, warn_at)


def told(decisions: list[Decision]) -> list[tuple[str, str]]:
    return [(decision.kind, decision.level) for decision in decisions]


# --- cost


def test_the_cost_is_near_its_limit_at_the_share_and_reached_at_the_limit() -> None:
    budget = account(cost=1.0)
    assert budget.spent(0.5) == []
    assert budget.spent(0.25) == []
    assert budget.spent(0.125) == [Decision("near", "cost", 0.875, 1.0)]
    assert not budget.is_over
    assert budget.spent(0.125) == [Decision("reached", "cost", 1.0, 1.0)]
    assert budget.is_over
    assert budget.spent(1.0) == []  # once


def test_a_use_that_jumps_over_both_marks_is_a_warning_and_a_limit() -> None:
    assert told(account(cost=1.0).spent(2.0)) == [("cost", "near"), ("cost", "reached")]


def test_a_limit_of_nothing_is_reached_by_the_first_cost_and_not_before() -> None:
    budget = account(cost=0)
    assert budget.use_model("acme/free", UsageRecord(llm_input_tokens=5)) == []
    assert not budget.is_over
    assert told(budget.spent(0.001)) == [("cost", "near"), ("cost", "reached")]


def test_another_limit_is_judged_anew_and_the_same_one_is_not() -> None:
    budget = account(cost=1.0)
    budget.spent(0.9)
    assert budget.allocate(Allocation(cost=1.0)) == []
    assert told(budget.allocate(Allocation(cost=0.95))) == [("cost", "near")]
    assert told(budget.allocate(Allocation(cost=0.9))) == [("cost", "near"), ("cost", "reached")]
    assert budget.allocate(Allocation(cost=5.0)) == []
    assert not budget.is_over
    assert budget.allocate(Allocation()) == []
    assert budget.spent(100.0) == []


def test_models_are_counted_apart_and_a_model_without_a_price_is_free() -> None:
    budget = account()
    budget.use_model("acme/mind", UsageRecord(llm_input_tokens=500_000, llm_input_audio_tokens=100_000))
    budget.use_model("acme/ears", UsageRecord(stt_audio_seconds=60.0))
    budget.use_model("acme/mind", UsageRecord(llm_input_tokens=100_000))
    budget.use_model("unknown", UsageRecord(llm_input_tokens=1))
    assert budget.usage["acme/mind"] == UsageRecord(llm_input_tokens=600_000, llm_input_audio_tokens=100_000)
    assert budget.costs == pytest.approx({"acme/mind": 3.0, "acme/ears": 0.006, "unknown": 0.0})
    assert budget.use()["cost"] == pytest.approx(3.006)


# --- latency and accuracy


def test_the_median_latency_is_judged_from_the_fifth_turn_on() -> None:
    budget = account(latency=1.0)
    assert [budget.answered(3.0) for _ in range(4)] == [[]] * 4
    assert told(budget.answered(0.2)) == [("latency", "near"), ("latency", "reached")]
    assert budget.use()["latency"] == 3.0


def test_a_latency_that_has_fallen_warns_again_when_it_rises_again() -> None:
    budget = account(latency=1.0)
    for _ in range(5):
        budget.answered(0.85)
    assert [told(budget.answered(0.1)) for _ in range(5)] == [[]] * 5
    found = [decision for _ in range(5) for decision in budget.answered(0.85)]
    assert told(found) == [("latency", "near")]


def test_the_mean_of_the_scores_must_not_fall_below_the_accuracy() -> None:
    budget = account(accuracy=0.5)
    assert budget.scored(1.0) == []
    assert budget.scored(0.5) == []
    assert told(budget.scored(0.25)) == [("accuracy", "near")]  # 0.58: 83 % of the errors that are allowed
    assert told(budget.scored(0.0)) == [("accuracy", "reached")]  # 0.4375
    assert budget.use()["accuracy"] == pytest.approx(0.4375)


def test_a_perfect_mean_is_near_no_limit() -> None:
    assert account(accuracy=1.0).scored(1.0) == []
    assert told(account(accuracy=1.0).scored(0.999)) == [("accuracy", "near"), ("accuracy", "reached")]


def test_after_a_step_against_a_limit_five_new_values_decide_whether_it_is_reached_again() -> None:
    budget = account(latency=1.0)
    for _ in range(5):
        budget.answered(2.0)
    budget.judge_anew("latency")
    assert [told(budget.answered(2.0)) for _ in range(4)] == [[]] * 4
    assert told(budget.answered(2.0)) == [("latency", "reached")]  # the warning was given
    budget.judge_anew("latency")
    assert [told(budget.answered(0.5)) for _ in range(5)] == [[]] * 5
    assert not budget.has_reached("latency")


def test_before_there_is_a_value_there_is_no_use() -> None:
    assert account().use() == {"cost": 0.0, "accuracy": None, "latency": None}


# --- amounts


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("amount", [-0.5, -1.0001, math.nan, math.inf, True, "1", [1]])
def test_an_amount_that_is_none_is_refused(kind: Kind, amount: Any) -> None:
    with pytest.raises(ValueError, match=f"{kind}.*got"):
        limits_of(**{"cost": None, "accuracy": None, "latency": None, kind: amount})
    with pytest.raises(ConfigurationError, match=f"{kind}.*got"):
        uses_of(**{"cost": None, "accuracy": None, "latency": None, kind: amount})


def test_no_limit_is_a_limit_and_no_use() -> None:
    assert limits_of(-1, None, 0) == {"cost": -1.0, "latency": 0.0}
    with pytest.raises(ValueError, match="leave out an amount that has not changed"):
        uses_of(-1, None, None)


def test_with_nx_only_limits_that_are_not_set_are_set() -> None:
    limits = Allocation(cost=1.0)
    assert limits.changed({"cost": 2.0, "latency": 3.0}, nx=True) == Allocation(cost=1.0, latency=3.0)
    assert limits.changed({"cost": 2.0}) == Allocation(cost=2.0)


# --- laws


@dataclass(frozen=True)
class Step:
    """One input of an account."""

    name: str
    value: Any


amounts = st.floats(0, 10, allow_nan=False)
limits = st.one_of(st.just(-1.0), amounts)
usages = st.builds(
    UsageRecord,
    llm_input_tokens=st.integers(0, 10**6),
    llm_output_tokens=st.integers(0, 10**6),
    tts_characters=st.integers(0, 10**5),
    stt_audio_seconds=st.floats(0, 600),
)
used = st.builds(Step, st.sampled_from([*PRICES, "unknown"]), usages)
spent = st.builds(Step, st.just("spent"), amounts)
steps = st.lists(
    st.one_of(
        used,
        spent,
        st.builds(Step, st.just("answered"), amounts),
        st.builds(Step, st.just("scored"), st.floats(0, 1)),
        st.builds(Step, st.just("judge_anew"), st.sampled_from(KINDS)),
        st.builds(
            Step,
            st.just("allocate"),
            st.builds(Allocation, cost=limits, accuracy=st.one_of(st.just(-1.0), st.floats(0, 1)), latency=limits),
        ),
    ),
    max_size=60,
)


def take(budget: Counting, step: Step) -> list[Decision]:
    if isinstance(step.value, UsageRecord):
        return budget.use_model(step.name, step.value)
    found = getattr(budget, step.name)(step.value)
    return found or []


@given(st.lists(st.one_of(used, spent)), st.randoms())
def test_the_cost_is_the_sum_of_its_parts_in_any_order(parts: list[Step], random: Any) -> None:
    one, other = account(), account()
    for step in parts:
        take(one, step)
    shuffled = list(parts)
    random.shuffle(shuffled)
    for step in shuffled:
        take(other, step)
    whole = math.fsum(
        step.value if step.name == "spent" else PRICES.get(step.name, Price()).of(step.value) for step in parts
    )
    assert one.cost == pytest.approx(other.cost, rel=1e-9)
    assert one.cost == pytest.approx(whole, rel=1e-9)


@given(steps)
def test_each_limit_is_near_before_it_is_reached_and_neither_comes_twice_without_a_cause(inputs: list[Step]) -> None:
    budget = account(cost=3.0, accuracy=0.5, latency=2.0)
    level: dict[Kind, int] = dict.fromkeys(KINDS, 0)
    for step in inputs:
        before = budget.allocation
        decisions = take(budget, step)
        if step.name == "allocate":
            for kind in KINDS:
                if before.to_json()[kind] != budget.allocation.to_json()[kind]:
                    level[kind] = 0
        if step.name == "judge_anew":
            level[step.value] = min(level[step.value], 1)
        for decision in decisions:
            step_to = 1 if decision.level == "near" else 2
            assert step_to == level[decision.kind] + 1
            level[decision.kind] = step_to
            assert decision.limit == budget.allocation.to_json()[decision.kind] >= 0
        for kind in KINDS:
            if not budget.has_reached(kind):
                level[kind] = min(level[kind], 1)
            if not _is_near(budget, kind):
                level[kind] = 0


def _is_near(budget: Account, kind: Kind) -> bool:
    use, limit = budget.use()[kind], budget.allocation.to_json()[kind]
    if use is None or limit < 0:
        return False
    if kind == "accuracy":
        return use < limit or (use < 1 and 1 - use >= 0.8 * (1 - limit))
    return use > 0 and use >= 0.8 * limit


@given(steps)
def test_without_limits_nothing_is_decided(inputs: list[Step]) -> None:
    budget = account()
    for step in inputs:
        if step.name != "allocate":
            assert take(budget, step) == []
    assert not any(budget.has_reached(kind) for kind in KINDS)


@given(steps)
def test_the_cost_is_over_when_it_is_as_high_as_its_limit_and_an_account_that_is_kept_goes_on(
    inputs: list[Step],
) -> None:
    budget = account(cost=1.0)
    for step in inputs:
        take(budget, step)
        limit = budget.allocation.cost
        assert budget.is_over == (limit != -1 and budget.cost > 0 and budget.cost >= limit)
    kept = budget.to_json()
    other = Account(budget.allocation, warn_at=0.8, price_of=lambda name: None)  # the price may be gone
    other.restore(kept)
    assert other.use() == pytest.approx(budget.use())
    assert (other.usage, other.changes) == (budget.usage, budget.changes)
    assert other.is_over == budget.is_over or math.isclose(budget.cost, budget.allocation.cost)
    other.spent(0.25)
    assert other.cost == pytest.approx(budget.cost + 0.25)


@given(steps, steps, steps)
def test_newer_use_of_the_sessions_before_takes_the_place_of_older_and_own_use_stays_on_top(
    older: list[Step], newer: list[Step], own: list[Step]
) -> None:
    before, late, whole = account(), account(), account()
    for step in older:
        take(before, step)
    snapshot = before.to_json()
    for step in newer:
        take(before, step)
    late.restore(snapshot)
    whole.restore(before.to_json())
    for step in own:
        take(late, step)
        take(whole, step)
    late.restore(before.to_json())
    assert late.use() == pytest.approx(whole.use())
    assert (late.usage, late.changes, late.earlier_changes) == (whole.usage, whole.changes, before.changes)


@given(st.lists(amounts, min_size=TURNS))
def test_the_latency_in_use_is_the_median_of_the_last_five(latencies: list[float]) -> None:
    budget = account(latency=1.0)
    for latency in latencies:
        budget.answered(latency)
    assert budget.use()["latency"] == sorted(latencies[-TURNS:])[TURNS // 2]
    assert budget.has_reached("latency") == (budget.use()["latency"] >= 1.0)  # type: ignore[operator]

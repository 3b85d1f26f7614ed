"""The load from measured facts; time is stepped by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vivavoce.agents.worker.executors.executor import ProcessFacts
from vivavoce.agents.worker.load import FULL_DELAY, WINDOW, Limits, LoadMeter, MeasuredLoad

GIB = 2**30


def _process(*, pid: int = 1, cpu_time: float = 0.0, memory: int = 0, loop_delay: float = 0.0) -> ProcessFacts:
    return ProcessFacts(pid=pid, jobs=0, cpu_time=cpu_time, memory=memory, loop_delay=loop_delay)


def _limits(*, cores: float = 1.0, memory: int | None = None, available: int | None = None) -> Limits:
    return Limits(cores=cores, memory=memory, available_memory=available)


def test_the_first_measurement_knows_no_rate_of_cpu() -> None:
    assert LoadMeter().measure([_process(cpu_time=100.0)], _limits(), now=0.0) == MeasuredLoad()


def test_cpu_is_the_share_of_the_cores_that_all_processes_used_together() -> None:
    meter = LoadMeter()
    meter.measure([_process(pid=1), _process(pid=2)], _limits(cores=2.0), now=0.0)

    load = meter.measure([_process(pid=1, cpu_time=1.0), _process(pid=2, cpu_time=2.0)], _limits(cores=2.0), now=2.5)

    assert load.cpu == pytest.approx(3.0 / 5.0)


def test_half_a_core_is_full_at_half_a_core() -> None:
    meter = LoadMeter()
    meter.measure([_process()], _limits(cores=0.5), now=0.0)

    assert meter.measure([_process(cpu_time=1.25)], _limits(cores=0.5), now=2.5).cpu == pytest.approx(1.0)


def test_a_process_that_ended_takes_nothing_from_the_load_of_the_others() -> None:
    meter = LoadMeter()
    meter.measure([_process(pid=1, cpu_time=50.0), _process(pid=2, cpu_time=5.0)], _limits(), now=0.0)

    assert meter.measure([_process(pid=2, cpu_time=6.0)], _limits(), now=2.0).cpu == pytest.approx(0.5)


def test_a_short_burst_is_averaged_and_a_long_one_counts_whole() -> None:
    meter = LoadMeter()
    for second in range(0, 10, 2):
        meter.measure([_process(cpu_time=0.0)], _limits(), now=float(second))

    assert meter.measure([_process(cpu_time=2.0)], _limits(), now=10.0).cpu == pytest.approx(0.2)
    for step in range(1, 6):
        load = meter.measure([_process(cpu_time=2.0 + 2.0 * step)], _limits(), now=10.0 + 2.0 * step)
    assert load.cpu == pytest.approx(1.0)


def test_memory_is_compared_with_the_limit_of_the_control_group() -> None:
    load = LoadMeter().measure(
        [_process(pid=1, memory=GIB), _process(pid=2, memory=GIB)], _limits(memory=4 * GIB, available=64 * GIB), now=0.0
    )

    assert load.memory == pytest.approx(0.5)


def test_memory_that_other_programs_of_the_machine_hold_is_not_available() -> None:
    load = LoadMeter().measure([_process(memory=3 * GIB)], _limits(memory=64 * GIB, available=GIB), now=0.0)

    assert load.memory == pytest.approx(0.75)


def test_the_freest_event_loop_counts_since_a_new_job_goes_there() -> None:
    meter = LoadMeter()
    meter.measure([], _limits(), now=0.0)
    late, free = _process(pid=1, loop_delay=5.0), _process(pid=2, loop_delay=0.05)

    assert meter.measure([late, free], _limits(), now=2.0).delay == pytest.approx(0.05 / FULL_DELAY)
    assert meter.measure([late], _limits(), now=20.0).delay == 1.0


def test_the_scarcest_resource_decides() -> None:
    assert MeasuredLoad(cpu=0.2, memory=0.9, delay=0.1).largest == 0.9


def test_another_measurement_is_due_after_a_while() -> None:
    meter = LoadMeter()
    assert meter.is_due(5.0)

    meter.measure([], _limits(), now=5.0)

    assert (meter.is_due(5.9), meter.is_due(6.0)) == (False, True)


_facts = st.builds(
    _process,
    pid=st.integers(1, 3),
    cpu_time=st.floats(0, 1e6),
    memory=st.integers(0, 2**45),
    loop_delay=st.floats(0, 1e4),
)
_measurements = st.lists(st.tuples(st.floats(1.0, 3 * WINDOW), st.lists(_facts, max_size=3)), max_size=12)


@given(_measurements, st.floats(0.01, 256), st.none() | st.integers(1, 2**45), st.none() | st.integers(0, 2**45))
def test_each_share_lies_between_nothing_and_full(
    measurements: list[tuple[float, list[ProcessFacts]]], cores: float, memory: int | None, available: int | None
) -> None:
    meter, now = LoadMeter(), 0.0
    for seconds, processes in measurements:
        now += seconds
        load = meter.measure(processes, _limits(cores=cores, memory=memory, available=available), now=now)
        assert all(0.0 <= share <= 1.0 for share in (load.cpu, load.memory, load.delay))

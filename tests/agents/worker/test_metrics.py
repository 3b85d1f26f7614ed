"""The text that Prometheus scrapes, read back by the library's own parser."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from vivavoce.agents.job import JobInfo
from vivavoce.agents.telemetry.metrics.figures import Figure, Point
from vivavoce.agents.worker.effects import WorkerCounts, WorkerStatus
from vivavoce.agents.worker.executors.executor import ProcessFacts
from vivavoce.agents.worker.load import MeasuredLoad
from vivavoce.agents.worker.metrics import WorkerState, exposition

STATUS = WorkerStatus(
    agent_name="host",
    worker_id="AW_1",
    is_registered=True,
    is_draining=False,
    failure="",
    max_jobs=4,
    load=0.25,
    active_jobs=(JobInfo(id="AJ_1", room="r"),),
    counts=WorkerCounts(accepted=3, rejected=1, succeeded=1, failed=1, connections_lost=2),
)
STATE = WorkerState(
    status=STATUS,
    measured=MeasuredLoad(cpu=0.2, memory=0.1, delay=0.05),
    processes=(
        ProcessFacts(pid=7, jobs=1, cpu_time=2.5, memory=1000, loop_delay=0.01),
        ProcessFacts(pid=8, jobs=0, cpu_time=0.5, memory=500, loop_delay=0.0),
    ),
)


def _samples(*figures: Figure) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    body, content_type = exposition(STATE, figures, accept="")
    assert content_type.startswith("text/plain")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(body.decode())
        for sample in family.samples
    }


def test_the_worker_s_state_load_and_counts_are_there() -> None:
    samples = _samples()

    assert samples[("vivavoce_worker_registered", ())] == 1.0
    assert samples[("vivavoce_worker_jobs", ())] == 1.0
    assert samples[("vivavoce_worker_load", ())] == 0.25
    assert samples[("vivavoce_worker_use", (("resource", "cpu"),))] == 0.2
    assert samples[("vivavoce_worker_use", (("resource", "jobs"),))] == 0.25
    assert samples[("vivavoce_worker_offers_total", (("answer", "rejected"),))] == 1.0
    assert samples[("vivavoce_worker_jobs_ended_total", (("outcome", "failed"),))] == 1.0
    assert samples[("vivavoce_worker_connections_lost_total", ())] == 2.0


def test_each_process_has_its_jobs_memory_cpu_and_delay() -> None:
    samples = _samples()

    assert samples[("vivavoce_process_jobs", (("pid", "7"),))] == 1.0
    assert samples[("vivavoce_process_memory_bytes", (("pid", "8"),))] == 500.0
    assert samples[("vivavoce_process_cpu_seconds_total", (("pid", "7"),))] == 2.5
    assert samples[("vivavoce_process_event_loop_delay_seconds", (("pid", "7"),))] == 0.01


def test_a_histogram_of_sessions_has_cumulative_buckets_and_its_unit() -> None:
    latency = Figure(
        name="vivavoce.turn.e2e_latency",
        kind="histogram",
        unit="s",
        description="Latency",
        points=(Point(labels=(("gen_ai.request.model", "m"),), value=1.5, counts=(1, 2, 1)),),
        bounds=(0.1, 1.0),
    )

    samples = _samples(latency)

    model = ("gen_ai_request_model", "m")
    name = "vivavoce_turn_e2e_latency_seconds"
    buckets = {bound: samples[(f"{name}_bucket", (model, ("le", bound)))] for bound in ("0.1", "1.0", "+Inf")}
    assert buckets == {"0.1": 1.0, "1.0": 3.0, "+Inf": 4.0}
    assert (samples[(f"{name}_sum", (model,))], samples[(f"{name}_count", (model,))]) == (1.5, 4.0)


def test_counters_and_gauges_of_sessions_keep_all_labels_of_their_points() -> None:
    turns = Figure(
        name="vivavoce.turns",
        kind="counter",
        unit="{turn}",
        description="Turns",
        points=(Point(labels=(("outcome", "completed"),), value=2.0), Point(labels=(("kind", "say"),), value=1.0)),
    )
    active = Figure(
        name="vivavoce.sessions.active",
        kind="gauge",
        unit="{session}",
        description="Active",
        points=(Point(labels=(), value=3.0),),
    )

    samples = _samples(turns, active)

    assert samples[("vivavoce_turns_total", (("kind", ""), ("outcome", "completed")))] == 2.0
    assert samples[("vivavoce_turns_total", (("kind", "say"), ("outcome", "")))] == 1.0
    assert samples[("vivavoce_sessions_active", ())] == 3.0


def test_a_scraper_that_asks_for_open_metrics_gets_it() -> None:
    body, content_type = exposition(STATE, (), accept="application/openmetrics-text; version=1.0.0")

    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")

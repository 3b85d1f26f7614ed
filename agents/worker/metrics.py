"""The worker's figures for Prometheus: one scrape covers the worker, its job processes and all their sessions.

The extra `prometheus` brings the library. Job processes send their figures with their heartbeats, so no file is shared
and none is left behind.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vivavoce.agents.telemetry.metrics.figures import Figure
from vivavoce.agents.worker.effects import WorkerStatus
from vivavoce.agents.worker.executors.executor import ProcessFacts
from vivavoce.agents.worker.load import MeasuredLoad
from vivavoce.agents.worker.options import WorkerOptions

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader
    from prometheus_client.core import Metric
    from prometheus_client.registry import Collector

NEEDS_EXTRA = "metrics for Prometheus need prometheus-client: pip install 'vivavoce[prometheus]'"

UNITS = {"s": "seconds", "By": "bytes"}
"""Units that Prometheus writes into names; braces hold mere words."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerState:
    """The state of a worker and its processes at one moment.

    Args:
        measured: Its load without its jobs.
        processes: Facts of each process that can run jobs.
    """

    status: WorkerStatus
    measured: MeasuredLoad
    processes: tuple[ProcessFacts, ...]


def has_library() -> bool:
    """Return whether the extra `prometheus` is installed."""
    return importlib.util.find_spec("prometheus_client") is not None


def metric_reader(options: WorkerOptions) -> InMemoryMetricReader | None:
    """Return a reader of the metrics of the sessions in this process; None if the worker serves no metrics."""
    if options.health_port is None or not has_library():
        return None
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    return InMemoryMetricReader()


def exposition(state: WorkerState, figures: tuple[Figure, ...], accept: str) -> tuple[bytes, str]:
    """Return the text for one scrape and its content type, by the header `Accept`; takes some milliseconds."""
    from prometheus_client import CollectorRegistry
    from prometheus_client.exposition import choose_encoder

    registry = CollectorRegistry(auto_describe=False)
    registry.register(_collector(state, figures))
    encode, content_type = choose_encoder(accept)
    return encode(registry), content_type


def _collector(state: WorkerState, figures: tuple[Figure, ...]) -> Collector:
    from prometheus_client.registry import Collector

    class WorkerCollector(Collector):
        def collect(self) -> Iterator[Metric]:
            yield from _of_worker(state.status, state.measured)
            yield from _of_processes(state.processes)
            yield from map(_of_sessions, figures)

    return WorkerCollector()


def _of_worker(status: WorkerStatus, measured: MeasuredLoad) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    gauges = {
        "registered": ("Whether the LiveKit server has registered the worker", status.is_registered),
        "ready": ("Whether the worker is registered and takes jobs, or will when one ends", status.is_ready),
        "draining": ("Whether the worker takes no more jobs and ends with its last one", status.is_draining),
        "jobs": ("Running jobs", len(status.active_jobs)),
        "max_jobs": ("Maximum number of jobs", status.max_jobs),
        "load": ("Load of the worker, 0 to 1; the server receives at most 0.69 from one that takes jobs", status.load),
    }
    for name, (description, value) in gauges.items():
        yield GaugeMetricFamily(f"vivavoce_worker_{name}", description, float(value))
    use = GaugeMetricFamily("vivavoce_worker_use", "Share of a resource in use, 0 to 1", labels=["resource"])
    shares = {"cpu": measured.cpu, "memory": measured.memory, "event_loop": measured.delay}
    for resource, share in shares.items():
        use.add_metric([resource], share)
    use.add_metric(["jobs"], len(status.active_jobs) / status.max_jobs)
    yield use
    counts = status.counts
    ended = CounterMetricFamily("vivavoce_worker_jobs_ended", "Jobs that are over", labels=["outcome"])
    ended.add_metric(["success"], counts.succeeded)
    ended.add_metric(["failed"], counts.failed)
    yield ended
    offers = CounterMetricFamily("vivavoce_worker_offers", "Jobs that the server offered", labels=["answer"])
    offers.add_metric(["accepted"], counts.accepted)
    offers.add_metric(["rejected"], counts.rejected)
    yield offers
    lost = "Connections to the LiveKit server that failed or were lost"
    yield CounterMetricFamily("vivavoce_worker_connections_lost", lost, counts.connections_lost)


def _of_processes(processes: tuple[ProcessFacts, ...]) -> Iterator[Metric]:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

    labels = ["pid"]
    jobs = GaugeMetricFamily("vivavoce_process_jobs", "Jobs in a process", labels=labels)
    memory = GaugeMetricFamily(
        "vivavoce_process_memory_bytes", "Memory of a process; pages that processes share count in parts", labels=labels
    )
    delay = GaugeMetricFamily(
        "vivavoce_process_event_loop_delay_seconds", "Longest delay of the event loop lately", labels=labels
    )
    cpu = CounterMetricFamily("vivavoce_process_cpu_seconds", "CPU time of a process", labels=labels)
    for process in processes:
        pid = [str(process.pid)]
        jobs.add_metric(pid, process.jobs)
        memory.add_metric(pid, process.memory)
        delay.add_metric(pid, process.loop_delay)
        cpu.add_metric(pid, process.cpu_time)
    yield from (jobs, memory, delay, cpu)


def _of_sessions(figure: Figure) -> Metric:
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

    name = _name(figure)
    labels = sorted({label for point in figure.points for label, _ in point.labels})
    named = [_legal(label) for label in labels]
    family: HistogramMetricFamily | CounterMetricFamily | GaugeMetricFamily
    if figure.kind == "histogram":
        family = HistogramMetricFamily(name, figure.description, labels=named)
    elif figure.kind == "counter":
        family = CounterMetricFamily(name, figure.description, labels=named)
    else:
        family = GaugeMetricFamily(name, figure.description, labels=named)
    for point in figure.points:
        given = dict(point.labels)
        values = [given.get(label, "") for label in labels]
        if isinstance(family, HistogramMetricFamily):
            family.add_metric(values, _buckets(figure.bounds, point.counts), point.value)
        else:
            family.add_metric(values, point.value)
    return family


def _buckets(bounds: tuple[float, ...], counts: tuple[int, ...]) -> list[tuple[str, float]]:
    """Return Prometheus's buckets, each with the values up to its bound."""
    total, buckets = 0, []
    for bound, count in zip([*map(_bound, bounds), "+Inf"], counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets


def _bound(bound: float) -> str:
    return repr(float(bound))


def _name(figure: Figure) -> str:
    """Return the metric's name as OpenTelemetry's compatibility rules make it: `vivavoce_turn_e2e_latency_seconds`."""
    unit = UNITS.get(figure.unit, "")
    name = _legal(figure.name)
    return name if not unit or name.endswith(unit) else f"{name}_{unit}"


def _legal(name: str) -> str:
    return re.sub(r"[^a-zA-Z0-9_]", "_", name)

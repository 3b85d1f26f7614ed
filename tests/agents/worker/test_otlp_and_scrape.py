"""A worker whose metrics go to Prometheus and to an OTLP endpoint: one provider with a reader for each."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import anyio
import pytest
from aiohttp import ClientSession

from kit import job_process_app as app
from kit.e2e.working import Working
from kit.servers.agent_server import AgentServer
from kit.servers.otlp_endpoint import OtlpEndpoint, otlp_endpoint
from vivavoce.agents.worker.executors.options import ProcessExecution, TaskExecution
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.worker import Worker

pytestmark = pytest.mark.timeout(180)

LIMIT = 60.0


async def _counted_at_both(worker: Worker, endpoint: OtlpEndpoint) -> None:
    async with ClientSession() as client, asyncio.timeout(LIMIT):
        while True:
            async with client.get(f"http://127.0.0.1:{worker.health_port}/metrics") as answer:
                is_scraped = "vivavoce_turns_total{" in await answer.text()
            if is_scraped and any(b"vivavoce.turns" in body for _, body in endpoint.received):
                return
            await anyio.sleep(0.1)


@pytest.mark.parametrize("executor", [TaskExecution(), ProcessExecution(processes=1)], ids=["tasks", "processes"])
async def test_sessions_are_counted_in_the_scrape_and_at_the_otlp_endpoint(
    executor: TaskExecution | ProcessExecution, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with otlp_endpoint() as endpoint:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.url)
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "200")
        async with AgentServer() as server, ClientSession() as client:
            account: dict[str, Any] = {"url": server.url, "api_key": server.api_key, "api_secret": server.api_secret}
            worker = Worker(app.entrypoint, options=WorkerOptions(**account, executor=executor, health_port=0))
            with caplog.at_level(logging.WARNING):
                async with Working(worker):
                    async with client.get(f"http://127.0.0.1:{worker.health_port}/metrics") as answer:
                        assert "vivavoce_turns_total{" not in await answer.text()  # no session has been yet
                    await server.start("AJ_1", "speak and wait")
                    await _counted_at_both(worker, endpoint)

    assert {path for path, body in endpoint.received if b"vivavoce.turns" in body} == {"/v1/metrics"}
    assert not [record.getMessage() for record in caplog.records if "MetricReader" in record.getMessage()]

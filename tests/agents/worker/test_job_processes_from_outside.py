"""Job processes seen from outside: their figures in one scrape, their blocked event loops; real processes, no room."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import anyio
import pytest
from aiohttp import ClientSession
from prometheus_client.parser import text_string_to_metric_families

from kit import job_process_app as app
from kit.e2e.working import Working
from kit.servers.agent_server import AgentServer
from vivavoce.agents.worker.executors.options import ProcessExecution
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.worker import Worker

pytestmark = pytest.mark.timeout(180)

LIMIT = 60.0

Samples = dict[str, float]


async def _scraped(worker: Worker, is_wanted: Callable[[Samples], bool]) -> Samples:
    """Scrape until the sums of the samples, by their names, are as wanted."""
    url = f"http://127.0.0.1:{worker.health_port}/metrics"
    async with ClientSession() as client, asyncio.timeout(LIMIT):
        while True:
            async with client.get(url) as answer:
                text = await answer.text()
            sums: Samples = {}
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
            if is_wanted(sums):
                return sums
            await anyio.sleep(0.2)


async def test_a_scrape_adds_up_the_processes_and_no_counter_falls_when_one_is_lost() -> None:
    async with AgentServer() as server:
        options = WorkerOptions(
            url=server.url,
            api_key=server.api_key,
            api_secret=server.api_secret,
            executor=ProcessExecution(processes=2),
            health_port=0,
        )
        async with Working(Worker(app.entrypoint, options=options)) as working:
            worker = working.worker
            for job in ("AJ_1", "AJ_2"):
                await server.start(job, "speak and wait")
            both = await _scraped(worker, lambda sums: sums.get("vivavoce_turns_total") == 2.0)
            assert both["vivavoce_sessions_active"] == 2.0
            assert both["vivavoce_process_jobs"] == 2.0
            assert both["vivavoce_worker_jobs"] == 2.0

            await server.start("AJ_3", "kill")
            assert "SIGKILL" in (await server.ended("AJ_3")).error
            after = await _scraped(worker, lambda sums: sums["vivavoce_sessions_active"] == 1.0)

        assert after["vivavoce_turns_total"] == 2.0
        assert after["vivavoce_worker_jobs_ended_total"] == 2.0


async def test_code_that_blocks_a_job_process_is_named_in_the_worker_s_log(caplog: pytest.LogCaptureFixture) -> None:
    async with AgentServer() as server:
        options = WorkerOptions(
            url=server.url,
            api_key=server.api_key,
            api_secret=server.api_secret,
            executor=ProcessExecution(processes=1),
            block_limit=0.4,
        )
        with caplog.at_level(logging.WARNING):
            async with Working(Worker(app.entrypoint, options=options)):
                await server.start("AJ_1", "block shortly")
                assert not (await server.ended("AJ_1")).error

    blocked = [record.getMessage() for record in caplog.records if "is blocked for" in record.getMessage()]
    # A busy machine blocks a loop too.
    assert any("job_process_app.py" in one and "in entrypoint" in one for one in blocked), blocked

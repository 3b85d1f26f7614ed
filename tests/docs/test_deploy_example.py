"""examples/deploy: the linters pass, and its files agree with each other and with the worker."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from aiohttp import ClientSession

from kit.e2e.working import Working
from kit.servers import install
from kit.servers.agent_server import AgentServer
from kit.servers.missing import missing
from vivavoce.agents.cli.app_file import load_app
from vivavoce.agents.job import JobContext
from vivavoce.agents.worker.executors.options import TaskExecution
from vivavoce.agents.worker.job import LEAVE_LIMIT
from vivavoce.agents.worker.options import WorkerOptions
from vivavoce.agents.worker.worker import Worker

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "examples" / "deploy"

Manifest = dict[str, Any]


def _manifests() -> list[Manifest]:
    return list(yaml.safe_load_all((DEPLOY / "kubernetes.yaml").read_text()))


def _manifest(kind: str) -> Manifest:
    [found] = [manifest for manifest in _manifests() if manifest["kind"] == kind]
    return found


def _pod() -> Manifest:
    pod: Manifest = _manifest("Deployment")["spec"]["template"]["spec"]
    return pod


def _container() -> Manifest:
    [container] = _pod()["containers"]
    return dict(container)


@pytest.fixture(scope="module")
def worker() -> Worker:
    """The worker of the image."""
    return load_app(DEPLOY / "agent.py").worker


def test_hadolint_finds_nothing_in_the_dockerfile() -> None:
    hadolint = Path(sys.executable).with_name("hadolint")

    done = subprocess.run([hadolint, DEPLOY / "Dockerfile"], capture_output=True, text=True, check=False)

    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("manifest", _manifests(), ids=lambda manifest: manifest["kind"])
def test_each_manifest_is_valid_for_kubernetes(manifest: Manifest) -> None:
    kubernetes_validate.validate(manifest, kubernetes_validate.latest_version(), strict=True)


@pytest.mark.test_all("building kube-score takes minutes")
@pytest.mark.timeout(900)
def test_kube_score_finds_nothing_in_the_manifests() -> None:
    try:
        kube_score = install.kube_score()
    except install.InstallError as error:
        missing("kube-score", str(error))

    command = [str(kube_score), "score", "--output-format", "ci", str(DEPLOY / "kubernetes.yaml")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    findings = [line for line in done.stdout.splitlines() if not line.startswith(("[OK]", "[SKIPPED]"))]
    assert (done.returncode, findings) == (0, [])


def test_the_image_contains_only_files_that_exist_and_reach_the_build() -> None:
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    ignored = (DEPLOY / "Dockerfile.dockerignore").read_text().splitlines()
    kept = {line.removeprefix("!") for line in ignored if line.startswith("!")}

    copied = [shlex.split(line)[1] for line in lines if line.startswith("COPY") and "--from" not in line]

    assert all((ROOT / path).exists() for path in kept)
    assert set(copied) - {"."} <= kept
    assert {"agents", "pipelines", "plugins", "pyproject.toml", "setup.py", "README.md", "LICENSE"} <= kept


def test_the_pod_has_time_for_the_drain_and_for_the_end_of_the_last_calls(worker: Worker) -> None:
    options = worker.options
    # Sessions close, the entrypoint returns, sessions that it started close, callbacks run, the agent leaves.
    last_calls = options.entrypoint_timeout + 3 * options.job_close_timeout + LEAVE_LIMIT

    assert _pod()["terminationGracePeriodSeconds"] >= options.drain_timeout + last_calls


def test_the_autoscaler_adds_workers_before_they_refuse_calls(worker: Worker) -> None:
    autoscaler = _manifest("HorizontalPodAutoscaler")["spec"]
    target = autoscaler["metrics"][0]["pods"]["target"]["averageValue"]

    assert autoscaler["scaleTargetRef"]["name"] == _manifest("Deployment")["metadata"]["name"]
    assert worker.options.max_load is not None
    assert int(target.removesuffix("m")) / 1000 < worker.options.max_load


async def test_the_worker_serves_the_probes_and_the_metric_that_the_manifests_name(worker: Worker) -> None:
    container, annotations = _container(), _manifest("Deployment")["spec"]["template"]["metadata"]["annotations"]
    assert container["ports"] == [{"name": "http", "containerPort": worker.options.health_port}]
    assert annotations["prometheus.io/port"] == str(worker.options.health_port)
    assert worker.options.health_host == "0.0.0.0"
    probes = [container[name]["httpGet"]["path"] for name in ("startupProbe", "livenessProbe", "readinessProbe")]
    metric = _manifest("HorizontalPodAutoscaler")["spec"]["metrics"][0]["pods"]["metric"]["name"]

    async def entrypoint(ctx: JobContext) -> None:
        raise AssertionError("no job comes")

    async with AgentServer() as server:
        options = WorkerOptions(
            url=server.url,
            api_key=server.api_key,
            api_secret=server.api_secret,
            executor=TaskExecution(),
            health_port=0,
        )
        async with Working(Worker(entrypoint, options=options)) as working, ClientSession() as client:
            base = f"http://127.0.0.1:{working.worker.health_port}"
            for path in probes:
                async with client.get(f"{base}{path}") as answer:
                    assert answer.status == 200, path
            async with client.get(f"{base}{annotations['prometheus.io/path']}") as answer:
                assert f"\n{metric} " in await answer.text()

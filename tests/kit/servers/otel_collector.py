"""Runs the real OpenTelemetry Collector on loopback: OTLP over HTTP and gRPC in, one line of JSON a batch out."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kit.limits import LIMIT
from kit.servers import install
from kit.servers.missing import missing


class Collector:
    """One collector, which can be killed, frozen and started again on its ports."""

    def __init__(self, binary: Path, folder: Path) -> None:
        self._binary = binary
        self._folder = folder
        self._file = folder / "received.jsonl"
        self._process: subprocess.Popen[bytes] | None = None
        self._http, self._grpc = _free_port(), _free_port()
        self.http_url = f"http://127.0.0.1:{self._http}"
        self.grpc_url = f"http://127.0.0.1:{self._grpc}"

    def start(self) -> None:
        """Start it and wait until it listens."""
        config = self._folder / "config.json"
        config.write_text(json.dumps(self._config()))  # JSON is YAML
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._binary, "--config", str(config)], stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        deadline = time.monotonic() + LIMIT
        while not (_listens(self._http) and _listens(self._grpc)):
            tail = (self._folder / "log").read_text()[-1000:]
            assert self._process.poll() is None, f"the collector ended: {tail}"
            assert time.monotonic() < deadline, f"the collector does not listen: {tail}"
            time.sleep(0.05)

    def freeze(self) -> None:
        """Let it hold its connections and answer nothing."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        assert self._process is not None
        os.kill(self._process.pid, signal.SIGCONT)

    def kill(self) -> None:
        """End it at once; fine when it does not run."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait(LIMIT)

    def spans(self) -> list[dict[str, Any]]:
        """Return the received spans, each with its attributes as a dict."""
        found = []
        for batch in self._batches("resourceSpans"):
            resource = _attributes(batch["resource"])
            for scope in batch["scopeSpans"]:
                for span in scope["spans"]:
                    found.append({**span, "attributes": _attributes(span), "resource": resource})
        return found

    def metrics(self) -> dict[str, dict[str, Any]]:
        """Return the newest of each metric received, by name."""
        return {
            metric["name"]: metric
            for batch in self._batches("resourceMetrics")
            for scope in batch["scopeMetrics"]
            for metric in scope["metrics"]
        }

    def logs(self) -> list[dict[str, Any]]:
        """Return the received log records, each with its attributes as a dict and its text as `body`."""
        return [
            {
                **record,
                "attributes": _attributes(record),
                "body": _value(record.get("body", {})),
                "resource": _attributes(batch["resource"]),
                "logger": scope["scope"]["name"],
            }
            for batch in self._batches("resourceLogs")
            for scope in batch["scopeLogs"]
            for record in scope["logRecords"]
        ]

    def _batches(self, kind: str) -> Iterator[dict[str, Any]]:
        if not self._file.is_file():
            return
        for line in self._file.read_text().splitlines(keepends=True):
            if line.endswith("\n"):  # else it is being written
                yield from json.loads(line).get(kind, ())

    def _config(self) -> dict[str, Any]:
        listening = {
            "http": {"endpoint": f"127.0.0.1:{self._http}"},
            "grpc": {"endpoint": f"127.0.0.1:{self._grpc}"},
        }
        pipeline = {"receivers": ["otlp"], "exporters": ["file"]}
        return {
            "receivers": {"otlp": {"protocols": listening}},
            "exporters": {"file": {"path": str(self._file), "flush_interval": "50ms", "append": True}},
            "service": {
                "pipelines": {"traces": pipeline, "metrics": pipeline, "logs": pipeline},
                "telemetry": {"metrics": {"level": "none"}},
            },
        }


@contextmanager
def running_collector(*, is_started: bool = True) -> Iterator[Collector]:
    """Run a collector; skip the test (or fail it, see `missing`) if none can be installed."""
    try:
        binary = install.otel_collector()
    except install.InstallError as error:
        missing("otel-collector", str(error))
    with tempfile.TemporaryDirectory(prefix="otel-collector-") as folder:
        collector = Collector(binary, Path(folder))
        try:
            if is_started:
                collector.start()
            yield collector
        finally:
            collector.kill()


def _attributes(holder: dict[str, Any]) -> dict[str, Any]:
    return {entry["key"]: _value(entry["value"]) for entry in holder.get("attributes", ())}


def _value(value: dict[str, Any]) -> Any:
    content: Any
    kind, content = next(iter(value.items()), ("stringValue", ""))
    if kind == "intValue":
        return int(content)
    if kind == "arrayValue":
        return [_value(each) for each in content.get("values", ())]
    return content


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _listens(port: int) -> bool:
    with socket.socket() as one:
        one.settimeout(1)
        return one.connect_ex(("127.0.0.1", port)) == 0

"""Calls per core: full-audio calls on a real LiveKit server until the answers come later, ours beside livekit-agents'.

    python tests/bench/calls/run.py                          # both workers, about 20 minutes
    python tests/bench/calls/run.py --workers vivavoce --steps 1 10 20 --window 20

Run it by hand, on a quiet machine with two cores: the worker is pinned to the first one, the server and the callers to
the second one. Callers are cheap: a Go program (`callers/`) sends one Opus file's packets and looks at the size of the
packets that come back. Voice activity is Silero's; speech recognition, model and voice are scripted (`parts.py`), the
same for both. More calls join step by step until the 95th percentile of the latency, from the last packet of the
caller's speech to the first packet of the agent's voice, is 100 ms above the first call's, or a call fails.

Needs the extras `silero` and `espeak`, Go, and for livekit-agents an environment with `livekit-plugins-silero`
(`--livekit-python`). It prints a table and one JSON line a step.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import quantiles

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1]))

from bench.calls.speech_file import make_speech  # noqa: E402 - found only by the path above
from kit.servers.livekit_server import LiveKitServer, running_livekit_server  # noqa: E402 - found only by the path above

STEPS = (1, 5, 10, 15, 20, 25, 30, 35, 40, 50, 60, 70, 80)
LATER = 100.0
"""Milliseconds of further latency at which a core is full."""
SETTLE = 10.0
"""Seconds for the newest calls to join and to finish their first turn."""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """The figures of one number of calls."""

    worker: str
    calls: int
    turns: int
    errors: int
    median_ms: float
    p95_ms: float
    cpu: float
    """Cores that the worker and its processes used."""
    native_cpu: float
    """Of these, threads other than a process's first: livekit's native layer and pools."""
    pss_mb: float
    processes: int


class Processes:
    """The CPU time and the memory of a process with all its descendants."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def pids(self) -> list[int]:
        """Return the processes that live."""
        found, todo = [], [self._pid]
        while todo:
            pid = todo.pop()
            found.append(pid)
            for task in Path(f"/proc/{pid}/task").glob("*/children"):
                try:
                    todo += map(int, task.read_text().split())
                except OSError:  # the thread has ended
                    continue
        return found

    def cpu(self) -> tuple[float, float]:
        """Return the CPU seconds of first threads and of all other threads."""
        first = other = 0.0
        for pid in self.pids():
            for task in Path(f"/proc/{pid}/task").glob("*/stat"):
                try:
                    fields = task.read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                seconds = (int(fields[11]) + int(fields[12])) / TICKS
                if int(task.parent.name) == pid:
                    first += seconds
                else:
                    other += seconds
        return first, other

    def pss_mb(self) -> float:
        """Return the proportional memory, shared pages counted once."""
        total = 0
        for pid in self.pids():
            try:
                lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            except OSError:
                continue
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
        return total / 1024


class Callers:
    """The running callers, and the turns that they report."""

    def __init__(self, program: subprocess.Popen[str]) -> None:
        self._program = program
        self.turns: list[dict[str, float | str]] = []
        threading.Thread(target=self._read, daemon=True).start()

    def add(self, calls: int) -> None:
        """Have so many more people call."""
        assert self._program.stdin is not None
        self._program.stdin.write(f"add {calls}\n")
        self._program.stdin.flush()

    def _read(self) -> None:
        assert self._program.stdout is not None
        for line in self._program.stdout:
            self.turns.append(json.loads(line))


def pin(pid: int, core: int) -> None:
    """Bind all threads of a process to one core."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {core})


@contextmanager
def running(arguments: list[str], core: int, log: Path, **environment: str) -> Iterator[subprocess.Popen[str]]:
    """Run a program on one core; end it afterwards."""
    with log.open("w") as errors:
        process = subprocess.Popen(
            ["taskset", "-c", str(core), *arguments],
            env={**os.environ, **environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if core else errors,
            stderr=errors,
            text=True,
        )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def p95(values: list[float]) -> float:
    """Return the 95th percentile."""
    return quantiles(values, n=20)[-1] if len(values) > 1 else max(values, default=0.0)


def measure(name: str, command: list[str], server: LiveKitServer, options: argparse.Namespace, folder: Path) -> None:
    """Let more and more callers call one worker, and print each step."""
    access = {
        "LIVEKIT_URL": server.url,
        "LIVEKIT_API_KEY": server.api_key,
        "LIVEKIT_API_SECRET": server.api_secret,
        "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")]),
    }
    callers_command = [options.callers, "-url", server.url, "-speech", str(folder / "speech.ogg"), "-rooms", name]
    with running(command, 0, folder / f"{name}.log", **access) as worker:
        time.sleep(options.warm)
        with running(callers_command, 1, folder / f"{name}-callers.log", **access) as program:
            callers, first = Callers(program), 0.0
            processes, present = Processes(worker.pid), 0
            for calls in options.steps:
                callers.add(calls - present)
                time.sleep(SETTLE + 0.25 * (calls - present))
                present = calls
                step = _step(name, calls, callers, processes, options.window)
                print(json.dumps(asdict(step)), flush=True)
                first = first or step.p95_ms
                if step.errors or not step.turns or step.p95_ms > first + LATER:
                    break


def _step(name: str, calls: int, callers: Callers, processes: Processes, window: float) -> Step:
    begin, turns, (first, other) = time.monotonic(), len(callers.turns), processes.cpu()
    time.sleep(window)
    seconds = time.monotonic() - begin
    (first_after, other_after), new = processes.cpu(), callers.turns[turns:]
    latencies = [float(turn["latency_ms"]) for turn in new if "latency_ms" in turn]
    return Step(
        worker=name,
        calls=calls,
        turns=len(latencies),
        errors=sum("error" in turn for turn in callers.turns),
        median_ms=round(sorted(latencies)[len(latencies) // 2], 1) if latencies else 0.0,
        p95_ms=round(p95(latencies), 1),
        cpu=round((first_after - first + other_after - other) / seconds, 3),
        native_cpu=round((other_after - other) / seconds, 3),
        pss_mb=round(processes.pss_mb(), 1),
        processes=len(processes.pids()),
    )


def main() -> None:
    """Run as the module's docstring says."""
    parser = argparse.ArgumentParser(description="Calls per core.")
    parser.add_argument("--workers", nargs="+", default=["vivavoce", "livekit"], choices=["vivavoce", "livekit"])
    parser.add_argument("--steps", nargs="+", type=int, default=STEPS)
    parser.add_argument("--window", type=float, default=30.0, help="seconds measured at each step")
    parser.add_argument("--warm", type=float, default=10.0, help="seconds for a worker to get ready")
    parser.add_argument("--callers", default="", help="the built program; empty: build it")
    parser.add_argument("--livekit-python", default="python", help="interpreter that has livekit-agents")
    parser.add_argument("--folder", type=Path, default=None, help="where logs go; none: a folder that is removed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="vivavoce-calls-") as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        make_speech(folder / "speech.ogg")
        if not options.callers:
            options.callers = str(folder / "callers")
            subprocess.run(["go", "build", "-o", options.callers, "."], cwd=HERE / "callers", check=True)
        for name in options.workers:
            commands = {
                "vivavoce": [str(Path(sys.executable).parent / "vivavoce"), "start", str(HERE / "vivavoce_app.py")],
                "livekit": [options.livekit_python, str(HERE / "livekit_app.py"), "start"],
            }
            with running_livekit_server() as server:
                pin(server.pid, 1)
                measure(name, commands[name], server, options, folder)


if __name__ == "__main__":
    main()

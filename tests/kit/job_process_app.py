"""An application whose jobs do in their process as their metadata says; for tests of job processes."""

from __future__ import annotations

import ctypes
import gc
import json
import logging
import os
import random
import signal
import sys
import time
from enum import IntEnum
from pathlib import Path
from typing import Any

import anyio
import numpy as np

from kit.blocked_loop import LoopWarnings
from kit.idle_job import keep_job
from vivavoce.agents.agent import Agent
from vivavoce.agents.job import JobContext
from vivavoce.agents.session.session import AgentSession
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core.clock import LoopClock
from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.testing import ScriptedTTS

logger = logging.getLogger(__name__)


class Place(str):
    """A text that pickle cannot make again."""

    def __new__(cls, name: str, table: int) -> Place:
        return super().__new__(cls, f"{name} {table}")


class Severity(IntEnum):
    """Levels of an application."""

    NOTICE = 25


class Model(Component):
    """Notes its end in a file."""

    def __init__(self, path: str) -> None:
        self._path = path

    async def aclose(self) -> None:
        with Path(self._path).open("a") as file:  # noqa: ASYNC230 - a line of a test
            file.write(f"closed {os.getpid()}\n")


def prewarm(shared: dict[str, Any]) -> None:
    """Load the process's one model."""
    shared["pid"] = os.getpid()
    shared["parts"] = [Place("bar", 1)]
    if "MODEL_FILE" in os.environ:
        shared["model"] = Model(os.environ["MODEL_FILE"])


def raising_prewarm(shared: dict[str, Any]) -> None:
    """Fail always."""
    raise ValueError("there is no model file")


def hanging_prewarm(shared: dict[str, Any]) -> None:
    """Never return."""
    time.sleep(600)  # noqa: TID251 - the prewarm of an application


def slow_prewarm(shared: dict[str, Any]) -> None:
    """Take longer than any job."""
    time.sleep(1.0)  # noqa: TID251 - the prewarm of an application


def eating_prewarm(shared: dict[str, Any]) -> None:
    """Hold 300 MB, and go on."""
    shared["food"] = bytearray(os.urandom(1_000_000) * 300)
    time.sleep(600)  # noqa: TID251 - the prewarm of an application


def prewarm_of_the_first(shared: dict[str, Any]) -> None:
    """Fail in each process that is made after the mark, a file."""
    if Path(os.environ["MARK"]).exists():
        raise ValueError("the second one fails")


async def entrypoint(ctx: JobContext) -> None:
    """Do as the metadata says: the name of a deed, or a JSON list of facts to write into a file."""
    deed = ctx.job.metadata
    match deed:
        case "wait" | "":
            keep_job()
        case "end":
            ctx.shutdown("fine")
        case "speak and wait":
            session = AgentSession[None](Agent("Help."), CascadingPipeline(tts=ScriptedTTS()))
            await session.start(LocalTransport(LoopClock()))
            await session.say("One.")
        case "raise":
            raise ValueError("the entrypoint's own error")
        case "exit":
            os._exit(7)
        case "leave":
            sys.exit(3)
        case "segfault":
            ctypes.string_at(0)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "block":
            time.sleep(600)  # noqa: ASYNC251, TID251 - blocking code is what the test is about
        case "block shortly":
            with LoopWarnings.collected() as warnings:
                warnings.block(0.1)
            ctx.shutdown("blocked")
        case "deaf":
            while True:
                try:
                    await anyio.sleep(600)
                except BaseException:  # noqa: BLE001 - it ignores its cancellation
                    continue
        case "eat":
            ctx.shared["food"] = bytearray(os.urandom(1_000_000) * 300)
            keep_job()
        case "log":
            extra = {"tool": Model("x"), "place": Place("bar", 2), "score": np.float64(0.5), "loud": True}
            logger.log(Severity.NOTICE, "a word of job %s", ctx.job.id, extra=extra)
            ctx.shutdown("said")
        case _:
            path = json.loads(deed)["file"]
            facts = {
                "pid": os.getpid(),
                "shared": ctx.shared.get("pid"),
                "is_frozen": all(one is not ctx.shared.get("parts") for one in gc.get_objects()),
                "random": random.random(),
                "numpy": float(np.random.default_rng().random()),
                "blas_threads": os.environ.get("OPENBLAS_NUM_THREADS"),
            }
            Path(path).write_text(json.dumps(facts))  # noqa: ASYNC240 - a line of a test
            ctx.shutdown("written")

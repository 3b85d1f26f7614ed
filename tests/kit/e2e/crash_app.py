"""An app for `vivavoce start` whose calls must survive its processes, its folder, and its processes to be killed."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import anyio

from kit.e2e.booking_app import BOOKING
from kit.e2e.command import Running
from kit.e2e.room_endpoint import RoomEndpoint
from vivavoce.agents.memory.calls_in_store import CALLS_PLACE, WORDS_PLACE
from vivavoce.agents.memory.stores.sqlite_tables import entries_of
from vivavoce.agents.memory.stores.store import Place

LIMIT = 20.0

APP = """
from vivavoce.agents import (
    Agent,
    AgentSession,
    CrashSafety,
    JobContext,
    MemoryOptions,
    ProcessExecution,
    SessionOptions,
    Worker,
    WorkerOptions,
    function_tool,
)
from vivavoce.agents.memory import RedisStore, SqliteStore


class Host(Agent):
    def __init__(self):
        super().__init__("You take table bookings. Be brief.")

    @function_tool
    async def book(self, day: str, time: str) -> str:
        "Book a table."
        await self.session.memory.data.set("booked.time", time)
        return "booked"

    async def on_enter(self):
        log("enter")
        await self.session.say("Hello! For which day?")


async def entrypoint(ctx: JobContext):
    log(f"metadata {ctx.job.metadata} {dict(ctx.job.attributes)}")
    pipeline, options = pipeline_of(ctx, "Booked {day} at {time}."), SessionOptions(memory=MEMORY)
    await AgentSession(Host(), pipeline, userdata={}, options=options).start()


worker = Worker(
    entrypoint,
    agent_name="NAME",
    options=WorkerOptions(
        drain_timeout=0.2,
        executor=ProcessExecution(processes=2),
        crash_safety=CrashSafety(store=STORE, sentence="Sorry, we were cut off."),
    ),
)
"""


DESK = """
from pathlib import Path

import anyio

from vivavoce.agents import (
    Agent, AgentSession, CrashSafety, JobContext, ProcessExecution, Worker, WorkerOptions, function_tool
)
from vivavoce.pipelines import CascadingPipeline
from vivavoce.pipelines.llm.base import LLM, LLMCapabilities, TextDelta
from vivavoce.pipelines.llm.tools import ToolCall
from vivavoce.pipelines.testing import ScriptedTTS

HERE = Path(__file__).parent


def log(text):
    with (HERE / "log.txt").open("a") as file:
        print(text, file=file)


class Model(LLM):
    "Calls the tool that the caller names, and says its output; the first answer to a question never comes."

    provider = "test"

    @property
    def capabilities(self):
        return LLMCapabilities()

    async def generate(self, request):
        last = request.context.items[-1]
        if last.type == "function_call_output":
            yield TextDelta(f"The output was: {last.output}")
        elif "book" in last.content:
            yield ToolCall(call_id="c1", name="book", arguments="{}")
        elif not (HERE / "asked").exists():
            (HERE / "asked").touch()
            log("asked")
            await anyio.sleep_forever()
        else:
            yield TextDelta("We open at ten.")


class Host(Agent):
    def __init__(self):
        super().__init__("Help.")

    @function_tool
    async def book(self) -> str:
        "Book a table."
        log("book")
        await anyio.sleep_forever()

    async def on_enter(self):
        await self.session.say("Hello!")


async def entrypoint(ctx: JobContext):
    if ctx.resume_from and (HERE / "fails").exists():
        (HERE / "fails").unlink()
        raise ConnectionError("the database is away")
    await AgentSession(Host(), CascadingPipeline(llm=Model(), tts=ScriptedTTS())).start()


worker = Worker(
    entrypoint,
    agent_name="NAME",
    options=WorkerOptions(
        drain_timeout=DRAIN,
        executor=ProcessExecution(processes=1),
        crash_safety=CrashSafety(sentence="Sorry, we were cut off."),
    ),
)
"""


def write_desk(folder: Path, agent_name: str, *, drain_timeout: float = 0.2) -> None:
    """Save an app without sound: its caller types, and its model and its tool wait until their process is killed."""
    (folder / "app.py").write_text(DESK.replace("NAME", agent_name).replace("DRAIN", str(drain_timeout)))


async def logs(folder: Path, line: str) -> None:
    """Wait until the app has written that line."""
    with anyio.fail_after(LIMIT):
        while line not in logged(folder):  # noqa: ASYNC110 - a file of another process
            await anyio.sleep(0.02)


def logged(folder: Path) -> list[str]:
    """Return the lines that the app has written."""
    path = folder / "log.txt"
    return path.read_text().splitlines() if path.exists() else []


def write_app(folder: Path, agent_name: str, *, store: str = "SqliteStore()", memory: str = "None") -> None:
    """Save the app, whose worker registers `agent_name`.

    Args:
        store: Keeps its calls; an expression, as `memory`, the options of each session's memory.
    """
    app = APP.replace("NAME", agent_name).replace("STORE", store).replace("MEMORY", memory)
    (folder / "app.py").write_text(BOOKING + app)


def environment(server: RoomEndpoint, folder: Path) -> dict[str, str]:
    """Return the variables with which the app's worker finds the server; its records are kept in `folder`."""
    return {
        "LIVEKIT_URL": server.url,
        "LIVEKIT_API_KEY": server.api_key,
        "LIVEKIT_API_SECRET": server.api_secret,
        "XDG_STATE_HOME": str(folder),
    }


def records(folder: Path) -> list[str]:
    """Return the conversations that are kept in `folder`."""
    return [json.loads(text) for text in _entries(folder, WORDS_PLACE)]


def owners(folder: Path) -> list[int]:
    """Return the processes of the calls that are kept in `folder`."""
    kept = [json.loads(text) for text in _entries(folder, CALLS_PLACE)]
    return [int(call["owner"].split("/")[1]) for call in kept if "removed" not in call]


def _entries(folder: Path, place: Place) -> list[str]:
    path = folder / "vivavoce" / "sessions.db"
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        return list(entries_of(connection, place).values())


async def keeps(folder: Path, *parts: str) -> None:
    """Wait until a call is kept in `folder` with these parts: soon after a commit, and before its answer is heard."""
    with anyio.fail_after(LIMIT):
        while not any(all(part in kept for part in parts) for kept in records(folder)):  # noqa: ASYNC110 - a file
            await anyio.sleep(0.02)


async def nothing_is_kept(folder: Path) -> None:
    """Wait until no call is kept, and no words of one."""
    with anyio.fail_after(LIMIT):
        while _entries(folder, CALLS_PLACE) or _entries(folder, WORDS_PLACE):  # noqa: ASYNC110 - as above
            await anyio.sleep(0.02)


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def worker_of(command: Running) -> int:
    """Return the process of the worker below its guardian."""
    (worker,) = children_of(command.process.pid)
    return worker

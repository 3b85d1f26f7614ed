"""Loads an app's file: finds its Worker, its entrypoint or its Agent."""

from __future__ import annotations

import importlib.util
import inspect
import sys
import traceback
from dataclasses import dataclass, replace
from functools import partial
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from vivavoce.agents.agent import Agent
from vivavoce.agents.cli.offline import make
from vivavoce.agents.job import JobContext
from vivavoce.agents.session.session import AgentSession
from vivavoce.agents.worker.worker import Worker
from vivavoce.pipelines.cascading import CascadingPipeline
from vivavoce.pipelines.core import lazy
from vivavoce.pipelines.core.errors import ConfigurationError, VoiceError, own_traceback
from vivavoce.pipelines.pipeline import Pipeline

RULE_ANSWER = "I heard you."
RULE_QUESTION = "Give me a language model, and I will answer."


@dataclass(frozen=True, slots=True)
class App:
    """The content of an app's file.

    Args:
        agents: The Agent classes of the file's own, by name.
        note: A note for the developer; empty: none.
        runs: The name of the code that runs for each job where the file holds no Worker; empty: it holds one.
    """

    worker: Worker
    agents: dict[str, type[Agent]]
    note: str = ""
    runs: str = ""


def load_app(file: Path, *, has_default: bool = False) -> App:
    """Return the app in a file.

    For the worker, a `Worker` comes first, then a function `entrypoint`, then one Agent class of the file's own that
    has a method `pipeline()`, which returns a pipeline for one session.

    Args:
        has_default: Whether an Agent class without `pipeline()` is accepted: it gets a pipeline of the offline plugins.
    Raises:
        ConfigurationError: There is no such file, it cannot be imported, or it holds none of these, or several.
    """
    check_file(file)
    module = _import(file)
    agents = _agents(module)
    worker = _held_worker(file, module)
    if worker is not None:
        return App(worker, agents)
    if "entrypoint" in vars(module):
        return App(_worker_of(file, vars(module)["entrypoint"]), agents, runs="entrypoint()")
    return _agent_app(file, agents, has_default=has_default)


def _held_worker(file: Path, module: ModuleType) -> Worker | None:
    names = vars(module)
    workers = {id(value): name for name, value in names.items() if isinstance(value, Worker)}
    if len(workers) > 1:
        raise ConfigurationError(f"{file} holds {len(workers)} workers ({', '.join(workers.values())}); keep one")
    if workers:
        worker: Worker = names[next(iter(workers.values()))]
        return worker
    return None


def _worker_of(file: Path, entrypoint: Any) -> Worker:
    try:
        return Worker(entrypoint)
    except ConfigurationError as error:
        raise ConfigurationError(f"{file}: {error}") from None


def with_options(
    worker: Worker,
    *,
    url: str | None,
    api_key: str | None,
    api_secret: str | None,
    agent_name: str | None,
    health_port: int | None,
    health_host: str | None,
) -> Worker:
    """Return the worker with the options of the command line; None keeps the file's option."""
    account = {"url": url, "api_key": api_key, "api_secret": api_secret}
    given = {**account, "health_port": health_port, "health_host": health_host}
    changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return Worker(
        worker.entrypoint,
        agent_name=worker.agent_name if agent_name is None else agent_name,
        options=replace(worker.options, **changed),
    )


def check_file(file: Path) -> None:
    """Check that an app's file is there and is a Python file, without loading it.

    Raises:
        ConfigurationError: It is not.
    """
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        raise ConfigurationError(f"{str(file)!r} {what}; give the Python file that holds your agent")
    _spec(file)


def _spec(file: Path) -> tuple[ModuleSpec, Loader]:
    name = file.stem.replace(".", "_")  # what is before a dot would be a package
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"{str(file)!r} is not a Python file; its name must end in .py")
    return spec, spec.loader


def _import(file: Path) -> ModuleType:
    spec, loader = _spec(file)
    name = spec.name
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.resolve().parent))  # as `python app.py` does, so that the app can import its neighbours
    sys.modules[name] = module  # dataclasses and pickles look up their module there
    try:
        loader.exec_module(module)
    except SyntaxError as error:
        raise ConfigurationError(f"{error.filename}, line {error.lineno}: {error.msg}") from error
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"{_importer(error, file)} imports {error.name!r}, which is not installed") from error
    except ImportError as error:
        raise ConfigurationError(f"{_importer(error, file)} has an import that fails: {error.msg}") from error
    except VoiceError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the app raises while it loads is shown to whoever wrote it
        raise ConfigurationError(f"{file} raises while it is loaded\n{own_traceback(error)}") from error
    return module


def _importer(error: ImportError, file: Path) -> str:
    """Return the place of the import that failed: in the app's file, in a neighbour of it, or in an installed
    package.
    """
    lines = [
        (frame.f_code.co_filename, number)
        for frame, number in traceback.walk_tb(error.__traceback__)
        if not frame.f_code.co_filename.startswith("<") and frame.f_code.co_filename not in (__file__, lazy.__file__)
    ]
    name, number = lines[-1] if lines else (str(file), 0)
    if Path(name).resolve() == file.resolve():
        return f"{file}, line {number},"
    return f"{name}, line {number}, which {file} loads,"


def _agents(module: ModuleType) -> dict[str, type[Agent]]:
    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, Agent) and value.__module__ == module.__name__
    }


def _agent_app(file: Path, agents: dict[str, type[Agent]], *, has_default: bool) -> App:
    if not agents:
        raise ConfigurationError(f"{file} holds no Worker, no `async def entrypoint(ctx)` and no Agent; write one")
    if len(agents) > 1:
        names = ", ".join(agents)
        raise ConfigurationError(f"{file} holds several agents ({names}); add an `async def entrypoint(ctx)`")
    ((name, agent),) = agents.items()
    if hasattr(agent, "pipeline"):
        return App(Worker(partial(_converse, agent)), agents, runs=name)
    if not has_default:
        raise ConfigurationError(
            f"{name} in {file} does not say how it hears and speaks: give it a method `pipeline()` that "
            "returns a CascadingPipeline, or write `async def entrypoint(ctx)` and start an AgentSession there"
        )
    note = (
        f"{name} has no method `pipeline()`: it hears and speaks offline (moonshine and hibari, where they are "
        "installed) and a rule answers, no language model. Give it one that returns a CascadingPipeline."
    )
    return App(Worker(partial(_converse_offline, agent)), agents, note, runs=name)


async def _converse(kind: type[Agent], ctx: JobContext) -> None:
    host = kind()  # type: ignore[call-arg]  # an app's own takes none
    pipeline = host.pipeline()  # type: ignore[attr-defined]
    if not isinstance(pipeline, Pipeline):
        raise ConfigurationError(f"{kind.__name__}.pipeline() must return a Pipeline, got {pipeline!r}")
    await AgentSession(host, pipeline).start()


async def _converse_offline(kind: type[Agent], ctx: JobContext) -> None:
    host = kind()  # type: ignore[call-arg]  # an app's own takes none
    await AgentSession(host, offline_pipeline(ctx)).start()


def offline_pipeline(ctx: JobContext) -> CascadingPipeline:
    """Return a pipeline that needs no key and no server, and answers each turn alike; it lives as long as the job.

    Raises:
        ConfigurationError: The extra `demo` is missing.
    """
    vad, stt, tts = make("vad"), make("stt"), make("tts")
    from vivavoce.plugins import rules

    llm = rules.LLM(rules.SlotFilling(answers=(rules.Answer(r"\S", RULE_ANSWER),), anything_else=RULE_QUESTION))
    for part in (vad, stt, llm, tts):
        ctx.add_shutdown_callback(part.aclose)
    return CascadingPipeline(vad=vad, stt=stt, llm=llm, tts=tts)

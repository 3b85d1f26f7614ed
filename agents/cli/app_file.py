"""Owns loading an app's file: finding its Worker, its entrypoint or its Agent."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from vivavoce.agents.agent import Agent
from vivavoce.agents.session.session import AgentSession
from vivavoce.agents.worker.job import JobContext
from vivavoce.agents.worker.worker import Worker
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class App:
    """What an app's file holds.

    Args:
        agents: The Agent classes of the file's own, by name.
        note: What to tell whoever develops it; empty: nothing.
    """

    worker: Worker
    agents: dict[str, type[Agent]]
    note: str = ""


def load_worker(file: Path) -> Worker:
    """Return the worker that an app's file describes; see `load_app`."""
    return load_app(file).worker


def load_app(file: Path) -> App:
    """Return what an app's file describes.

    For the worker, a `Worker` comes first, then a function `entrypoint`, then one Agent class of the file's own that
    has a method `pipeline()`, which returns a pipeline for one session.

    Raises:
        ConfigurationError: There is no such file, it cannot be imported, or it holds none of these, or several.
    """
    module = _import(file)
    return App(_worker(file, module), _agents(module))


def _worker(file: Path, module: ModuleType) -> Worker:
    names = vars(module)
    workers = {id(value): name for name, value in names.items() if isinstance(value, Worker)}
    if len(workers) > 1:
        raise ConfigurationError(f"{file} holds {len(workers)} workers ({', '.join(workers.values())}); keep one")
    if workers:
        worker: Worker = names[next(iter(workers.values()))]
        return worker
    if "entrypoint" in names:
        if not inspect.iscoroutinefunction(names["entrypoint"]):
            raise ConfigurationError(f"`entrypoint` in {file} must be an async function, got {names['entrypoint']!r}")
        return Worker(names["entrypoint"])
    return _agent_worker(file, module)


def with_options(
    worker: Worker,
    *,
    url: str | None,
    api_key: str | None,
    api_secret: str | None,
    agent_name: str | None,
    health_port: int | None,
) -> Worker:
    """Return the worker with what the command line says; None leaves what the file says."""
    given = {"url": url, "api_key": api_key, "api_secret": api_secret, "health_port": health_port}
    changed: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    return Worker(
        worker.entrypoint,
        agent_name=worker.agent_name if agent_name is None else agent_name,
        options=replace(worker.options, **changed),
    )


def _import(file: Path) -> ModuleType:
    if not file.is_file():
        what = "is a folder" if file.is_dir() else "does not exist"
        raise ConfigurationError(f"{str(file)!r} {what}; give the Python file that holds your Worker")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"{str(file)!r} is not a Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(file.resolve().parent))  # as `python app.py` does, so that it can import its neighbours
    sys.modules[file.stem] = module  # dataclasses and pickles look their module up
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise ConfigurationError(f"{error.filename}, line {error.lineno}: {error.msg}") from error
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"{file} imports {error.name!r}, which is not installed") from error
    except ImportError as error:
        raise ConfigurationError(f"{file} imports what is not there: {error.msg}") from error
    return module


def _agents(module: ModuleType) -> dict[str, type[Agent]]:
    return {
        name: value
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, Agent) and value.__module__ == module.__name__
    }


def _agent_worker(file: Path, module: ModuleType) -> Worker:
    agents = list(_agents(module).values())
    if not agents:
        raise ConfigurationError(f"{file} holds no Worker, no `async def entrypoint(ctx)` and no Agent; write one")
    if len(agents) > 1:
        names = ", ".join(agent.__name__ for agent in agents)
        raise ConfigurationError(f"{file} holds several agents ({names}); add an `async def entrypoint(ctx)`")
    agent = agents[0]
    make_pipeline = getattr(agent, "pipeline", None)
    if make_pipeline is None:
        raise ConfigurationError(
            f"{agent.__name__} in {file} does not say how it hears and speaks: give it a method `pipeline()` that "
            "returns a CascadingPipeline, or write `async def entrypoint(ctx)` and start an AgentSession there"
        )

    async def entrypoint(ctx: JobContext) -> None:
        host = agent()  # type: ignore[call-arg]
        pipeline = host.pipeline()  # type: ignore[attr-defined]
        if not isinstance(pipeline, Pipeline):
            raise ConfigurationError(f"{agent.__name__}.pipeline() must return a Pipeline, got {pipeline!r}")
        await AgentSession(host, pipeline).start()

    return Worker(entrypoint)

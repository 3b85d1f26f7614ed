"""TaskGroup: several tasks one after the other, with a way back to an earlier one."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from vivavoce.agents.tasks.options import TaskOptions
from vivavoce.agents.tasks.task import AgentTask, TaskControl
from vivavoce.pipelines.core.checks import check_function, check_text
from vivavoce.pipelines.core.errors import ConfigurationError, SessionError, TaskError, ToolError
from vivavoce.pipelines.llm.tools import Tool

_BACK = (
    "If the caller wants to change something that was given before, such as 'no, the other address', call `go_back` "
    "with its name. "
)


class _GoneBack(Exception):  # noqa: N818 - a signal, named as StopResponse is
    """The caller wants to change the result of an earlier task."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True, slots=True)
class _Way:
    """A way back to a result.

    Args:
        about: The result in a few words.
        of: The task that ends when the way is taken: the one that asks, or the group around it.
    """

    about: str
    of: AgentTask[Any]


class TaskGroup(AgentTask[dict[str, Any]]):
    """Runs tasks in their order; the result is a dict of their results by name.

    While a later task asks, the caller may change an earlier result ("no, the other address"): the model of the later
    task gets a tool `go_back`. The earlier task is then made and run again, and the group goes on where it was left.
    The results between stay. From a group inside a group the caller can go back to results of the outer one too.

    A task that the caller declines declines the group, unless it was asked again: then its result stays as it was. One
    that ends otherwise without a result fails the group, with that TaskError as the cause.

    Args:
        id, options: As of an `AgentTask`. `max_seconds` is that of the whole group; each task has limits of its own.
    Raises:
        ConfigurationError: As for an `AgentTask`; or `options` limit the turns, which only the tasks have.
    """

    def __init__(self, *, id: str | None = None, options: TaskOptions | None = None) -> None:
        super().__init__("You guide the caller through several questions.", id=id, options=options)
        if self.options.max_turns is not None:
            raise ConfigurationError(
                f"need options of a group without max_turns, got {self.options.max_turns!r}: its tasks have the turns; "
                "give it to them"
            )
        self._steps: dict[str, tuple[str, Callable[[], AgentTask[Any]]]] = {}
        self._ways: Mapping[str, _Way] = {}
        """The ways back to results of the groups around it."""
        self.results: dict[str, Any] = {}
        """The results so far, by name."""

    def add(self, name: str, make: Callable[[], AgentTask[Any]], about: str = "") -> TaskGroup:
        """Add a task at the end, before the group is awaited; return the group.

        Args:
            name: Of its result.
            make: Makes the task, another one each time it is asked.
            about: The result in a few words, for the model of a later task; the name by default.
        Raises:
            ConfigurationError: There is a task of that name already.
            SessionError: The group was awaited already.
        """
        if TaskControl.of(self).is_awaited:
            raise SessionError(f"the group {self.id!r} was awaited already; add {name!r} before")
        if not check_text("name", name) or name in self._steps:
            raise ConfigurationError(f"need a name for each task of a group, another one each time, got {name!r}")
        check_function("make", make)
        self._steps[name] = (check_text("about", about) or name, make)
        return self

    async def on_enter(self) -> None:
        """Run the tasks."""
        if not self._steps:
            raise SessionError("the group has no task; add(name, make) one before it is awaited")
        waiting = list(self._steps)
        while waiting:
            name = waiting[0]
            try:
                self.results[name] = await self._task_of(name)
            except TaskError as error:
                if isinstance(error.__cause__, _GoneBack):
                    back = error.__cause__.name
                    waiting = [back, *(other for other in waiting if other != back)]
                elif error.outcome == "declined" and name in self.results:
                    waiting.pop(0)
                else:
                    self._end_as(error)
                    return
            else:
                waiting.pop(0)
        self.complete(self.results)

    def _task_of(self, name: str) -> AgentTask[Any]:
        task = self._steps[name][1]()
        if not isinstance(task, AgentTask):
            if inspect.iscoroutine(task):
                task.close()
            raise ConfigurationError(f"need a task from make() of {name!r}, got {type(task).__name__}")
        if TaskControl.of(task).is_awaited:
            raise ConfigurationError(f"need another task each time from make() of {name!r}, got one that has run")
        own = {other: _Way(self._steps[other][0], task) for other in self._steps if other in self.results}
        own.pop(name, None)
        ways = {**self._ways, **own}
        if isinstance(task, TaskGroup):
            task._ways = ways
        elif ways:
            known = "; ".join(f"{other}: {way.about}" for other, way in ways.items())
            task.update_instructions(f"{task.instructions}\n{_BACK}Given before: {known}.")
            task.update_tools([*task.tools, _way_back(ways)])
        return task

    def _end_as(self, error: TaskError) -> None:
        if error.outcome == "declined":
            self.decline(error.reason)
        else:
            self.fail(error)


def _way_back(ways: Mapping[str, _Way]) -> Tool[..., Any]:
    names = ", ".join(ways)

    async def go_back(name: str) -> str:
        if (way := ways.get(name)) is None:
            raise ToolError(f"Nothing named {name!r} was given before; there is: {names}.")
        way.of.fail(_GoneBack(name))
        return "Going back."

    return Tool(go_back, description=f"Change a result that was given before.\n\nArgs:\n    name: One of {names}.")

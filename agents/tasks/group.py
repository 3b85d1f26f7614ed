"""TaskGroup: several tasks one after the other, with a way back to an earlier one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vivavoce.agents.tasks.options import TaskOptions
from vivavoce.agents.tasks.task import AgentTask
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


class TaskGroup(AgentTask[dict[str, Any]]):
    """Runs tasks in their order; the result is a dict of their results by name.

    While a later task asks, the caller may change an earlier result ("no, the other address"): the model of the later
    task gets a tool `go_back`. The earlier task is then made and run again, and the group goes on where it was left.
    The results between stay. A task that the caller declines declines the group; one that ends otherwise without a
    result fails it, with that TaskError as the cause.

    Args:
        id, options: As of an `AgentTask`. The limits are those of the whole group; each task has its own too.
    """

    def __init__(self, *, id: str | None = None, options: TaskOptions | None = None) -> None:
        super().__init__("You guide the caller through several questions.", id=id, options=options)
        self._steps: dict[str, tuple[str, Callable[[], AgentTask[Any]]]] = {}
        self.results: dict[str, Any] = {}
        """The results so far, by name."""

    def add(self, name: str, make: Callable[[], AgentTask[Any]], about: str = "") -> TaskGroup:
        """Add a task at the end, before the group is awaited; return the group.

        Args:
            name: Of its result.
            make: Makes the task, each time it is asked.
            about: The result in a few words, for the model of a later task; the name by default.
        Raises:
            ConfigurationError: There is a task of that name already.
        """
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
                if not isinstance(error.__cause__, _GoneBack):
                    self._end_as(error)
                    return
                waiting.insert(0, error.__cause__.name)
            else:
                waiting.pop(0)
        self.complete(self.results)

    def _task_of(self, name: str) -> AgentTask[Any]:
        task = self._steps[name][1]()
        if not isinstance(task, AgentTask):
            raise ConfigurationError(f"need a task from make() of {name!r}, got {type(task).__name__}")
        given = [other for other in self._steps if other in self.results and other != name]
        if given:
            known = "; ".join(f"{other}: {self._steps[other][0]}" for other in given)
            task.update_instructions(f"{task.instructions}\n{_BACK}Given before: {known}.")
            task.update_tools([*task.tools, self._way_back(task, given)])
        return task

    def _way_back(self, task: AgentTask[Any], given: list[str]) -> Tool[..., Any]:
        async def go_back(name: str) -> str:
            if name not in given:
                raise ToolError(f"Nothing named {name!r} was given before; there is: {', '.join(given)}.")
            task.fail(_GoneBack(name))
            return "Going back."

        about = f"Change a result that was given before.\n\nArgs:\n    name: One of {', '.join(given)}."
        return Tool(go_back, description=about)

    def _end_as(self, error: TaskError) -> None:
        if error.outcome == "declined":
            self.decline(error.reason)
        else:
            self.fail(error)

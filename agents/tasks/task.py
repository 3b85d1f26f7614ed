"""AgentTask, a sub-dialogue with a typed result, and TaskControl, its only writer.

`result = await GetEmail()` takes the floor, talks to the caller by its own instructions and tools, and gives the floor
back with a result, in an agent's `on_enter`, a tool, `on_user_turn_completed`, a conversation flow, a handler or any
other code of the application. Decisions:

* A task takes over as an agent does in a handoff: after all speech requested before it. Its `on_enter` and `on_exit`
  run; those of the agent behind it do not. That agent's speech waits, and goes on behind the task. Its tools run on.
* The task ends when one of its tools, or other code, calls `complete(result)`, `decline(reason)`, `fail(error)` or
  `cancel()`; the first one counts. In a tool of the task, or of a task inside it, the floor goes back when the words
  before the call are over and all calls of that step are settled; the task's model then says nothing more. Elsewhere it
  goes back after the speech that plays and waits. Calls of the task that still run are cancelled.
* A result that does not validate is a `ToolError` with the reason, which a model receives: it may call again.
* Without a result, awaiting raises a `TaskError` with the outcome: `declined` by the caller; `failed`: `fail(error)`,
  or `on_enter` raised, and that error is the cause; `out_of_time`, `out_of_turns`: a limit of its options; `cancelled`:
  by `cancel()`, or since the task that awaits it has ended; `replaced`: `update_agent()`, or a tool that returned an
  agent, gave the conversation to an agent that is no task. That ends all tasks, and no model receives the output of a
  tool that has awaited one; `closed`: the session closes, for example since the caller has left. A tool or hook that
  is cut, by the close or with the task that it belongs to, is cancelled in place of that.
* Cancelling the code that awaits cancels the task. Limits of that code (of a hook, of a tool) stand still meanwhile.
* Tasks nest: a task's own code may await another one. Other code waits until no other task has the conversation.
* A task cannot be awaited in `on_exit`, in `cleanup` and in a closing session.
* While a task has the conversation, its model answers the caller, also where the session has a conversation flow.
* A task runs once. Awaiting it again gives the same result, or raises the same error.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, TypeVar, cast, get_args, get_origin

import anyio

from vivavoce.agents.agent import Agent, AgentOverrides
from vivavoce.agents.core.call_site import ToolSite, calling_session, calling_tool
from vivavoce.agents.core.done import Done
from vivavoce.agents.mcp_servers import MCPServer
from vivavoce.agents.tasks.options import TaskOptions
from vivavoce.pipelines.core.checks import check_instance, check_text, control_of, shown
from vivavoce.pipelines.core.errors import ConfigurationError, SessionError, TaskError, ToolError, describe
from vivavoce.pipelines.llm.tools import Tool

if TYPE_CHECKING:
    from pydantic import TypeAdapter

T = TypeVar("T")

TaskOutcome = Literal[
    "completed", "declined", "failed", "out_of_time", "out_of_turns", "cancelled", "replaced", "closed"
]
"""How a task ended."""


class AgentTask(Agent, Generic[T]):
    """A sub-dialogue: an agent that talks until it has a result, which awaiting it returns.

    Args:
        instructions, tools, mcp_servers, id: As of an `Agent`.
        overrides: As of an `Agent`, without `context`: a task sees the conversation as the agent before it does.
        result_type: The type of the result, which pydantic validates; by default the `T` of
            `class GetName(AgentTask[T])`.
        options: Its limits, and the place of its dialogue in the history.
    Raises:
        ConfigurationError: As for an `Agent`; or there is no type of the result, or none that pydantic can validate.
    """

    _is_task: ClassVar[bool] = True

    def __init__(
        self,
        instructions: str,
        *,
        tools: Sequence[Tool[..., Any] | Callable[..., Any]] = (),
        mcp_servers: Sequence[MCPServer] = (),
        overrides: AgentOverrides | None = None,
        id: str | None = None,
        result_type: type[T] | None = None,
        options: TaskOptions | None = None,
    ) -> None:
        super().__init__(instructions, tools=tools, mcp_servers=mcp_servers, overrides=overrides, id=id)
        check_instance("options", options, TaskOptions, or_none=True)
        if self.overrides.context is not None:
            raise ConfigurationError(
                "need overrides of a task without context; TaskOptions(history=...) says what it leaves"
            )
        kind = result_type if result_type is not None else _result_type_of(type(self))
        self._task: TaskControl[T] = TaskControl(self, _adapter(kind), options or TaskOptions())

    def __str__(self) -> str:
        """Return its repr, and warn if it was not awaited: the text was probably to have the result."""
        control = getattr(self, "_task", None)
        if control is not None and not control.is_awaited:
            kind = type(self).__name__
            text = f"the task {kind} is put into text and was not awaited; its result is `await {kind}(…)`"
            warnings.warn(text, RuntimeWarning, stacklevel=2)
        return repr(self)

    def __await__(self) -> Generator[Any, Any, T]:
        return self._run().__await__()

    async def _run(self) -> T:
        session = calling_session()
        if session is None:
            raise SessionError(
                f"the task {self.id!r} is awaited in code that no session runs; await session.run_task(task) there"
            )
        return cast(T, await session.run_task(self))

    @property
    def options(self) -> TaskOptions:
        """Its limits, and the place of its dialogue in the history."""
        return self._task.options

    @property
    def outcome(self) -> TaskOutcome | None:
        """How it ended; None before its end."""
        return self._task.outcome

    def complete(self, result: T) -> None:
        """End the task with `result`; from any thread. Once it has ended, nothing happens.

        Raises:
            ToolError: The result does not validate; the text names the problem, for the model.
            SessionError: The task has not been awaited.
        """
        control = TaskControl.of(self)
        control.settle("completed", result=control.validated(result))

    def decline(self, reason: str = "") -> None:
        """End the task without a result, since the caller does not want to go on with it.

        Raises:
            SessionError: The task has not been awaited.
        """
        TaskControl.of(self).settle("declined", reason=check_text("reason", reason))

    def fail(self, error: Exception) -> None:
        """End the task by an error, which becomes the cause of the TaskError.

        Raises:
            SessionError: The task has not been awaited.
        """
        check_instance("error", error, Exception)
        TaskControl.of(self).settle("failed", error=error)

    def cancel(self) -> None:
        """End the task without a result.

        Raises:
            SessionError: The task has not been awaited.
        """
        TaskControl.of(self).settle("cancelled")

    def summary(self, result: T | None) -> str:
        """Return the text that replaces the dialogue in the history (`TaskOptions.history="summary"`).

        If it raises or returns no text, that is an `error` event, and the text is `"{id}: {outcome}"`.

        Args:
            result: The result; None if there is none.
        """
        return f"{self.id}: {shown(result)}" if self.outcome == "completed" else f"{self.id}: {self.outcome}"


Settled = Callable[["TaskControl[Any]", ToolSite | None], None]
"""Takes a task whose outcome is known, and the tool call that settled it, if one did; called on the event loop."""


class TaskControl(Generic[T]):
    """The session's side of a task: its outcome, and its place between the agent before it and its end.

    Args:
        adapter: Validates the result.
    """

    def __init__(self, task: AgentTask[T], adapter: TypeAdapter[T], options: TaskOptions) -> None:
        self.task = task
        self.options = options
        self.outcome: TaskOutcome | None = None
        self.parent: Agent | None = None
        """The agent that had the conversation before it; None until it takes over."""
        self.first_sequence = 0
        """The last sequence number of the history before it took over."""
        self.last_sequence = 0
        """That number when its outcome was known."""
        self.handoff_id = ""
        """The handoff that begins it."""
        self._turns: set[str] = set()
        self.began = anyio.Event()
        """Set when it has the conversation, or never gets it."""
        self.over = Done()
        """Set when it has an outcome and the floor is given back."""
        self._adapter = adapter
        self._on_loop: Callable[[Callable[[], object]], None] | None = None
        self._on_settled: Settled | None = None
        self._on_over: Callable[[], None] | None = None
        self._result: T | None = None
        self._reason = ""
        self._cause: Exception | None = None

    @staticmethod
    def of(task: AgentTask[T]) -> TaskControl[T]:
        """Return the control of that task.

        Raises:
            ConfigurationError: Its class does not call the constructor of `AgentTask`.
        """
        return control_of(task, "_task", TaskControl, "instructions")

    @property
    def is_awaited(self) -> bool:
        """Whether it was awaited, so that it runs or has run."""
        return self._on_settled is not None

    @property
    def is_settled(self) -> bool:
        """Whether its outcome is known. It may still have the floor."""
        return self.outcome is not None

    def open(
        self, on_loop: Callable[[Callable[[], object]], None], on_settled: Settled, on_over: Callable[[], None]
    ) -> None:
        """Begin to run.

        Args:
            on_loop: Calls a function on the session's event loop, from any thread.
            on_over: Called when it has given the floor back, or never gets it.
        """
        self._on_loop, self._on_settled, self._on_over = on_loop, on_settled, on_over

    def wait_for_floor(self, handoff_id: str) -> None:
        """Wait for the conversation, which that handoff gives it."""
        self.handoff_id = handoff_id

    def take_over(self, parent: Agent, sequence: int) -> None:
        """Have the conversation, which `parent` has had; `sequence`: the last number of the history."""
        self.parent, self.first_sequence = parent, sequence
        self.began.set()

    def give_back(self, sequence: int) -> None:
        """Have an outcome; `sequence`: the last number of the history."""
        self.last_sequence = sequence

    def end(self) -> None:
        """Be over: the floor is given back, or was never taken."""
        self.began.set()
        self.over.set()
        if self._on_over is not None:
            self._on_over()

    def answered(self, turn_id: str) -> None:
        """Note an answered turn of the caller, and end at the limit of turns."""
        self._turns.add(turn_id)
        if self.options.max_turns is not None and len(self._turns) >= self.options.max_turns:
            self.settle("out_of_turns")

    def validated(self, result: object) -> T:
        """Return the result, as its type has it.

        Raises:
            ToolError: It does not validate.
        """
        from pydantic import ValidationError

        try:
            return self._adapter.validate_python(result)
        except ValidationError as error:
            problems = "; ".join(f"{'.'.join(map(str, p['loc'])) or 'result'}: {p['msg']}" for p in error.errors())
            raise ToolError(f"The result is not valid: {problems}. Ask the caller again.") from None

    def settle(
        self, outcome: TaskOutcome, *, result: T | None = None, reason: str = "", error: Exception | None = None
    ) -> None:
        """Set the outcome, once; from any thread.

        Raises:
            SessionError: The task has not been awaited.
        """
        if self._on_loop is None or self._on_settled is None:
            raise SessionError(f"the task {self.task.id!r} has not begun; await it first")
        on_settled, tool = self._on_settled, calling_tool()

        def take() -> None:
            if self.outcome is None:
                self.outcome, self._result, self._reason, self._cause = outcome, result, reason, error
                on_settled(self, tool)

        self._on_loop(take)

    def summary(self) -> str:
        """Return the text that replaces its dialogue in the history.

        Raises:
            ConfigurationError: The task gives no text.
        """
        return check_text(f"the summary of task {self.task.id!r}", self.task.summary(self._result))

    def result(self) -> T:
        """Return the result of a task that is over.

        Raises:
            TaskError: It ended without one.
        """
        if self.outcome == "completed":
            return cast(T, self._result)
        reason = self._reason or ("" if self._cause is None else describe(self._cause))
        raise TaskError(self.task.id, self.outcome or "cancelled", reason) from self._cause


def _result_type_of(cls: type) -> Any:
    for base in cls.__mro__:
        for generic in vars(base).get("__orig_bases__", ()):
            origin = get_origin(generic)
            if isinstance(origin, type) and issubclass(origin, AgentTask):
                kind = get_args(generic)[0]
                if not isinstance(kind, TypeVar):
                    return kind
    raise ConfigurationError(
        f"need the type of the result of {cls.__name__}: class {cls.__name__}(AgentTask[str]), or result_type=str"
    )


@cache
def _cached_adapter(kind: Any) -> TypeAdapter[Any]:
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        return TypeAdapter(kind)
    except PydanticUserError as error:
        raise ConfigurationError(
            f"need a result type that pydantic can validate, got {shown(kind)}; for example str or a BaseModel"
        ) from error


def _adapter(kind: Any) -> TypeAdapter[Any]:
    try:
        return _cached_adapter(kind)
    except TypeError:  # a type that cannot be hashed, such as Annotated with a list
        return _cached_adapter.__wrapped__(kind)

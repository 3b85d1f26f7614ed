"""Tasks: runs the tasks of a session for the code that awaits them. The rules: `vivavoce.agents.tasks.task`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any, TypeVar

import anyio

from vivavoce.agents.core.call_site import ToolSite, calling_tool
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.hooks import Kind, Run
from vivavoce.agents.core.stage_run import calling_stage
from vivavoce.agents.session.components.requests import PipelineRequests
from vivavoce.agents.session.handoffs.handoff import Handoffs
from vivavoce.agents.session.turns.speeches import Speeches
from vivavoce.agents.tasks.task import AgentTask, TaskControl
from vivavoce.agents.tools.calls import ToolCalls
from vivavoce.pipelines.core.changes import Changes
from vivavoce.pipelines.core.errors import SessionClosedError, SessionError

T = TypeVar("T")

_REFUSED = frozenset[Kind](("close step", "start", "consent"))
"""Code that cannot await a task."""


class Tasks:
    """Begins and ends tasks, one inside the other, and counts their limits."""

    def __init__(
        self,
        context: SessionContext,
        handoffs: Handoffs,
        requests: PipelineRequests,
        tools: ToolCalls,
        speeches: Speeches,
    ) -> None:
        self._context = context
        self._handoffs = handoffs
        self._requests = requests
        self._hooks = handoffs.hooks
        self._tools = tools
        self._speeches = speeches
        self._open: list[TaskControl[Any]] = []
        """The tasks that are awaited."""
        self._resting: list[Run] = []
        """The hooks of turns that await a task; one is in it several times if it awaits several."""
        self._changes = Changes()
        """Of the tasks; code whose task waits for its place looks again."""

    async def run(self, task: AgentTask[T]) -> T:
        """Run a task in the code that awaits it; return its result, and raise, as `AgentSession.run_task`."""
        control = TaskControl.of(task)
        if not control.is_awaited:
            self._check()
            self._requests.check_agent(task, self._handoffs.line_to(task)[:-1])
            control.open(self._context.inbox.on_loop, self._settled, self._changes.note)
            self._open.append(control)
            try:
                with self._gives_way():
                    await self._run(control)
            except BaseException:
                control.settle("cancelled")
                raise
            finally:
                self._open.remove(control)
                self._changes.note()
            if control.outcome == "replaced" and (tool := calling_tool()) is not None:
                self._tools.leave_unanswered(tool.call_id)
        else:
            await control.over.wait()
        return control.result()

    async def _run(self, control: TaskControl[Any]) -> None:
        while not (control.is_settled or self._may_begin):
            await self._changes.wait()
        if self._handoffs.is_replacing and self._context.hooks.here("agent hook") is not None:
            control.settle("replaced")  # the agent leaves as soon as its hook has ended
        elif self._is_of_ended_task:
            control.settle("cancelled")  # as if it had begun before that task has ended
        if not control.is_settled:
            tool = calling_tool()
            self._handoffs.begin_task(control, None if tool is None else self._speeches.record_of(tool.speech_id))
        await control.began.wait()
        limit = math.inf if control.options.max_seconds is None else control.options.max_seconds
        with anyio.move_on_after(limit) as scope:
            await control.over.wait()
        if scope.cancelled_caught:
            control.settle("out_of_time")
            await control.over.wait()

    def answered(self, turn_id: str) -> None:
        """Count an answer to the caller for the task that has the conversation."""
        if self._handoffs.tasks and (task := self._handoffs.tasks[-1]).parent is not None:
            task.answered(turn_id)

    # --- the end of a task

    def close(self) -> None:
        """End all tasks, since the session closes."""
        for control in reversed(self._open):
            control.settle("closed")
            if control.is_settled:  # perhaps before, so that it waits to give the conversation back
                control.end()

    def _settled(self, control: TaskControl[Any], tool: ToolSite | None) -> None:
        """Have a task with an outcome give the conversation back, behind the step of the call that settled it.

        A call of the code that awaits the task is not waited for: it waits for the task.
        """
        is_inside = tool is not None and any(tool.agent is inner.task for inner in self._from(control))
        is_behind_call = (
            tool is not None
            and is_inside
            and not self._context.closing.is_asked
            and self._tools.when_committed(tool.call_id, partial(self._end, control))
        )
        if not is_behind_call:
            self._end(control)

    def _from(self, control: TaskControl[Any]) -> list[TaskControl[Any]]:
        """Return that task and those inside it, the outermost first."""
        tasks = self._handoffs.tasks
        return tasks[tasks.index(control) :] if control in tasks else [control]

    def _end(self, control: TaskControl[Any]) -> None:
        tasks = self._handoffs.tasks
        if self._context.closing.is_asked or control not in tasks:
            control.end()
        else:
            for inner in reversed(self._from(control)[1:]):
                inner.settle("cancelled")
            self._tools.end_task(control.task)
            self._handoffs.end_task(control)
        self._changes.note()

    # --- the code that awaits

    def _check(self) -> None:
        """Check that the calling code may await a task.

        Raises:
            SessionClosedError: The session is closing.
            SessionError: The session, a speech, a stage or the floor waits for the calling code; or it runs elsewhere.
        """
        self._context.check_open()
        self._context.check_here("a task")
        if self._context.closing.is_asked:
            raise SessionClosedError("the session is closing; a task cannot have the conversation any more")
        if (stage := calling_stage()) is not None:
            raise SessionError(
                f"a task cannot be awaited in {stage.name}: {stage.holds_up} waits for this code, and the task comes "
                "behind that; await it in on_enter, a tool, on_user_turn_completed, a flow or a handler"
            )
        runs = list(self._context.hooks.runs_here())
        is_leaving = any(run.kind == "agent hook" and self._hooks.entering_agent(run) is None for run in runs)
        is_leaving |= self._hooks.is_leaving and self._is_for_hook
        if is_leaving or any(run.kind in _REFUSED for run in runs):
            raise SessionError(
                "a task cannot be awaited here: the agent, or the session, is about to leave; await it in on_enter, "
                "a tool, on_user_turn_completed, a flow or a handler"
            )

    @property
    def _may_begin(self) -> bool:
        """Whether no task has the conversation, or the calling code is the innermost task's own."""
        if not self._handoffs.tasks:
            return True
        innermost, tool, hooks = self._handoffs.tasks[-1].task, calling_tool(), self._context.hooks
        if tool is not None:
            return tool.agent is innermost
        if (hook := hooks.here("agent hook")) is not None:
            return self._hooks.entering_agent(hook) is innermost
        hook = hooks.here("turn hook")
        return hook is not None and sum(hook is other for other in self._resting) == 1

    @property
    def _is_of_ended_task(self) -> bool:
        """Whether the calling code is the `on_enter` of a task that has its outcome, and gives the floor back."""
        hook = self._context.hooks.here("agent hook")
        agent = None if hook is None else self._hooks.entering_agent(hook)
        return any(task.task is agent and task.is_settled for task in self._handoffs.tasks)

    @property
    def _is_for_hook(self) -> bool:
        """Whether the calling code is a tool of a speech that a hook of an agent has asked for."""
        tool = calling_tool()
        return tool is not None and self._speeches.is_by_hook(tool.speech_id)

    @contextmanager
    def _gives_way(self) -> Iterator[None]:
        """Stop the limits of the calling code; the speech, or the handoff, that waits for it leaves the floor."""
        hooks, tool = self._context.hooks, calling_tool()
        with ExitStack() as after:
            for run in hooks.runs_here():
                run.hold()
                after.callback(run.release)
            entering, answering = hooks.here("agent hook"), hooks.here("turn hook")
            if tool is not None:
                tool.hold()
                after.callback(tool.release)
                self._tools.rest(tool.call_id, is_resting=True)
                after.callback(self._tools.rest, tool.call_id, is_resting=False)
            if self._is_for_hook or (tool is None and entering is not None):
                self._handoffs.give_way()
            if tool is None and answering is not None:
                if answering not in self._resting:
                    self._speeches.rest(answering.answer_id)
                self._resting.append(answering)
                after.callback(self._rested, answering)
            yield

    def _rested(self, hook: Run) -> None:
        self._resting.remove(hook)
        if hook not in self._resting:
            self._speeches.go_on(hook.answer_id)

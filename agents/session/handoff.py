"""Handoff: the conversation goes from one agent to another: the old one's `on_exit`, then the new one's `on_enter`.

A tool that returns an `Agent`, or `(Agent, output)`, hands off, and so does `session.update_agent(agent)`. The turn
machine decides when: a handoff waits in the queue of speeches, behind everything requested before it, so that earlier
words are heard before it; from then on only its two hooks speak. Decisions:

* `update_agent()` cuts nothing: it waits for present and waiting speech. To cut that, call `interrupt()` first.
* A handoff by a tool begins when the words before the call are over and all calls of that step are settled. It happens
  even if the speech that made the call is cut. Of several agents in one step the first, in the order of the calls, is
  taken; the model is informed that the others were not.
* After a bare `Agent` the new agent's model continues the turn only if `on_enter` spoke nothing and the caller has said
  nothing newer; after `(Agent, output)`, or if other tools ran beside it, always: there is a result to use.
* A handoff to the agent that has the conversation changes nothing and runs no hook.
* Hooks never overlap: a handoff requested in a hook follows the present one, and cannot be awaited there.
* A hook may take `hook_timeout`, counted again from each speech that it requested, and is then cut. One that raises or
  is cut is an `error` event; the new agent has the conversation nevertheless.
* An `AgentTask` takes the conversation, and gives it back, by a handoff of its own, in which only its own hooks run.
  The agent behind it stays where it is. An `on_enter` that awaits a task ends its own handoff, and runs on beside the
  conversation, as that of the session's first agent does from the beginning.
* The components and the context of the new agent (`AgentOverrides`) are taken between the two hooks, and those of the
  old one are given back there. If the components cannot be had, the agent goes on with those before: outcome `failed`.
  If its `context` fails (event `error`), it gets the whole conversation. A task keeps those of the agent behind it.
* An agent that was replaced stays in the session, for its running tools, until the close cleans it up.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal

from anyio.lowlevel import checkpoint

from vivavoce.agents import events as ev
from vivavoce.agents.agent import Agent, AgentControl, AgentUpdate
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.hooks import Run
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.records import HandoffRecord
from vivavoce.agents.session.carried_history import CarriedHistory
from vivavoce.agents.session.handoff_control import HandoffControl
from vivavoce.agents.session.lifecycle.preparing import AgentSetup
from vivavoce.agents.session.pipelines.requests import PipelineRequests
from vivavoce.agents.tasks.task import TaskControl
from vivavoce.agents.tools.batch import AwaitHandoff
from vivavoce.agents.turn.inputs import HandoffEnded, HandoffRequested
from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder
from vivavoce.pipelines.core.checks import awaited
from vivavoce.pipelines.core.errors import ConfigurationError, SessionError, describe

logger = logging.getLogger(__name__)

HookName = Literal["on_enter", "on_exit"]


class Handoffs:
    """Knows the agents of a session, writes `live.agent`, and carries handoffs out when the turn machine says so.

    Args:
        setup: Has an agent ready before it takes over.
        requests: Has the components of an agent take over.
        on_floor: Called with each agent that takes the conversation.
        limit: Seconds for a hook, besides its speech.
    """

    def __init__(
        self,
        context: SessionContext,
        history: HistoryControl,
        setup: AgentSetup,
        requests: PipelineRequests,
        *,
        on_floor: Callable[[Agent], None],
        limit: float,
    ) -> None:
        self._context = context
        self._on_floor = on_floor
        self._setup = setup
        self._requests = requests
        self._live = context.live
        self._limit = limit
        self._history = history
        self._carried = CarriedHistory(context, history, limit=limit)
        self._agents: list[Agent] = []
        self._waiting: dict[str, HandoffControl] = {}
        self._running: HandoffControl | None = None
        self.tasks: list[TaskControl[Any]] = []
        """The tasks that have the conversation, or wait for it; the innermost one is the last."""
        self._first: Run | None = None
        self._entering: list[tuple[Agent, Run]] = []
        """The runs of `on_enter` in handoffs that have not ended."""
        self._leaving: Run | None = None
        """The last run of an `on_exit` in a handoff."""
        self._has_left = False
        """Whether `on_exit` of the agent that has the conversation has been called."""
        self._has_entered = False

    # --- start

    def begin_session(self) -> None:
        """The session starts: the agent is part of it from now on.

        Raises:
            SessionError: It is in another session.
        """
        self._attach(self._live.agent)
        self._agents.append(self._live.agent)

    def take_over(self, agent: Agent, *, is_history_changed: bool = False) -> None:
        """Have `agent` talk from the next model request on; a realtime model may have to get another history."""
        self._live.agent = agent
        self._on_floor(agent)
        if self._live.is_connected:
            self._live.connection.update(agent.instructions, agent.tools, is_history_changed=is_history_changed)

    def enter(self) -> Run:
        """Run the first agent's `on_enter`, which has no limit yet. The start waits for it and reports its error."""
        self._has_entered = True
        self._first = self._start_hook("on_enter", self._live.agent, math.inf, source=None)
        return self._first

    def resume(self) -> None:
        """Let the first agent go on in the middle of its conversation: it does not enter again."""
        self._has_entered = True

    # --- requests, on the session's loop

    def request(self, handoff: HandoffControl) -> None:
        """Have that agent take over, in its turn; before the first agent has entered, at once.

        Raises:
            SessionError: The agent is in another session.
        """
        if self._context.closing.is_asked:
            self._give_up(handoff)
            return
        if AgentControl.of(handoff.agent).is_task:
            raise SessionError(f"{handoff.agent.id!r} is a task; await it, or session.run_task(...), instead")
        if not self._has_entered:
            self._replace(handoff)
            return
        self._attach(handoff.agent)
        for task in reversed(self.tasks):
            task.settle("replaced")
        self._wait(handoff)

    def begin_task(self, task: TaskControl[Any], turn: TurnRecordBuilder | None) -> None:
        """Have that task take the conversation, in its turn.

        Args:
            turn: The record of the turn that awaits it.
        Raises:
            SessionError: The task is in another session.
        """
        self._attach(task.task)
        self.tasks.append(task)
        handoff = HandoffControl(self._context.hooks, task.task, begins=task, turn=turn)
        task.wait_for_floor(handoff.id)
        self._wait(handoff)

    def end_task(self, task: TaskControl[Any]) -> None:
        """Have that task, whose outcome is known, give the conversation back, in its turn."""
        if task.parent is None:
            self.tasks.remove(task)
            task.end()
            return
        if task.outcome not in ("completed", "declined", "failed"):
            for agent, run in self._entering:
                if agent is task.task:
                    run.cut()
        task.give_back(self._history.last_sequence)
        self._wait(HandoffControl(self._context.hooks, task.parent, ends=task))

    def give_way(self) -> None:
        """An `on_enter` awaits a task, itself or by its speech: it goes on beside the conversation."""
        if self._first is not None and not self._first.is_over:
            self._first.let_go("hook")
        handoff = self._running
        if handoff is not None and handoff.ends is None and any(agent is handoff.agent for agent, _ in self._entering):
            handoff.note_answer()
            self._running = None
            self._context.inbox.post(HandoffEnded(handoff.id))

    def entering_agent(self, run: Run) -> Agent | None:
        """Return the agent whose `on_enter` that run is; None if it is another hook."""
        if run is self._first:
            return self.root
        return next((agent for agent, other in self._entering if run is other), None)

    @property
    def is_replacing(self) -> bool:
        """Whether the conversation is about to go to another agent that is no task."""
        handoffs = [*self._waiting.values(), *([] if self._running is None else [self._running])]
        return any(each.agent is not self._live.agent for each in handoffs if each.begins is None and each.ends is None)

    @property
    def is_leaving(self) -> bool:
        """Whether an agent's `on_exit` runs."""
        return self._leaving is not None and not self._leaving.is_over

    @property
    def root(self) -> Agent:
        """The agent that has the conversation, or has it again after all tasks."""
        parents = (task.parent for task in self.tasks)
        return next((parent for parent in parents if parent is not None), self._live.agent)

    def _behind(self, agent: Agent) -> list[Agent]:
        """Return the agents behind a task, the outermost first."""
        line = [*(task.parent for task in self.tasks if task.parent is not None), self._live.agent]
        return line[: line.index(agent)] if agent in line else line

    def _wait(self, handoff: HandoffControl) -> None:
        self._waiting[handoff.id] = handoff
        ends_task = "" if handoff.ends is None else handoff.ends.handoff_id
        requested = HandoffRequested(handoff.id, begins_task=handoff.begins is not None, ends_task=ends_task)
        self._context.inbox.post(requested)

    def _attach(self, agent: Agent) -> None:
        AgentControl.of(agent).attach(self._context.session, partial(self._on_changed, agent))

    def _on_changed(self, agent: Agent, update: AgentUpdate) -> None:
        """Take new instructions or tools of an agent; called in any thread."""

        def pass_on() -> None:
            if agent is self._live.agent:
                self.take_over(agent)
                self._history.add_config_change(
                    agent.id,
                    instructions=update.instructions,
                    tools_added=update.tools_added,
                    tools_removed=update.tools_removed,
                )

        if self._context.inbox.is_bound and not self._context.closing.is_over:
            self._context.inbox.call(pass_on)

    def from_tool(self, agent: Agent, turn_id: str) -> AwaitHandoff:
        """A tool of that turn returned `agent`: request the handoff, and return the wait for its end.

        Raises:
            SessionError: The agent is in another session, or its components do not fit the pipeline.
        """
        try:
            self._requests.check_agent(agent)
        except ConfigurationError as error:
            raise SessionError(f"agent {agent.id!r} cannot take over: {error}") from error
        handoff = HandoffControl(self._context.hooks, agent, turn_id)
        self.request(handoff)
        return handoff.wait

    def _replace(self, handoff: HandoffControl) -> None:
        old = self._live.agent
        if self._agents:  # it has been started
            self._attach(handoff.agent)
            self._agents[:] = [handoff.agent]
        if old is not handoff.agent:
            AgentControl.of(old).detach(self._context.session)
        self.take_over(handoff.agent)
        if self._live.is_connected:
            self._requests.begin_for(handoff.agent)
        handoff.set_outcome("completed")

    # --- effects

    def begin(self, handoff_id: str) -> None:
        """Both sides are silent: carry it out."""
        self._running = handoff = self._waiting.pop(handoff_id)
        self._context.group.start_soon(self._run, handoff, name=f"handoff to {handoff.agent.id}")

    def drop(self, handoff_id: str) -> None:
        """The session closes: nothing comes of one that waits."""
        handoff = self._waiting.pop(handoff_id, None)
        if handoff is not None:
            self._give_up(handoff)

    def turn_committed(self) -> None:
        """The user said something that will be answered."""
        if self._running is not None:
            self._running.note_answer()

    @property
    def turn(self) -> TurnRecordBuilder | None:
        """The turn that waits for the handoff which runs."""
        return None if self._running is None else self._running.turn

    async def _run(self, handoff: HandoffControl) -> None:
        assert handoff is self._running
        try:
            if handoff.ends is None and handoff.begins is None and handoff.agent is self._live.agent:
                logger.info("Agent %s has the conversation already; nothing is handed off", self._live.agent.id)
                handoff.set_outcome("completed")
            else:
                await self._change(handoff)
        finally:
            has_floor = self._running is handoff
            if has_floor:
                self._running = None
            self._give_up(handoff)
            try:
                await checkpoint()  # a speech that waited for it is over or wants the floor before the floor is free
            finally:
                self._ended(handoff, has_floor=has_floor)

    def _ended(self, handoff: HandoffControl, *, has_floor: bool) -> None:
        over = handoff.ends
        if handoff.begins is not None and handoff.begins.parent is None:
            over = handoff.begins  # it has never had the conversation
        if has_floor:
            self._context.inbox.post(HandoffEnded(handoff.id, "" if over is None else over.handoff_id))
        if over is not None:
            over.end()

    async def _change(self, handoff: HandoffControl) -> None:
        observer, new = self._context.observer, handoff.agent
        with observer.hook("handoff", old=self._live.agent.id, new=new.id, turn_id=handoff.turn_id) as watch:
            if handoff.begins is not None:
                await self._begin_task(handoff, handoff.begins)
            elif handoff.ends is not None:
                await self._end_task(handoff, handoff.ends)
            else:
                await self._hand_over(handoff)
            if (error := handoff.error) is not None:
                watch.failed(error)

    async def _hand_over(self, handoff: HandoffControl) -> None:
        old, new, began = self._live.agent, handoff.agent, self._context.clock.now()
        await self._end_first()
        for _, run in list(self._entering):
            await run.finish()
        if self._context.closing.is_asked:
            return
        self._has_left = True
        error = (await self._run_hook("on_exit", old)).failure
        if self._context.closing.is_asked:
            return
        await self._setup.for_handoff(new)
        if self._context.closing.is_asked:
            return
        error = await self._requests.take_for(new) or error
        carried = await self._carried.part_for(new)
        if self._context.closing.is_asked:
            return
        self._take(handoff, is_history_changed=self._carried.show(carried))
        entering = await self._run_hook("on_enter", new)
        error = entering.failure or error
        if any(handle.outcome not in ("failed", "discarded") for handle in entering.handles):
            handoff.note_answer()
        seconds, problem = self._context.clock.now() - began, "" if error is None else describe(error)
        record = HandoffRecord(old=old.id, new=new.id, seconds=seconds, error=problem)
        handoff.set_outcome("completed" if error is None else "failed", error, record)

    async def _begin_task(self, handoff: HandoffControl, task: TaskControl[Any]) -> None:
        if not task.is_settled:
            await self._end_first()
            await self._setup.for_handoff(task.task)
            await self._requests.take_for(task.task, self._behind(task.task))
        if task.is_settled or self._context.closing.is_asked:
            return
        task.take_over(self._live.agent, self._history.last_sequence)
        self._take(handoff)
        entering = await self._run_hook("on_enter", task.task)
        if (error := entering.failure) is not None:
            task.settle("failed", error=error)
        handoff.set_outcome("completed" if error is None else "failed", error)

    async def _end_task(self, handoff: HandoffControl, task: TaskControl[Any]) -> None:
        for agent, run in list(self._entering):
            if agent is task.task:
                await run.finish()
        if self._context.closing.is_asked:
            return
        self._has_left = True
        leaving = await self._run_hook("on_exit", task.task)
        if self._context.closing.is_asked:
            return
        await self._requests.take_for(handoff.agent, self._behind(handoff.agent))
        if self._context.closing.is_asked:
            return
        summary = await self._summary(task)
        self.tasks.remove(task)
        if task.options.history != "keep":
            self._history.condense(task.first_sequence, task.last_sequence, summary)
        self._take(handoff)
        handoff.set_outcome("completed", leaving.failure)

    async def _summary(self, task: TaskControl[Any]) -> str:
        """Return the text that replaces the dialogue of a task: its own, or its outcome if it has none."""
        if task.options.history != "summary":
            return ""
        text = f"{task.task.id}: {task.outcome}"

        async def summarize() -> None:
            nonlocal text
            text = task.summary()

        title = f"summary of task {task.task.id!r}"
        await self._context.hooks.run("agent hook", title, summarize, self._limit)
        return text

    def _take(self, handoff: HandoffControl, *, is_history_changed: bool = False) -> None:
        old, self._has_left = self._live.agent, False
        if handoff.agent not in self._agents:
            self._agents.append(handoff.agent)
        self.take_over(handoff.agent, is_history_changed=is_history_changed)
        self._history.add_handoff(old.id, handoff.agent.id, turn_id=handoff.turn_id)
        self._context.log.note(ev.AgentChanged, turn_id=handoff.turn_id, old=old.id, agent=handoff.agent.id)
        logger.info("The conversation went from agent %s to %s", old.id, handoff.agent.id)

    def _start_hook(self, name: HookName, agent: Agent, limit: float, *, source: str | None) -> Run:
        call = partial(_awaited, name, agent.on_enter if name == "on_enter" else agent.on_exit)
        title = f"{name} of agent {agent.id!r}"
        return self._context.hooks.start("agent hook", title, call, limit, "between its speeches", source=source)

    async def _run_hook(self, name: HookName, agent: Agent) -> Run:
        """Run a hook to its end, and to the end of the speech that it asked for."""
        with self._context.observer.hook(name, agent=agent.id) as watch:
            run = self._start_hook(name, agent, self._limit, source="hook")
            if name == "on_enter":
                self._entering.append((agent, run))
            else:
                self._leaving = run
            await run.finish()
            self._entering = [(who, other) for who, other in self._entering if other is not run]
            if run.late is None:
                for handle in run.handles:
                    await handle
            if run.error is not None:
                watch.failed(run.error)
        return run

    async def _end_first(self) -> None:
        """Let the first agent's `on_enter` end, within the limit that holds from now on, unless it awaits a task."""
        run = self._first
        if run is None or run.is_over or (self.tasks and run.is_let_go):
            return
        run.set_limit(self._limit)
        await run.finish()
        if run.late is not None and not run.is_let_go:
            self._context.hooks.failed(run.name, run.late, "hook")

    def _give_up(self, handoff: HandoffControl) -> None:
        """Nothing more comes of it; an agent that never had the conversation is free for another session."""
        handoff.set_outcome("cancelled")
        if handoff.agent not in self._agents:
            AgentControl.of(handoff.agent).detach(self._context.session)

    # --- close

    def close(self) -> None:
        """Cut each `on_enter` of a handoff; `exit()` waits for its `on_exit`."""
        for _, run in self._entering:
            run.cut()
        if self._first is not None and self._first.is_let_go:
            self._first.cut()

    @property
    def is_entering(self) -> bool:
        """Whether an `on_enter` of a handoff runs, or was cut and has not ended."""
        return bool(self._entering)

    async def entered(self) -> None:
        """Wait for the end of each `on_enter` of a handoff."""
        for _, run in list(self._entering):
            await run.wait()

    async def exit(self) -> None:
        """Run the agent's `on_exit`, once: if a handoff has begun it, wait for its end. The caller limits the wait.

        If a task has the conversation, the `on_exit` of the agents behind it run too.
        """
        failed: list[Exception] = []
        if self._has_left and self._leaving is not None:
            await self._leaving.wait()
        leaving = [] if self._has_left else [self._live.agent]
        leaving += [task.parent for task in reversed(self.tasks) if task.parent is not None]
        for agent in leaving:
            try:
                await _awaited("on_exit", agent.on_exit)
            except Exception as error:  # noqa: BLE001 - the user-callback boundary: the others leave too
                failed.append(error)
        if failed:
            raise failed[0]

    def cleanups(self) -> list[Callable[[], Awaitable[None]]]:
        """Return the `cleanup` of every agent that has had the conversation."""
        return [partial(_awaited, "cleanup", agent.cleanup) for agent in self._agents]

    def release(self) -> None:
        """The session is over: its agents are free for another one."""
        for handoff in list(self._waiting.values()):
            self._give_up(handoff)
        self._waiting.clear()
        for agent in self._agents:
            AgentControl.of(agent).detach(self._context.session)


async def _awaited(name: str, hook: Callable[[], Awaitable[None]]) -> None:
    await awaited(name, hook())

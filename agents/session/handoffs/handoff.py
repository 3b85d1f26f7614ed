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
* The components, the turn-taking options and the context of the new agent (`AgentOverrides`) are taken between the two
  hooks, and those of the old agent are given back there. If the components cannot be had, the agent goes on with those
  before, and the outcome is `failed`. If its `context` fails, that is an `error` event, and it gets the whole
  conversation. A task keeps those of the agent behind it.
* Components that hear the caller are opened when the handoff is asked for, behind a change of the pipeline that is
  under way. Until they are open, or have failed, the handoff does not begin: the agent that has the conversation
  answers the caller meanwhile, and what the application asks for waits behind the handoff. (Of several handoffs that
  wait, the later ones open theirs in the handoff.)
* The end of a task waits for nothing: the agent behind it speaks at once with its own voice, also where a change of
  the pipeline is under way, which begins anew behind that. It hears with the task's components until its own are open
  again; a handoff to others that is asked for before ends that wait.
* An agent that was replaced stays in the session, for its running tools, until the close cleans it up. A task that is
  over is cleaned up and freed when it has given the conversation back.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from anyio import CancelScope
from anyio.lowlevel import checkpoint

from vivavoce.agents import events as ev
from vivavoce.agents.agent import Agent, AgentControl, check_agent
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.records import HandoffRecord
from vivavoce.agents.session.components.requests import PipelineRequests
from vivavoce.agents.session.components.successor import PipelineChangeControl, Successor
from vivavoce.agents.session.handoffs.agent_hooks import AgentHooks
from vivavoce.agents.session.handoffs.handoff_control import HandoffControl
from vivavoce.agents.session.handoffs.session_agents import SessionAgents
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.tasks.task import TaskControl
from vivavoce.agents.tools.agent_setup import AgentSetup
from vivavoce.agents.tools.batch import AwaitHandoff
from vivavoce.agents.turn.inputs import HandoffEnded, HandoffReady, HandoffRequested
from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder
from vivavoce.pipelines.core.errors import ConfigurationError, SessionError, describe

logger = logging.getLogger(__name__)


class Handoffs:
    """Carries handoffs out when the turn machine says so; knows the tasks that have the conversation.

    Args:
        requests: Has the components and the options of an agent take over.
        on_floor: Called with each agent that takes the conversation.
    """

    def __init__(
        self,
        context: SessionContext,
        history: HistoryControl,
        requests: PipelineRequests,
        *,
        on_floor: Callable[[Agent], None],
        options: SessionOptions,
    ) -> None:
        self._context = context
        self._requests = requests
        self._limit = limit = options.speech.hook_timeout
        self.setup = AgentSetup(context, limit=options.start_step)
        """Has agents ready before they serve."""
        self.agents = SessionAgents(context, history, self.setup, on_floor=on_floor, limit=limit)
        """The agents of the session."""
        self.hooks = AgentHooks(context, limit=limit)
        """Runs their `on_enter` and `on_exit`."""
        self._live = context.live
        self._history = history
        self._waiting: dict[str, HandoffControl] = {}
        self._running: HandoffControl | None = None
        self._opening: tuple[HandoffControl, CancelScope] | None = None
        """The one that waits for a change of the pipeline, or for its components; the scope ends the wait."""
        self._replacing: PipelineChangeControl | None = None
        """The change to the components of an agent that has replaced the first one."""
        self._on_taken: Callable[[], None] | None = None
        self.tasks: list[TaskControl[Any]] = []
        """The tasks that have the conversation, or wait for it; the innermost one is the last."""

    # --- start

    def open(self, on_taken: Callable[[], None]) -> None:
        """Call `on_taken` whenever another agent has the conversation."""
        self._on_taken = on_taken

    def begin_session(self) -> None:
        """Make the first agent part of the session, which starts, and have its turn-taking options hold."""
        self.agents.begin_session()
        self._requests.take_turns([self._live.agent])

    # --- requests

    def ask(self, agent: Agent) -> HandoffControl:
        """Ask for a handoff to `agent`, from any thread; the errors: `AgentSession.update_agent`."""
        check_agent(agent, may_be_task=False)
        self._requests.check_agent(agent)
        handoff = HandoffControl(self._context.hooks, agent)
        self._context.check_not_closed()
        if not self._context.is_unstarted:
            AgentControl.of(agent).attach(self._context.session)
        self._context.inbox.on_loop(lambda: self.request(handoff))
        return handoff

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
        if not self.hooks.has_entered:
            self._replace(handoff)
            return
        self.agents.attach(handoff.agent)
        for task in reversed(self.tasks):
            task.settle("replaced")
        self._wait(handoff, [handoff.agent])

    def begin_task(self, task: TaskControl[Any], turn: TurnRecordBuilder | None) -> None:
        """Have that task take the conversation, in its turn.

        Args:
            turn: The record of the turn that awaits it.
        Raises:
            SessionError: The task is in another session.
        """
        self.agents.attach(task.task)
        self.tasks.append(task)
        handoff = HandoffControl(self._context.hooks, task.task, begins=task, turn=turn)
        task.wait_for_floor(handoff.id)
        self._wait(handoff, self.line_to(task.task))

    def end_task(self, task: TaskControl[Any]) -> None:
        """Have that task, whose outcome is known, give the conversation back, in its turn."""
        if task.parent is None:
            self.tasks.remove(task)
            task.end()
            self._end_opening(task.task)
            return
        if task.outcome not in ("completed", "declined", "failed"):
            self.hooks.cut_entering(task.task)
        task.give_back(self._history.last_sequence)
        self._wait(HandoffControl(self._context.hooks, task.parent, ends=task), self.line_to(task.parent))

    def give_way(self) -> None:
        """Let an `on_enter` that awaits a task, itself or by its speech, go on beside the conversation."""
        self.hooks.let_first_go()
        handoff = self._running
        if handoff is not None and handoff.ends is None and self.hooks.is_of(handoff.agent):
            handoff.note_answer()
            self._running = None
            self._context.inbox.post(HandoffEnded(handoff.id))

    @property
    def is_replacing(self) -> bool:
        """Whether the conversation is about to go to another agent that is no task."""
        return any(each.agent is not self._live.agent for each in self._under_way if not each.is_of_task)

    @property
    def _under_way(self) -> list[HandoffControl]:
        return [*self._waiting.values(), *([] if self._running is None else [self._running])]

    @property
    def root(self) -> Agent:
        """The agent that has the conversation, or has it again after all tasks."""
        return self.line_to(self._live.agent)[0]

    def line_to(self, agent: Agent) -> list[Agent]:
        """Return the agents behind a task, the outermost first, and the task; of another agent only itself."""
        line = [*(task.parent for task in self.tasks if task.parent is not None), self._live.agent]
        return [*(line[: line.index(agent)] if agent in line else line), agent]

    def _wait(self, handoff: HandoffControl, agents: Sequence[Agent]) -> None:
        """Queue a handoff to the last of these agents; the others stand behind it."""
        may_wait = not self._waiting and self._running is None and handoff.ends is None
        early = self._requests.open_early(agents) if may_wait else None
        opens = early is not None or (may_wait and self._requests.switch.is_changing)
        self._waiting[handoff.id] = handoff
        self._context.inbox.post(
            HandoffRequested(
                handoff.id,
                begins_task=handoff.begins is not None,
                ends_task="" if handoff.ends is None else handoff.ends.handoff_id,
                opens=opens,
            )
        )
        if opens:
            self._opening = handoff, CancelScope()
            opened = partial(self._opened, handoff, agents, early, self._opening[1])
            self._context.group.start_soon(opened, name=f"opening for {handoff.agent.id}")

    async def _opened(
        self, handoff: HandoffControl, agents: Sequence[Agent], early: Successor | None, scope: CancelScope
    ) -> None:
        with scope:
            while early is None and self._requests.switch.is_changing and not self._context.closing.is_asked:
                await self._requests.switch.unchanging()  # bounded: each change has a limit for its moment
                early = self._requests.open_early(agents)
            if early is not None:
                await early.not_in("opening")  # bounded: `start_step` for each component, and its tries
        self._context.inbox.post(HandoffReady(handoff.id))

    def _end_opening(self, agent: Agent) -> None:
        """Stop opening components for the handoff to that agent."""
        if self._opening is not None and self._opening[0].agent is agent:
            scope, self._opening = self._opening[1], None
            self._requests.switch.drop_early()
            scope.cancel()

    def from_tool(self, agent: Agent, turn_id: str) -> AwaitHandoff:
        """Request the handoff to the `agent` that a tool of that turn returned; return the wait for its end.

        Raises:
            SessionError: The agent is in another session, or its components do not fit the pipeline.
        """
        try:
            self._requests.check_agent(agent)
        except ConfigurationError as error:
            raise SessionError(f"agent {agent.id!r} cannot take over: {error}") from error
        handoff = HandoffControl(self._context.hooks, agent, turn_id)
        self.request(handoff)
        return handoff.wait_for

    def _replace(self, handoff: HandoffControl) -> None:
        self.agents.replace_first(handoff.agent)
        if self.agents.has_begun:
            self._requests.take_turns([handoff.agent])
        if self._live.is_connected:
            self._replacing = self._requests.begin_for([handoff.agent])
        handoff.set_outcome("completed")

    async def components_taken(self) -> None:
        """Wait until the components of an agent that has replaced the first one serve, or cannot be had."""
        while (change := self._replacing) is not None:
            self._replacing = None
            await self._requests.taken_for([self._live.agent], change)

    # --- effects

    def begin(self, handoff_id: str) -> None:
        """Carry the handoff out, now that both sides are silent."""
        self._running = handoff = self._waiting.pop(handoff_id)
        self._context.group.start_soon(self._run, handoff, name=f"handoff to {handoff.agent.id}")

    def drop(self, handoff_id: str) -> None:
        """Give up a waiting handoff, since the session closes."""
        handoff = self._waiting.pop(handoff_id, None)
        if handoff is not None:
            self._give_up(handoff)

    def turn_committed(self) -> None:
        """Note for each handoff that newer words of the caller will be answered."""
        for handoff in self._under_way:
            handoff.note_answer()

    @property
    def turn(self) -> TurnRecordBuilder | None:
        """The turn that waits for the handoff which runs."""
        return None if self._running is None else self._running.turn

    async def _run(self, handoff: HandoffControl) -> None:
        assert handoff is self._running
        try:
            if not handoff.is_of_task and handoff.agent is self._live.agent:
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
            self.agents.end_task(over.task)

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
        await self.hooks.end_first(has_tasks=bool(self.tasks))
        await self.hooks.finish_entering()
        if self._context.closing.is_asked:
            return
        error = (await self.hooks.leave(old)).failure
        if self._context.closing.is_asked:
            return
        await self.setup.for_handoff(new)
        if self._context.closing.is_asked:
            return
        error = await self._requests.take_for([new]) or error
        carried = await self.agents.part_for(new)
        if self._context.closing.is_asked:
            return
        error = self._take(handoff, [new], is_history_changed=self.agents.show(carried)) or error
        entering = await self.hooks.enter(new)
        error = entering.failure or error
        if any(handle.outcome not in ("failed", "discarded") for handle in entering.handles):
            handoff.note_answer()
        seconds, problem = self._context.clock.now() - began, "" if error is None else describe(error)
        handoff.note_record(HandoffRecord(old=old.id, new=new.id, seconds=seconds, error=problem))
        handoff.set_outcome("completed" if error is None else "failed", error)

    async def _begin_task(self, handoff: HandoffControl, task: TaskControl[Any]) -> None:
        agents = self.line_to(task.task)
        if not task.is_settled:
            await self.hooks.end_first(has_tasks=bool(self.tasks))
            await self.setup.for_handoff(task.task)
        if not task.is_settled:
            await self._requests.take_for(agents)
            if task.is_settled and not self._context.closing.is_asked:  # the agent behind it has its own back
                await self._requests.take_for(self.line_to(self._live.agent))
        if self._context.closing.is_asked:
            return
        if task.is_settled:
            await self.setup.end(task.task)
            return
        task.take_over(self._live.agent, self._history.last_sequence)
        self._take(handoff, agents)
        entering = await self.hooks.enter(task.task)
        if (error := entering.failure) is not None:
            task.settle("failed", error=error)
        handoff.set_outcome("completed" if error is None else "failed", error)

    async def _end_task(self, handoff: HandoffControl, task: TaskControl[Any]) -> None:
        await self.hooks.finish_entering(task.task)
        if self._context.closing.is_asked:
            return
        leaving = await self.hooks.leave(task.task)
        if self._context.closing.is_asked:
            return
        agents = self.line_to(handoff.agent)
        await self._requests.give_back(agents)
        if self._context.closing.is_asked:
            return
        summary = await self._summary(task)
        self.tasks.remove(task)
        if task.options.history != "keep":
            self._history.condense(task.first_sequence, task.last_sequence, summary)
        self._take(handoff, agents)
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

    def _take(
        self, handoff: HandoffControl, agents: Sequence[Agent], *, is_history_changed: bool = False
    ) -> Exception | None:
        """Have the agent take over; return the error if its turn-taking options cannot hold."""
        old = self._live.agent
        self.hooks.taken_over()
        self.agents.hand_to(handoff.agent, is_history_changed=is_history_changed)
        error = self._requests.take_turns(agents)
        self._history.add_handoff(old.id, handoff.agent.id, turn_id=handoff.turn_id)
        if self._on_taken is not None:
            self._on_taken()
        self._context.log.note(ev.AgentChanged, turn_id=handoff.turn_id, old=old.id, agent=handoff.agent.id)
        logger.info("The conversation went from agent %s to %s", old.id, handoff.agent.id)
        return error

    def _give_up(self, handoff: HandoffControl) -> None:
        """Cancel a handoff without an outcome, and free an agent that never had the conversation."""
        handoff.set_outcome("cancelled")
        if self._opening is not None and self._opening[0] is handoff:
            self._end_opening(handoff.agent)
        self._requests.handoff_ended()
        self.agents.give_up(handoff.agent)

    # --- close

    def exits(self) -> list[Callable[[], Awaitable[None]]]:
        """Return the `on_exit` of the agent and, if a task has the conversation, of the agents behind it, in order."""
        behind = (task.parent for task in reversed(self.tasks) if task.parent is not None)
        return self.hooks.exits([self._live.agent, *behind])

    def release(self) -> None:
        """Give up the waiting handoffs, since the session is over."""
        for handoff in list(self._waiting.values()):
            self._give_up(handoff)
        self._waiting.clear()

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
* An agent that was replaced stays in the session, for its running tools, until the close cleans it up.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, Literal

import anyio
from anyio.lowlevel import checkpoint

from vivavoce.agents import events as ev
from vivavoce.agents.agent import Agent, AgentControl, AgentUpdate
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.hooks import Hooks, Run
from vivavoce.agents.core.speech_handle import holds_floor
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.records import HandoffRecord
from vivavoce.agents.session.lifecycle.preparing import AgentSetup
from vivavoce.agents.turn.inputs import HandoffEnded, HandoffRequested
from vivavoce.agents.turn_records.turn_record import TurnRecordBuilder
from vivavoce.pipelines.core.checks import awaited
from vivavoce.pipelines.core.errors import SessionError, describe
from vivavoce.pipelines.core.ids import new_id

logger = logging.getLogger(__name__)

HandoffOutcome = Literal["completed", "failed", "cancelled"]
HookName = Literal["on_enter", "on_exit"]


class Handoff:
    """The result of `update_agent()`. Awaiting it resolves when the new agent has entered, or the handoff has ended.

    Awaiting raises only a `SessionError`, in code that the handoff comes after: in a hook of an agent that comes or
    goes, in `on_user_turn_completed` and in a conversation flow.
    """

    def __init__(self, control: HandoffControl) -> None:
        self._control = control

    def __repr__(self) -> str:
        return f"Handoff({self.id!r}, to={self.agent.id!r}, outcome={self.outcome!r})"

    def __await__(self) -> Generator[Any, Any, None]:
        return self._control.wait_here().__await__()

    @property
    def id(self) -> str:
        """The handoff's id."""
        return self._control.id

    @property
    def agent(self) -> Agent:
        """The agent that takes over."""
        return self._control.agent

    @property
    def turn_id(self) -> str:
        """The turn that it is part of; empty if none."""
        return self._control.turn_id

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self._control.is_done

    @property
    def outcome(self) -> HandoffOutcome | None:
        """`completed`; `failed`: a hook raised or was cut, and the new agent has the conversation nevertheless;
        `cancelled`: the session closed before. None before its end.
        """
        return self._control.outcome

    def exception(self) -> Exception | None:
        """Return the error of a handoff that failed."""
        return self._control.error


class HandoffControl:
    """The state of one handoff, which the session changes and its `handoff` shows.

    Args:
        turn_id: The turn that it is part of; empty if none.
    """

    def __init__(self, hooks: Hooks, agent: Agent, turn_id: str = "") -> None:
        self.id = new_id("handoff")
        self.agent = agent
        self.turn_id = turn_id
        self.turn: TurnRecordBuilder | None = None
        """The record of the turn that waits for it."""
        self.record: HandoffRecord | None = None
        self.is_answer = False
        """Whether the caller needs no other answer: `on_enter` had something spoken, or newer words are answered."""
        self.outcome: HandoffOutcome | None = None
        self.error: Exception | None = None
        self.handoff = Handoff(self)
        self._hooks = hooks
        self._done = anyio.Event()

    @property
    def is_done(self) -> bool:
        """Whether it has ended."""
        return self._done.is_set()

    async def wait_here(self) -> None:
        """Wait for its end in application code.

        Raises:
            SessionError: The handoff comes after the calling code.
        """
        if not self.is_done and (self._hooks.here("agent hook") is not None or holds_floor()):
            raise SessionError(
                f"the handoff to {self.agent.id!r} cannot be awaited here: it begins after this code; return from it"
            )
        await self._done.wait()

    async def wait(self, turn: TurnRecordBuilder) -> None:
        """Wait for its end in a speech. The first words of its agents answer the caller's `turn`."""
        self.turn = turn
        await self._done.wait()

    def note_answer(self) -> None:
        """Note that the caller needs no other answer."""
        self.is_answer = True

    def set_outcome(
        self, outcome: HandoffOutcome, error: Exception | None = None, record: HandoffRecord | None = None
    ) -> None:
        """Set the outcome and resolve, once; `record` is for the turn that waits for it."""
        if self.outcome is None:
            self.outcome, self.error, self.record = outcome, error, record
            self._done.set()


class Handoffs:
    """Knows the agents of a session, writes `live.agent`, and carries handoffs out when the turn machine says so.

    Args:
        setup: Has an agent ready before it takes over.
        limit: Seconds for a hook, besides its speech.
    """

    def __init__(self, context: SessionContext, history: HistoryControl, setup: AgentSetup, *, limit: float) -> None:
        self._context = context
        self._setup = setup
        self._live = context.live
        self._session = context.session
        self._limit = limit
        self._history = history
        self._agents: list[Agent] = []
        self._waiting: dict[str, HandoffControl] = {}
        self._running: HandoffControl | None = None
        self._first: Run | None = None
        self._hooks: dict[HookName, Run] = {}
        """The last runs of hooks in handoffs."""
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

    def take_over(self, agent: Agent) -> None:
        """Have `agent` talk from the next model request on."""
        self._live.agent = agent
        if self._live.is_connected:
            self._live.connection.update(agent.instructions, agent.tools)

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
        if not self._has_entered:
            self._replace(handoff)
            return
        self._attach(handoff.agent)
        self._waiting[handoff.id] = handoff
        self._context.inbox.post(HandoffRequested(handoff.id))

    def _attach(self, agent: Agent) -> None:
        AgentControl.of(agent).attach(self._session, partial(self._on_changed, agent))

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

    def from_tool(self, agent: Agent, turn_id: str) -> HandoffControl:
        """A tool of that turn returned `agent`.

        Raises:
            SessionError: The agent is in another session.
        """
        handoff = HandoffControl(self._context.hooks, agent, turn_id)
        self.request(handoff)
        return handoff

    def _replace(self, handoff: HandoffControl) -> None:
        old = self._live.agent
        if self._agents:  # it has been started
            self._attach(handoff.agent)
            self._agents[:] = [handoff.agent]
        if old is not handoff.agent:
            AgentControl.of(old).detach(self._session)
        self.take_over(handoff.agent)
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
            if handoff.agent is self._live.agent:
                logger.info("Agent %s has the conversation already; nothing is handed off", self._live.agent.id)
                handoff.set_outcome("completed")
            else:
                await self._change(handoff)
        finally:
            self._running = None
            self._give_up(handoff)
        await checkpoint()  # a speech that waited for it is over or wants the floor before the floor is free
        self._context.inbox.post(HandoffEnded(handoff.id))

    async def _change(self, handoff: HandoffControl) -> None:
        observer, new = self._context.observer, handoff.agent
        with observer.hook("handoff", old=self._live.agent.id, new=new.id, turn_id=handoff.turn_id) as watch:
            await self._hand_over(handoff)
            if (error := handoff.error) is not None:
                watch.failed(error)

    async def _hand_over(self, handoff: HandoffControl) -> None:
        old, new, began = self._live.agent, handoff.agent, self._context.clock.now()
        await self._end_first()
        if self._context.closing.is_asked:
            return
        self._has_left = True
        error = (await self._run_hook("on_exit", old)).failure
        if self._context.closing.is_asked:
            return
        await self._setup.for_handoff(new)
        if self._context.closing.is_asked:
            return
        self._take(handoff)
        entering = await self._run_hook("on_enter", new)
        error = entering.failure or error
        if any(handle.outcome not in ("failed", "discarded") for handle in entering.handles):
            handoff.note_answer()
        seconds, problem = self._context.clock.now() - began, "" if error is None else describe(error)
        record = HandoffRecord(old=old.id, new=new.id, seconds=seconds, error=problem)
        handoff.set_outcome("completed" if error is None else "failed", error, record)

    def _take(self, handoff: HandoffControl) -> None:
        old, self._has_left = self._live.agent, False
        if handoff.agent not in self._agents:
            self._agents.append(handoff.agent)
        self.take_over(handoff.agent)
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
            self._hooks[name] = run = self._start_hook(name, agent, self._limit, source="hook")
            await run.finish()
            if run.late is None:
                for handle in run.handles:
                    await handle
            if run.error is not None:
                watch.failed(run.error)
        return run

    async def _end_first(self) -> None:
        """Let the first agent's `on_enter` end, within the limit that holds from now on."""
        run = self._first
        if run is None or run.is_over:
            return
        run.set_limit(self._limit)
        await run.finish()
        if run.late is not None:
            self._context.hooks.failed(run.name, run.late, "hook")

    def _give_up(self, handoff: HandoffControl) -> None:
        """Nothing more comes of it; an agent that never had the conversation is free for another session."""
        handoff.set_outcome("cancelled")
        if handoff.agent not in self._agents:
            AgentControl.of(handoff.agent).detach(self._session)

    # --- close

    def close(self) -> None:
        """Cut the `on_enter` of a handoff; `exit()` waits for its `on_exit`."""
        if self.entering is not None:
            self.entering.cut()

    @property
    def entering(self) -> Run | None:
        """The `on_enter` of a handoff that runs, or that was cut and has not ended."""
        run = self._hooks.get("on_enter")
        return None if run is None or run.is_over else run

    async def exit(self) -> None:
        """Run the agent's `on_exit`, once: if a handoff has begun it, wait for its end. The caller limits the wait."""
        if not self._has_left:
            await _awaited("on_exit", self._live.agent.on_exit)
        elif (run := self._hooks.get("on_exit")) is not None:
            await run.wait()

    def cleanups(self) -> list[Callable[[], Awaitable[None]]]:
        """Return the `cleanup` of every agent that has had the conversation."""
        return [partial(_awaited, "cleanup", agent.cleanup) for agent in self._agents]

    def release(self) -> None:
        """The session is over: its agents are free for another one."""
        for handoff in list(self._waiting.values()):
            self._give_up(handoff)
        self._waiting.clear()
        for agent in self._agents:
            AgentControl.of(agent).detach(self._session)


async def _awaited(name: str, hook: Callable[[], Awaitable[None]]) -> None:
    await awaited(name, hook())

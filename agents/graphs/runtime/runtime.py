"""GraphRuntime: feeds the machine of a session's graph, in one task, and carries out its effects in order."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from vivavoce.agents import events as ev
from vivavoce.agents.agent import AgentControl
from vivavoce.agents.core.call_site import calling_tool, runs_in_session
from vivavoce.agents.core.context import NO_ADDITIONS
from vivavoce.agents.extension.extension import Attached, Judges
from vivavoce.agents.graphs.graph.intent import Intent
from vivavoce.agents.graphs.graph.state import State, transition_of
from vivavoce.agents.graphs.intents.classifier import IntentClassifier, IntentMatch, match_of
from vivavoce.agents.graphs.machine import effects as e
from vivavoce.agents.graphs.machine import inputs as i
from vivavoce.agents.graphs.machine.machine import MAX_WAITING, MIN_SCORE, GraphMachine
from vivavoce.agents.graphs.machine.moves import MAX_MOVES
from vivavoce.agents.graphs.machine.rules import USER_TURN, Event, EventKind, OnTool
from vivavoce.agents.graphs.runtime.additions import additions_of
from vivavoce.agents.graphs.runtime.code import GraphCode
from vivavoce.agents.graphs.runtime.kept_machine import KeptMachine
from vivavoce.agents.graphs.runtime.session_events import listen
from vivavoce.agents.graphs.runtime.turns import (
    JUDGE_LIMIT,
    KEY,
    BodyVoice,
    JudgedTurn,
    JudgeLimit,
    SayVoice,
    WaitingTool,
)
from vivavoce.agents.records import GraphEvent
from vivavoce.agents.tools.context import RunContext
from vivavoce.agents.turn.inputs import ToolsStarted
from vivavoce.pipelines.core.clock import TimerHandle
from vivavoce.pipelines.core.errors import SessionError, describe
from vivavoce.pipelines.core.ids import new_id

if TYPE_CHECKING:
    from vivavoce.agents.extension.extension import Host
    from vivavoce.agents.extension.turn_in_hand import TurnInHand
    from vivavoce.agents.graphs.graph.state_graph import StateGraph
    from vivavoce.pipelines.llm.tools import ToolCall

logger = logging.getLogger(__name__)


class GraphRuntime(Attached):
    """The graph of one session at work.

    Raises:
        GraphError: The graph has faults.
    """

    turn_limit = math.inf  # `JUDGE_LIMIT`, which leaves the time of bodies out
    close_after = "tools"

    def __init__(self, host: Host, graph: StateGraph) -> None:
        self.graph = graph
        self.warn(graph.check())
        self._host = host
        self._context = host.context
        self._rules = graph.rules()
        self._kept = KeptMachine(self._rules, host.context.clock, host.record)
        self._states = {state.name: state for state in graph.states}
        self._intents = {intent.name: intent for intent in graph.intents}
        self._additions = {
            name: additions_of(state, [self._intents[one] for one in self._rules.states[name].intents], self._choose)
            for name, state in self._states.items()
        }
        self._code = GraphCode(host.context, limit=host.hook_timeout)
        self._inputs: deque[i.GraphInput] = deque()
        self._news = anyio.Event()
        self._timer: TimerHandle | None = None
        self._has_ended = False
        self._limit = JudgeLimit()
        self._turns: dict[str, JudgedTurn] = {}
        """Turns by the ids of their events; the event of a turn has the id of the speech that answers it."""
        self._waiters: dict[str, WaitingTool] = {}
        self._chosen: set[str] = set()
        """The ids of calls that have chosen an intent and were answered by a body."""
        self._data_done = anyio.Event()
        self._events: dict[str, GraphEvent] = {}
        self.event: GraphEvent | None = None
        """The last event that was judged."""
        self.intent: IntentMatch | None = None
        """The intent of the last speech."""
        listen(host.context.log.emitter, self._rules, self.receive)

    # --- life

    @property
    def _is_open(self) -> bool:
        """Whether events are taken: the session is in its room, perhaps before it takes a conversation over."""
        return self._context.live.transport is not None and not self._has_ended

    async def begin(self) -> None:
        """Begin the task. `restore()` must not be called later: it would lose the events that the machine has taken."""
        self._context.group.start_soon(self._run, name=KEY)

    def entered(self) -> None:
        """Begin the conversation, or continue it."""
        self._limit.counts()
        self._post(i.Begun())
        if self._machine.state:
            self._show_state()

    def end(self) -> None:
        """Take no more events, and cut the code that runs; the close cuts the answers and tools that wait for it."""
        if self._is_open:
            self._kept.close()
        self._has_ended = True
        self._inputs.clear()
        self._arm(None)
        self._code.cut()

    @property
    def has_work(self) -> bool:
        """Whether a body, a condition or a classifier runs."""
        return self._code.is_running

    async def aclose(self) -> None:
        """Wait for the end of the code that runs."""
        await self._code.ended()

    def warn(self, warnings: Iterable[str]) -> None:
        """Log the warnings that no session of the graph has logged."""
        for warning in self.graph.take_new(warnings):
            logger.warning("The conversation graph: %s", warning)

    # --- reading

    @property
    def _machine(self) -> GraphMachine:
        return self._kept.machine

    @property
    def state(self) -> State | None:
        return self._states.get(self._machine.state)

    @property
    def waiting(self) -> tuple[GraphEvent, ...]:
        """The events that wait for a later state."""
        return tuple(self._events.get(event.id, GraphEvent(event.name)) for event in self._machine.waiting)

    @property
    def judges(self) -> Judges:
        """Whether speech is judged before it is answered."""
        rules = self._rules.states.get(self._machine.state)
        is_task = AgentControl.of(self._context.live.agent).is_task
        return "turn" if rules is not None and rules.judges_speech and not is_task else "nothing"

    # --- events

    def receive(self, event: GraphEvent, *, kind: EventKind = "event", subject: str = "", is_own: bool = False) -> None:
        """Take an event, on the session's event loop.

        Args:
            is_own: Whether it may be a consequence of the graph's moves.
        """
        self._post_event(Event(new_id("event"), kind, event.name, subject, is_own), event)

    def move(self, state: str, *, is_own: bool) -> None:
        """Move to a state, on the session's event loop; `is_own` as above."""
        self._post(i.MoveRequested(state, is_own))

    def data_changed(self) -> None:
        """Note that private data have changed, or that the application wants transitions to be judged; from any
        thread."""
        if self._is_open and not self._code.is_judging_here:
            self._context.inbox.on_loop(partial(self._note_data, i.DataChanged(runs_in_session())))

    def _note_data(self, change: i.DataChanged) -> None:
        if change not in self._inputs:
            if self._data_done.is_set():
                self._data_done = anyio.Event()
            self._post(change)

    async def on_tool_result(self, call: ToolCall, output: str) -> bool:
        """Take the call of a tool, if a state waits for that tool; wait until it is judged, with the data it
        changed."""
        rules = self._rules.states.values()
        tool = calling_tool()
        speech_id = "" if tool is None else tool.speech_id
        turn = self._turns.get(speech_id)
        if not any(rule.trigger == OnTool(call.name) for state in rules for rule in state.rules):
            await self._data_judged(turn, speech_id)
            is_answered = call.call_id in self._chosen
            self._chosen.discard(call.call_id)
            return is_answered
        event = Event(new_id("event"), "tool", call.name, is_own=True)
        return await self._judged(event, i.EventReceived(event), output, turn, speech_id)

    async def _data_judged(self, turn: JudgedTurn | None, speech_id: str) -> None:
        """Wait until private data that a tool of that speech may have changed are judged; do not wait for a body."""
        is_waiting = not (self._data_done.is_set() or self._is_waited_for(speech_id))
        if is_waiting and await self._limit.in_time(self._data_done) and turn is not None:
            turn.spoken.record.answered_in(self._machine.state)

    async def _choose(self, intent: Intent, context: RunContext, slots: Any) -> str:
        """Take an intent chosen by the answering model; return the output of the call."""
        self.intent = IntentMatch(intent.name, 1.0, slots)
        turn = self._turns.get(context.speech.id)
        event = Event(new_id("event"), "speech", USER_TURN, is_own=True)
        before = self._machine.state
        text = "" if turn is None else turn.spoken.text
        is_behind_body = self._is_waited_for(context.speech.id)
        ran_body = await self._judged(event, i.IntentChosen(event, intent.name), text, turn, context.speech.id)
        if ran_body:
            self._chosen.add(context.call_id)
        if is_behind_body:
            return "The intent is noted; it counts as soon as the present state has done its part."
        if self._machine.state == before and not ran_body:
            return "No transition is taken; the conversation goes on as before."
        return f"The conversation is in the state {self._machine.state!r} now; follow its instructions."

    def _is_waited_for(self, speech_id: str) -> bool:
        """Return whether the code that runs, or `on_enter`, may wait for that speech or for the task in
        conversation."""
        if not self._machine.is_begun:
            return True
        is_task = AgentControl.of(self._context.live.agent).is_task
        return self._code.is_waiting_for(speech_id) or (is_task and self._code.is_running)

    async def _judged(
        self, event: Event, given: i.GraphInput, data: Any, turn: JudgedTurn | None, speech_id: str
    ) -> bool:
        """Send the event of a tool that this turn or speech has called, and wait until the event is judged.

        It does not wait where the event can be judged only after the body for which the tool works.

        Returns:
            Whether a body ran.
        """
        if not self._is_open:
            return False
        if self._is_waited_for(speech_id):
            self._events[event.id] = GraphEvent(event.name, data)
            self._post(given)
            return False
        if turn is not None:
            self._turns[event.id] = turn
        waiter = self._waiters[event.id] = WaitingTool()
        self._events[event.id] = GraphEvent(event.name, data)
        self._post(given)
        try:
            is_in_time = await self._limit.in_time(waiter.done)
        finally:
            del self._waiters[event.id]
            if self._turns.pop(event.id, None) is not None and turn is not None:
                turn.spoken.record.answered_in(self._machine.state)
        if not is_in_time:
            self._report(f"the graph did not take the call of {event.name!r} within {JUDGE_LIMIT:g} s")
        return waiter.ran_body

    # --- turns of the caller

    async def on_turn(self, turn: TurnInHand) -> None:
        """Wait until the turn is judged, or a body answers it."""
        if not self._is_open or AgentControl.of(self._context.live.agent).is_task:
            return
        event_id = turn.handle.id
        judged = self._turns[event_id] = JudgedTurn(turn)
        turn.handle.add_done_callback(lambda _: self._forget())
        if not turn.text.strip():  # the model has heard the words, which come later, and may choose an intent
            turn.record.answered_in(self._machine.state)
            return judged.settle()
        self._post_event(Event(event_id, "speech", USER_TURN, is_own=True), GraphEvent(USER_TURN, turn.text))
        if turn.is_remote:
            return
        self._code.wait_for(event_id)
        if not self._machine.is_begun or self._code.is_running:
            turn.leave_floor()
        try:
            is_in_time = await self._limit.in_time(judged.decided)
        finally:
            turn.want_floor()
            if not judged.decided.is_set():  # the answer was cut, or this took too long
                self._undo(event_id)
                judged.settle()
        if not is_in_time:
            self._report(f"the graph did not judge a turn within {JUDGE_LIMIT:g} s; the model answers it")

    def undo(self, turn: TurnInHand) -> None:
        """Stop judging the turn, and take its move back unless a body answers it."""
        self._undo(turn.handle.id)

    def _undo(self, speech_id: str) -> None:
        if speech_id in self._turns:
            self._inputs = deque(one for one in self._inputs if _event_of(one) != speech_id)
            self._inputs.appendleft(i.TurnUndone(speech_id))  # before the answer to a question about it
            self._news.set()

    # --- the task

    def _post_event(self, event: Event, data: GraphEvent) -> None:
        if self._is_open:
            self._events[event.id] = data
            self._post(i.EventReceived(event))

    def _post(self, event: i.GraphInput) -> None:
        if self._is_open:
            self._inputs.append(event)
            self._news.set()

    async def _run(self) -> None:
        clock = self._context.clock
        while True:
            while self._inputs:
                self._take(self._inputs.popleft())
            due = self._machine.next_deadline()
            if due is not None and due <= clock.now():
                self._take(i.Tick())
                continue
            self._news = anyio.Event()
            self._arm(due)
            await self._news.wait()

    def _arm(self, due: float | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None if due is None else self._context.clock.call_at(due, lambda: self._news.set())

    def _take(self, event: i.GraphInput) -> None:
        effects: list[e.GraphEffect] = []
        try:
            effects = self._machine.handle(event, now=self._context.clock.now())
        except Exception as error:  # noqa: BLE001 - a fault of ours: the conversation goes on without this input
            self._failed(type(event).__name__, error)
        for effect in effects:
            try:
                self._apply(effect)
            except Exception as error:  # noqa: BLE001 - a fault of ours: the machine must not wait for its answer
                self._failed(type(effect).__name__, error)
                self._answer_failed(effect)
        self._forget()

    def _failed(self, at: str, error: Exception) -> None:
        logger.error("The conversation graph failed at %s: %s", at, describe(error))
        self._context.report_error(error, KEY)

    def _answer_failed(self, effect: e.GraphEffect) -> None:
        match effect:
            case e.Judge():
                self._post(i.Judged(effect.question, holds=False))
            case e.Classify():
                self._post(i.Classified(effect.question, ""))
            case e.RunBody():
                self._post(i.BodyEnded(effect.run, has_failed=True))

    def _forget(self) -> None:
        """Forget events that are judged, the tools that wait for them, and turns that are over."""
        live = self._machine.to_judge.union(map(_event_of, self._inputs))
        if not (self._machine.is_judging_data or i.DataChanged() in self._inputs):
            self._data_done.set()
        for event_id, waiter in self._waiters.items():
            if event_id not in live:
                waiter.done.set()
        for event_id in [one for one, turn in self._turns.items() if turn.is_over and one not in live]:
            del self._turns[event_id]
        live.update(event.id for event in self._machine.waiting)
        for event_id in self._events.keys() - live:
            del self._events[event_id]

    # --- effects

    def _apply(self, effect: e.GraphEffect) -> None:
        if (event := self._events.get(effect.event_id)) is not None:
            self.event = event
        match effect:
            case e.Judge():
                transition = self._states[effect.state].transitions[effect.transition]
                name = f"a condition of the graph's state {effect.state!r}"
                self._code.judge(
                    name,
                    transition,
                    lambda holds: self._post(i.Judged(effect.question, holds)),
                    answer_id=self._answer_of(effect.event_id),
                )
            case e.Classify():
                self._classify(effect)
            case e.Moved():
                self._moved(effect)
            case e.RunBody():
                self._run_body(effect)
            case e.Settled():
                if (turn := self._turns.get(effect.event_id)) is not None:
                    turn.judged(self._machine.state)
            case e.EventDropped():
                problem = f"more than {MAX_WAITING} events wait for a state that takes them; the oldest is dropped"
                self._report_repeated(problem)
            case e.MovesExceeded():
                problem = f"one event caused {MAX_MOVES} moves; the graph stops in the state {effect.state!r}"
                self._report_repeated(f"{problem}; end the circle of moves, such as by a condition that stops holding")

    def _classify(self, effect: e.Classify) -> None:
        state, event = self._states[self._machine.state], self._events[effect.event_id]
        classifier = state.intents
        assert isinstance(classifier, IntentClassifier)
        intents, history = [self._intents[name] for name in effect.intents], self._host.history.for_model()
        self.intent = None

        def found(match: IntentMatch | None) -> None:
            if match is not None and match.score >= MIN_SCORE and effect.question == self._machine.question:
                self.intent = match
            name, score = ("", 0.0) if match is None else (match.name, match.score)
            self._post(i.Classified(effect.question, name, score))

        name = f"the classifier {type(classifier).__name__} of the graph"
        question = partial(match_of, classifier, event.data, intents, history)
        self._code.ask(name, question, found, answer_id=self._answer_of(effect.event_id))

    def _moved(self, effect: e.Moved) -> None:
        index, states = effect.transition, self._states
        transition = "" if index is None else transition_of(states[effect.source], index, states[effect.state])
        turn = self._turns.get(effect.event_id)
        if turn is not None:
            turn.moved(transition, is_undone=effect.reason == "undo")
        self._show_state()
        if turn is None:
            self._host.changed()
        self._context.log.note(
            ev.GraphMoved, old=effect.source, state=effect.state, reason=effect.reason, transition=transition
        )

    def _show_state(self) -> None:
        """Give the answering model the instructions and tools of the present state."""
        self._host.add_to_agent(self._additions.get(self._machine.state, NO_ADDITIONS))

    def _run_body(self, effect: e.RunBody) -> None:
        state = self._states[effect.state]
        body = state.on_no_match if effect.is_fallback else state.on_enter
        assert body is not None
        turn, waiter = self._turns.get(effect.event_id), self._waiters.get(effect.event_id)
        voice: BodyVoice = SayVoice(self._context)
        answer_id = self._answer_of(effect.event_id)
        if turn is not None and turn.takes_answer:
            voice = turn
            self._context.inbox.post(ToolsStarted(answer_id))  # new words are a new turn now
            turn.spoken.record.answered_in(effect.state)
            turn.answer()
        for other in self._turns.values():
            if other.is_waiting:
                other.spoken.leave_floor()
        if waiter is not None:
            waiter.body_runs()
        name = f"the {'fallback ' * effect.is_fallback}body of the graph's state {effect.state!r}"

        def ended(has_failed: bool) -> None:
            self._limit.counts()
            self._post(i.BodyEnded(effect.run, has_failed))

        self._code.run_body(name, body, voice, answer_id=answer_id, on_end=ended)
        self._limit.stands_still()

    # --- small parts

    def _answer_of(self, event_id: str) -> str:
        """Return the id of the answer that waits for code about that event: of its turn, else of a turn not judged yet;
        "" if none."""
        if (turn := self._turns.get(event_id)) is not None and turn.takes_answer:
            return turn.spoken.handle.id
        return next((one.spoken.handle.id for one in self._turns.values() if one.is_waiting), "")

    def _report_repeated(self, problem: str) -> None:
        """Report a problem that may come again and again: the report counts it."""
        self._context.log.note_repeated_error(problem, SessionError(problem), KEY, is_recovered=True)

    def _report(self, problem: str) -> None:
        self._context.report_error(SessionError(problem), KEY, is_recovered=True)


def _event_of(given: i.GraphInput) -> str:
    return given.event.id if isinstance(given, i.EventReceived | i.IntentChosen) else ""

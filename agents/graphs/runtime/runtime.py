"""GraphRuntime: feeds the machine of a session's graph, in one task, and carries out its effects in order."""

from __future__ import annotations

import logging
import math
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import anyio

from vivavoce.agents import events as ev
from vivavoce.agents.agent import AgentControl
from vivavoce.agents.core.call_site import calling_tool
from vivavoce.agents.core.context import NO_ADDITIONS, Additions, SessionContext
from vivavoce.agents.graphs.graph.intent import Intent
from vivavoce.agents.graphs.graph.state import GraphEvent, State, transition_of
from vivavoce.agents.graphs.graph.state_graph import StateGraph
from vivavoce.agents.graphs.intents.classifier import IntentClassifier, IntentMatch, match_of
from vivavoce.agents.graphs.machine import effects as e
from vivavoce.agents.graphs.machine import inputs as i
from vivavoce.agents.graphs.machine.machine import MAX_MOVES, MAX_WAITING, MIN_SCORE, GraphMachine
from vivavoce.agents.graphs.machine.rules import USER_TURN, Event, EventKind, OnTool
from vivavoce.agents.graphs.machine.saved import restored
from vivavoce.agents.graphs.runtime.additions import additions_of
from vivavoce.agents.graphs.runtime.code import SOURCE, GraphCode
from vivavoce.agents.graphs.runtime.session_events import listen
from vivavoce.agents.graphs.runtime.turns import BodyVoice, JudgedTurn, SayVoice, WaitingTool
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.speech.turn_dialogue import SpokenTurn, TurnDialogue
from vivavoce.agents.tools.context import RunContext
from vivavoce.agents.turn.inputs import ToolsStarted
from vivavoce.pipelines.core.clock import TimerHandle
from vivavoce.pipelines.core.errors import SessionError, describe
from vivavoce.pipelines.core.ids import new_id
from vivavoce.pipelines.llm.tools import ToolCall

logger = logging.getLogger(__name__)

JUDGE_LIMIT = 30.0
"""Seconds for which a turn or a tool waits until it is judged, without those of bodies, which have their own limits."""


class GraphRuntime(TurnDialogue):
    """The graph of one session at work.

    Args:
        make_machine: Makes the machine: `GraphMachine`, or one that is recorded.
        limit: Seconds for one run of a condition or a classifier, and of a body between its speeches.
    Raises:
        GraphError: The graph has faults.
    """

    def __init__(
        self, context: SessionContext, graph: StateGraph, make_machine: Callable[..., GraphMachine], *, limit: float
    ) -> None:
        self.graph = graph
        for warning in graph.check():
            logger.warning("The conversation graph: %s", warning)
        self._context = context
        self._rules = graph.rules()
        self._make_machine, self._machine = make_machine, make_machine(self._rules)
        self._states = {state.name: state for state in graph.states}
        self._intents = {intent.name: intent for intent in graph.intents}
        self._additions = {name: self._additions_of(state) for name, state in self._states.items()}
        self._code = GraphCode(context, limit=limit)
        self._leave_unanswered: Callable[[str], None] | None = None
        self._history: HistoryControl | None = None
        self._moved_outside: Callable[[], None] | None = None
        self._inputs: deque[i.GraphInput] = deque()
        self._news = anyio.Event()
        self._timer: TimerHandle | None = None
        self._is_open = False
        self._free_since = math.inf
        """Since when no body runs, in seconds of the event loop; inf before the beginning, and while one runs."""
        self._last: dict[str, Any] | None = None
        """The state at the close."""
        self._turns: dict[str, JudgedTurn] = {}
        """Turns by their events; the event of a turn has the id of the speech that answers it."""
        self._waiters: dict[str, WaitingTool] = {}
        self._data_done = anyio.Event()
        self._events: dict[str, GraphEvent] = {}
        self.event: GraphEvent | None = None
        """The last event that was judged."""
        self.intent: IntentMatch | None = None
        """The intent of the last speech."""

    # --- life

    def open(
        self, history: HistoryControl, leave_unanswered: Callable[[str], None], moved_outside: Callable[[], None]
    ) -> None:
        """Take events.

        Args:
            leave_unanswered: Called with the id of a tool's call whose result a body has answered.
            moved_outside: Called after a move that no turn has led to.
        """
        self._history, self._is_open = history, True
        self._leave_unanswered, self._moved_outside = leave_unanswered, moved_outside
        listen(self._context.log.emitter, self._rules, self.receive)

    def follow(self) -> None:
        """Begin the task: `resume()` comes no more, which would lose the events that the machine has taken."""
        self._context.group.start_soon(self._run, name=SOURCE)

    def begin(self) -> None:
        """The conversation begins, or goes on: `on_enter` is over."""
        self._free_since = anyio.current_time()
        self._post(i.Begun())
        if self._machine.state:
            self._show_state()

    def close(self) -> None:
        """Take no more events, and cut the code that runs; the close cuts the answers and tools that wait for it."""
        if self._is_open:
            self._last = self.taken()
        self._is_open = False
        self._inputs.clear()
        self._arm(None)
        self._code.cut()

    @property
    def has_code(self) -> bool:
        """Whether a body, a condition or a classifier runs."""
        return self._code.is_running

    async def code_ended(self) -> None:
        """Wait for the end of that; the caller limits it."""
        await self._code.ended()

    # --- snapshots

    def taken(self) -> dict[str, Any]:
        """Return the state of the machine as JSON, in any thread once it has been closed."""
        if self._last is not None:
            return self._last
        return self._machine.to_json(now=self._context.clock.now())

    def check(self, taken: Any) -> None:
        """Check that `resume()` can take that state.

        Raises:
            ConfigurationError: It is of another graph or shape.
        """
        restored(taken, self._rules)

    def resume(self, taken: Mapping[str, Any]) -> None:
        """Go on from that state; `follow()` comes next.

        Raises:
            ConfigurationError: It is of another graph or shape.
        """
        saved = restored(taken, self._rules)
        self._machine = self._make_machine(self._rules, saved, now=self._context.clock.now())
        self._events = {event.id: GraphEvent(event.name) for event in saved.events}

    # --- reading

    @property
    def state(self) -> State | None:
        """The present state."""
        return self._states.get(self._machine.state)

    @property
    def waiting(self) -> tuple[GraphEvent, ...]:
        """The events that wait for a later state."""
        return tuple(self._events.get(event.id, GraphEvent(event.name)) for event in self._machine.waiting)

    @property
    def judges_speech(self) -> bool:
        """Whether speech is judged before it is answered."""
        rules = self._rules.states.get(self._machine.state)
        return rules is not None and rules.judges_speech and not AgentControl.of(self._context.live.agent).is_task

    # --- events

    def receive(self, event: GraphEvent, *, kind: EventKind = "event", subject: str = "") -> None:
        """Take an event, on the session's event loop."""
        self._post_event(Event(new_id("event"), kind, event.name, subject), event)

    def move(self, state: str) -> None:
        """Move to a state, on the session's event loop."""
        self._post(i.MoveRequested(state))

    def data_changed(self) -> None:
        """Private data have changed, or the application wants transitions to be judged; in any thread."""
        if self._is_open and not self._code.is_judging_here:
            self._context.inbox.on_loop(self._note_data)

    def _note_data(self) -> None:
        if i.DataChanged() not in self._inputs:
            if self._data_done.is_set():
                self._data_done = anyio.Event()
            self._post(i.DataChanged())

    async def called(self, call: ToolCall, output: str) -> None:
        """Take the call of a tool, if a state waits for one of that name; wait until it, or changed data, is judged."""
        rules = self._rules.states.values()
        tool = calling_tool()
        speech_id = "" if tool is None else tool.speech_id
        turn = self._turns.get(speech_id)
        if not any(rule.trigger == OnTool(call.name) for state in rules for rule in state.rules):
            return await self._data_judged(turn, speech_id)
        event = Event(new_id("event"), "tool", call.name)
        self._answered_by(call.call_id, await self._judged(event, i.EventReceived(event), output, turn, speech_id))

    async def _data_judged(self, turn: JudgedTurn | None, speech_id: str) -> None:
        """Wait until private data, which a tool of that speech has perhaps changed, are judged; not for a body."""
        is_waiting = not (self._data_done.is_set() or self._is_waited_for(speech_id))
        if is_waiting and await self._in_time(self._data_done) and turn is not None:
            turn.spoken.record.answered_in(self._machine.state)

    async def _choose(self, intent: Intent, context: RunContext, slots: Any) -> str:
        """Take an intent that the answering model has chosen; return the output of its call."""
        self.intent = IntentMatch(intent.name, 1.0, slots)
        turn = self._turns.get(context.speech.id)
        event = Event(new_id("event"), "speech", USER_TURN)
        before = self._machine.state
        text = "" if turn is None else turn.spoken.text
        is_behind_body = self._is_waited_for(context.speech.id)
        ran_body = await self._judged(event, i.IntentChosen(event, intent.name), text, turn, context.speech.id)
        self._answered_by(context.call_id, ran_body)
        if is_behind_body:
            return "The intent is noted; it counts as soon as the present state has done its part."
        if self._machine.state == before and not ran_body:
            return "No transition is taken; the conversation goes on as before."
        return f"The conversation is in the state {self._machine.state!r} now; follow its instructions."

    def _is_waited_for(self, speech_id: str) -> bool:
        """Whether the code that runs, or `on_enter`, may wait for that speech, or for the task in conversation."""
        if not self._machine.is_begun:
            return True
        is_task = AgentControl.of(self._context.live.agent).is_task
        return self._code.is_waiting_for(speech_id) or (is_task and self._code.is_running)

    async def _judged(
        self, event: Event, given: i.GraphInput, data: Any, turn: JudgedTurn | None, speech_id: str
    ) -> bool:
        """Send an event of a tool, which that turn or speech has called, and wait until it is judged.

        An event that is judged only after the body for which the tool works is not waited for.

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
            is_in_time = await self._in_time(waiter.done)
        finally:
            del self._waiters[event.id]
            if self._turns.pop(event.id, None) is not None and turn is not None:
                turn.spoken.record.answered_in(self._machine.state)
        if not is_in_time:
            self._report(f"the graph did not take the call of {event.name!r} within {JUDGE_LIMIT:g} s")
        return waiter.ran_body

    def _answered_by(self, call_id: str, has_body: bool) -> None:
        if has_body and self._leave_unanswered is not None:
            self._leave_unanswered(call_id)

    # --- turns of the caller

    async def judge(self, turn: SpokenTurn) -> None:
        """Wait until the turn is judged, or a body answers it."""
        if not self._is_open or AgentControl.of(self._context.live.agent).is_task:
            return
        event_id = turn.handle.id
        judged = self._turns[event_id] = JudgedTurn(turn)
        turn.handle.add_done_callback(lambda _: self._forget())
        if not turn.text.strip():  # the model has heard the words, which come later, and may choose an intent
            turn.record.answered_in(self._machine.state)
            return judged.settle()
        self._post_event(Event(event_id, "speech", USER_TURN), GraphEvent(USER_TURN, turn.text))
        if turn.is_remote:
            return
        self._code.wait_for(event_id)
        if not self._machine.is_begun or self._code.is_running:
            judged.leave_floor(self._context.inbox)
        try:
            is_in_time = await self._in_time(judged.decided)
        finally:
            judged.want_floor(self._context.inbox)
            if not judged.decided.is_set():  # the answer was cut, or this took too long
                self.undo(event_id)
                judged.settle()
        if not is_in_time:
            self._report(f"the graph did not judge a turn within {JUDGE_LIMIT:g} s; the model answers it")

    async def _in_time(self, judged: anyio.Event) -> bool:
        """Wait for a judgement; return whether it came within `JUDGE_LIMIT`, which begins anew behind each body."""
        began = anyio.current_time()
        while (left := max(began, self._free_since) + JUDGE_LIMIT - anyio.current_time()) > 0:
            with anyio.move_on_after(min(left, JUDGE_LIMIT)):
                await judged.wait()
                return True
        return False

    def undo(self, speech_id: str) -> None:
        """Judge the turn that this speech was to answer no more, and take its move back unless a body answers it."""
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
        self._context.report_error(error, SOURCE)

    def _answer_failed(self, effect: e.GraphEffect) -> None:
        match effect:
            case e.Judge():
                self._post(i.Judged(effect.question, holds=False))
            case e.Classify():
                self._post(i.Classified(effect.question, ""))
            case e.RunBody():
                self._post(i.BodyEnded(effect.run, has_failed=True))

    def _forget(self) -> None:
        """Let go of events that are judged, of the tools that wait for them, and of turns that are over."""
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
                self._report(f"more than {MAX_WAITING} events wait for a state that takes them; the oldest is dropped")
            case e.MovesExceeded():
                self._report(f"one event caused {MAX_MOVES} moves; the graph stops in the state {effect.state!r}")

    def _classify(self, effect: e.Classify) -> None:
        state, event = self._states[self._machine.state], self._events[effect.event_id]
        classifier = state.intents
        assert isinstance(classifier, IntentClassifier)
        assert self._history is not None, "open() comes first"
        intents, history = [self._intents[name] for name in effect.intents], self._history.for_model()
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
        if turn is None and self._moved_outside is not None:
            self._moved_outside()
        self._context.log.note(
            ev.DialogueMoved, old=effect.source, state=effect.state, reason=effect.reason, transition=transition
        )

    def _show_state(self) -> None:
        """Give the answering model the instructions and tools of the present state."""
        live, added = self._context.live, self._additions.get(self._machine.state, NO_ADDITIONS)
        if added != live.additions:
            live.additions = added
            live.connection.update(live.instructions, live.tools, is_history_changed=False)

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
                other.leave_floor(self._context.inbox)
        if waiter is not None:
            waiter.body_runs()
        name = f"the {'fallback ' * effect.is_fallback}body of the graph's state {effect.state!r}"

        def ended(has_failed: bool) -> None:
            self._free_since = anyio.current_time()
            self._post(i.BodyEnded(effect.run, has_failed))

        self._code.run_body(name, body, voice, answer_id=answer_id, on_end=ended)
        self._free_since = math.inf

    # --- small parts

    def _answer_of(self, event_id: str) -> str:
        """The answer that waits for code about that event: of its turn, else of one that is to be judged; "": none."""
        if (turn := self._turns.get(event_id)) is not None and turn.takes_answer:
            return turn.spoken.handle.id
        return next((one.spoken.handle.id for one in self._turns.values() if one.is_waiting), "")

    def _additions_of(self, state: State) -> Additions:
        intents = [self._intents[name] for name in self._rules.states[state.name].intents]
        return additions_of(state, intents, self._choose)

    def _report(self, problem: str) -> None:
        self._context.report_error(SessionError(problem), SOURCE, is_recovered=True)


def _event_of(given: i.GraphInput) -> str:
    return given.event.id if isinstance(given, i.EventReceived | i.IntentChosen) else ""

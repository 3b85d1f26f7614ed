"""ConversationFlow: an application's own text source for the answers to the caller, in place of the model.

A flow's text takes the path of a model's text: spoken by sentences while it comes, cut by interruptions, kept in the
history as far as it was heard. Decisions:

* The session calls `on_turn_start`, `run` and `on_turn_end`, in that order, and never two turns of one flow at a time.
  `on_turn_end` follows each `on_turn_start` once, when the turn has its outcome and its record is in `session.turns`.
* `run` keeps the model's limits: `llm_first_token` until the first text, `llm_stall` between texts, so that a flow that
  hangs ends its turn `failed`; so does one that yields more than `MAX_TEXT` characters. `on_turn_start`, `on_turn_end`
  and `cleanup` may take `hook_timeout`. The limits of `run` and `on_turn_start` stand still during speech that they
  requested.
* While an `AgentTask` has the conversation, its model answers. The flow may await a task in `on_turn_start` and `run`.
* A flow answers the caller's words. `session.reply(...)` and the results of tools that ended late are still answered by
  the model, if the pipeline has one. No answer is begun before the turn is over.
* A flow may hand a turn to the model, whole or with other words: `async for text in self.model(transcript)`. Tools run
  as in any answer of the model. `run` does that if a flow does not replace it: a flow may consist of its hooks.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Awaitable, Callable
from functools import cached_property, partial

import anyio
from anyio.lowlevel import checkpoint

from vivavoce.agents.agent import AgentControl, Membership
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.session_type import Session
from vivavoce.agents.speech.flow_model import FlowModel, ModelAnswer
from vivavoce.agents.speech.text_channel import MAX_TEXT
from vivavoce.pipelines.core.checks import awaited_call, shown
from vivavoce.pipelines.core.errors import CapabilityError, ConfigurationError, SessionError
from vivavoce.pipelines.llm.base import TextDelta
from vivavoce.pipelines.pipeline import Pipeline

CLEANUP = "cleanup of the conversation flow"


class ConversationFlow:
    """Subclass it and give it to the session: `run` answers each turn of the caller."""

    @cached_property
    def _control(self) -> FlowControl:
        return FlowControl("flow", lambda: "the conversation flow")

    @property
    def session(self) -> Session:
        """The session that this flow answers in: its agent, history and userdata, and `say`, `update_agent`, `close`.

        Raises:
            SessionNotStartedError: The flow is not in a session.
            SessionClosedError: The flow is no longer in its session.
        """
        return FlowControl.of(self).session

    def model(self, transcript: str) -> AsyncIterator[str]:
        """Have the pipeline's model answer this turn; call it in `run`, which may yield or replace the text.

        The model gets the whole conversation, with `transcript` in place of the caller's words; the history keeps the
        words. Tools that it calls run meanwhile. The answer is closed with `run`, and when another answer begins.

        Raises:
            SessionError: No turn is being answered. While iterating: another task of the flow reads an answer, or
                another answer has begun since.
            ProviderError: While iterating, as the model raises it.
            CapabilityError: Likewise: the pipeline has no llm.
        """
        return FlowControl.of(self).answer(transcript)

    def run(self, transcript: str) -> AsyncIterator[str]:
        """Yield the answer to the caller's words, piece by piece; usually an async generator. The default is the
        model's answer.

        It is closed in mid-answer when the caller interrupts. `session.say()` may be awaited here: it is heard after
        the text that was yielded before it.
        """
        return self.model(transcript)

    async def on_turn_start(self, transcript: str) -> None:
        """Called when a turn of the caller is over, before it is answered."""

    async def on_turn_end(self) -> None:
        """Called when that answer was played, cut or dropped, or has failed; `session.turns[-1]` has its outcome."""

    async def cleanup(self) -> None:
        """Called once, when the session closes or has another flow."""


class FlowControl(Membership):
    """The session's side of a conversation flow: its session, and the model of its present turn."""

    def __init__(self, kind: str, name: Callable[[], str]) -> None:
        super().__init__(kind, name)
        self._model: FlowModel | None = None
        self._opened: list[ModelAnswer] = []

    def begin_turn(self, model: FlowModel) -> None:
        """Begin a turn that `model` may answer."""
        self._model = model

    def answer(self, transcript: str) -> AsyncIterator[str]:
        """Return the model's answer to the present turn.

        Raises:
            SessionError: No turn is being answered.
        """
        if self._model is None:
            raise SessionError("model() answers a turn of the caller: call it in run(), while that answers one")
        self._opened.append(answer := ModelAnswer(self._model.answer(transcript), self._begin))
        return answer

    async def _begin(self, answer: ModelAnswer) -> None:
        """Begin that answer, and end the one before, which the flow does not read any more.

        Raises:
            SessionError: The answer before is being read.
        """
        for other in [other for other in self._opened if other is not answer and (other.has_begun or other.is_read)]:
            if other.is_read:
                raise SessionError(
                    "model() answers one at a time, and the flow reads an answer in another task; read that to its end"
                )
            self._opened.remove(other)
            await other.end("another answer of model() has begun since")

    async def end_turn(self) -> None:
        """Close the model's answers, since the flow has no more text for its turn."""
        self._model = None
        while self._opened:
            await self._opened.pop().end("its turn is over")

    @staticmethod
    def of(flow: ConversationFlow) -> FlowControl:
        """Return the control of that flow, made on first use: a subclass need not call a constructor."""
        return flow._control


class _Held:
    """A flow that the session has or had: its unfinished turns, and whether it is cleaned up."""

    def __init__(self, flow: ConversationFlow) -> None:
        self.flow = flow
        self.turns = 0
        self.idle = anyio.Event()
        self.idle.set()
        self.cleaned: anyio.Event | None = None

    @property
    def is_clean(self) -> bool:
        return self.cleaned is not None and self.cleaned.is_set()

    def begin_cleanup(self) -> anyio.Event:
        """Return the event to set once the flow is cleaned up."""
        self.cleaned = cleaned = anyio.Event()
        return cleaned

    def begin(self) -> None:
        self.turns += 1
        self.idle = anyio.Event()

    def end(self) -> None:
        self.turns -= 1
        if not self.turns:
            self.idle.set()


class FlowRunner:
    """Runs the turns of the session's flow, and cleans up each flow that it has had, once.

    Args:
        flow: The first flow; None if the model answers.
        limit: Seconds for each of a flow's hooks.
    """

    def __init__(self, context: SessionContext, flow: ConversationFlow | None, *, limit: float) -> None:
        self._context = context
        self._hooks = context.hooks
        self._limit = limit
        self._is_open = False
        self._session: Session | None = None
        self._current: _Held | None = None
        self._all: list[_Held] = []
        self.change_to(flow)

    @property
    def flow(self) -> ConversationFlow | None:
        """The flow that answers the caller's next turn; None if the model answers."""
        return None if self._current is None else self._current.flow

    @property
    def answers(self) -> bool:
        """Whether a flow answers the caller's next turn: there is one, and no task has the conversation."""
        return self._current is not None and not AgentControl.of(self._context.live.agent).is_task

    def begin_session(self, session: Session) -> None:
        """Let the flows serve the session, which is starting.

        Raises:
            SessionError: The flow is in another session.
        """
        given, self._all, self._session = self._all, [], session
        for held in given:  # a flow that serves another session is left to it
            try:
                FlowControl.of(held.flow).attach(session)
            except SessionError:
                if held is self._current:
                    raise
            else:
                self._all.append(held)

    def open(self) -> None:
        """Let hooks run."""
        self._is_open = True
        for held in self._all:
            if held is not self._current:
                self._retire(held)

    def change_to(self, flow: ConversationFlow | None) -> None:
        """Let `flow` answer from the next turn on. The flow before is cleaned up when its turn is over."""
        old = self._current
        if (None if old is None else old.flow) is flow:
            return
        again = next((held for held in self._all if held.flow is flow and held.cleaned is None), None)
        self._current = again if flow is None or again is not None else _Held(flow)
        if self._current is not None and self._current is not again:
            self._all.append(self._current)
            if self._session is not None:
                FlowControl.of(self._current.flow).attach(self._session)
        if old is not None and self._is_open:
            self._retire(old)

    async def begin_turn(
        self, handle: SpeechHandle, transcript: str, model: FlowModel
    ) -> AsyncGenerator[TextDelta, None]:
        """Begin a turn that the speech of `handle` answers, and return the flow's text; the flow may ask `model` for
        it."""
        held = self._current
        assert held is not None
        with anyio.move_on_after(self._limit):
            await held.idle.wait()
        held.begin()
        handle.add_done_callback(lambda _: self._turn_ended(held))
        call = _named("on_turn_start", lambda: held.flow.on_turn_start(transcript))
        await self._hooks.run("turn hook", *call, self._limit, "without its speeches", answer_id=handle.id)
        return _text_of(held.flow, transcript, model)

    def _turn_ended(self, held: _Held) -> None:
        if not self._is_open or held.cleaned is not None:
            held.end()
        else:
            self._context.group.start_soon(self._end_turn, held, name="on_turn_end")

    async def _end_turn(self, held: _Held) -> None:
        try:
            await self._hooks.run("flow hook", *_named("on_turn_end", held.flow.on_turn_end), self._limit)
        finally:
            held.end()

    # --- the end of a flow

    def _retire(self, held: _Held) -> None:
        async def retire() -> None:
            while held.turns:  # a turn that waited for the one before it may have begun
                await held.idle.wait()
            if held.cleaned is None and held is not self._current:
                await self._hooks.run("flow hook", CLEANUP, partial(self._clean, held), self._limit)

        self._context.group.start_soon(retire, name=CLEANUP)

    async def _clean(self, held: _Held) -> None:
        cleaned = held.begin_cleanup()
        try:
            await awaited_call(CLEANUP, held.flow.cleanup)
        finally:
            cleaned.set()
            if self._session is not None and (self._current is held or self.flow is not held.flow):
                FlowControl.of(held.flow).detach(self._session)  # not if it was taken again meanwhile
            if self._current is not held:
                self._all.remove(held)

    @property
    def has_work(self) -> bool:
        """Whether any flow is not cleaned up."""
        return self._session is not None and any(not held.is_clean for held in self._all)

    def cleanups(self) -> list[Callable[[], Awaitable[None]]]:
        """Return a call for each flow that is not cleaned up. It waits for the end of the flow's turn and cleans up."""
        return [partial(self._cleanup, held) for held in self._all if not held.is_clean]

    async def _cleanup(self, held: _Held) -> None:
        await held.idle.wait()
        if held.cleaned is None:
            await self._clean(held)
        else:
            await held.cleaned.wait()


def check_flow(flow: ConversationFlow | None, pipeline: Pipeline) -> None:
    """Refuse an object that is not a flow, and a flow that the pipeline, or its fallback, could not speak.

    Raises:
        ConfigurationError: It is no flow, or its `run` is a generator that is not async.
        CapabilityError: The pipeline takes no text for its answers.
    """
    if flow is None:
        return
    if not isinstance(flow, ConversationFlow):
        raise ConfigurationError(f"conversation_flow must be a ConversationFlow, got {shown(flow)}; subclass it")
    if inspect.isgeneratorfunction(flow.run):
        raise _no_text(flow, "a generator that is not async")
    if not pipeline.capabilities.takes_flow:
        remedy = "the text of a conversation flow needs a CascadingPipeline with a tts"
        raise CapabilityError(pipeline.name, "takes_flow", remedy)
    if pipeline.fallback is not None:
        check_flow(flow, pipeline.fallback)


def _no_text(flow: ConversationFlow, given: str) -> ConfigurationError:
    name = type(flow).__name__
    return ConfigurationError(
        f"{name}.run must be an async generator (`async def run(self, transcript)` with `yield`), got {given}"
    )


def _named(hook: str, call: Callable[[], Awaitable[None]]) -> tuple[str, Callable[[], Awaitable[None]]]:
    """Return the name of a flow's hook, and a call of it that refuses a hook which is not async."""
    name = f"{hook} of the conversation flow"
    return name, partial(awaited_call, name, call)


async def _text_of(flow: ConversationFlow, transcript: str, model: FlowModel) -> AsyncGenerator[TextDelta, None]:
    control = FlowControl.of(flow)
    control.begin_turn(model)
    pieces: object = None
    length = 0
    try:
        pieces = flow.run(transcript)
        if inspect.isawaitable(pieces):  # a coroutine function that returns an iterator
            pieces = await pieces
        if not isinstance(pieces, AsyncIterable):
            raise _no_text(flow, f"a {type(pieces).__name__}")
        async for piece in pieces:
            if not isinstance(piece, str):
                raise ConfigurationError(f"a flow's run() must yield str, got {type(piece).__name__}; yield its text")
            length += max(1, len(piece))
            if length > MAX_TEXT:
                raise ConfigurationError(
                    f"run() of a flow yields at most {MAX_TEXT} characters a turn, got more; end it"
                )
            if piece:
                yield TextDelta(piece)
            await checkpoint()  # a flow that never waits must not hold the loop
    finally:
        try:
            if (aclose := getattr(pieces, "aclose", None)) is not None:
                await aclose()
        finally:
            await control.end_turn()

"""GraphCode: runs the application's code of a graph: bodies, conditions, classifiers."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterable, Awaitable, Callable, Iterator
from functools import partial
from typing import Any

from anyio.lowlevel import checkpoint

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.hooks import Clock, Run
from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.core.threads import ThreadPool
from vivavoce.agents.graphs.graph.state import Transition
from vivavoce.agents.graphs.machine.rules import OnState
from vivavoce.agents.graphs.runtime.turns import KEY, BodyVoice
from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.errors import ConfigurationError

THREADS = 4
"""Plain bodies that run at the same time; a body that hangs counts until it ends."""

Body = Callable[..., Any]


class BodyRun(Run):
    """One run of a body. While the body waits for speech or a task, its limit does not count."""

    def __init__(self, context: SessionContext, name: str, limit: float, voice: BodyVoice, answer_id: str) -> None:
        clock: Clock = "between its speeches"
        super().__init__(context.hooks, "turn hook", name, limit, clock, answer_id=answer_id, source=KEY)
        self._voice = voice

    def hold(self) -> None:
        """Stop the clock of the limit until `release()` was called as often."""
        self._voice.split()
        super().hold()

    def speaks(self, handle: SpeechHandle) -> None:
        """Note a speech that the body asked for. The speech of the body's own text ends with the body, so the limit
        counts meanwhile."""
        if self._voice.is_beginning:
            self.handles.append(handle)
        else:
            super().speaks(handle)


class GraphCode:
    """Runs code in tasks of the session, and calls back at its end.

    Args:
        limit: Seconds for one run between its speeches; for a body also between the pieces of its text.
    """

    def __init__(self, context: SessionContext, *, limit: float) -> None:
        self._context = context
        self._limit = limit
        self._threads = ThreadPool(THREADS, name="body")
        self._body: Run | None = None
        self._questions: list[Run] = []
        """The questions that are not over: the present one, and those about turns that were withdrawn meanwhile."""
        self._of_state: Run | None = None
        """The last question about a transition without an event."""

    # --- bodies

    def run_body(
        self, name: str, body: Body, voice: BodyVoice, *, answer_id: str, on_end: Callable[[bool], None]
    ) -> None:
        """Run a body; `on_end` is called with whether it has failed.

        Args:
            answer_id: The answer that it speaks for, or that waits for it; empty outside of turns.
        """
        self._body = run = BodyRun(self._context, name, self._limit, voice, answer_id)
        self._context.group.start_soon(self._make, run, partial(self._call, body, voice), name=name)
        self._context.group.start_soon(self._end, run, partial(self._ended, run, voice, on_end), name=f"end of {name}")

    def wait_for(self, answer_id: str) -> None:
        """Have that answer wait for the code that runs: speech of the code then comes before it."""
        for run in self._running:
            run.answers(answer_id)

    def _ended(self, run: Run, voice: BodyVoice, on_end: Callable[[bool], None]) -> None:
        voice.close()  # a body that was left behind has not done so
        on_end(run.error is not None)

    async def _make(self, run: Run, call: Callable[[], Awaitable[None]]) -> None:
        try:
            await run.make(call)
        except Exception as error:  # noqa: BLE001 - the user-callback boundary
            run.fail(error)

    async def _end(self, run: Run, then: Callable[[], None]) -> None:
        await run.finish()
        then()

    async def _call(self, body: Body, voice: BodyVoice) -> None:
        session = self._context.session
        try:
            if inspect.iscoroutinefunction(body) or inspect.isasyncgenfunction(body):
                result = body(session)
            else:
                with self._context.clock.hold():
                    result = await self._threads.run(lambda: body(session))
            if inspect.isawaitable(result):
                result = await result
            if isinstance(result, AsyncIterable):
                await self._speak(result, voice)
            elif isinstance(result, str | Iterator):  # no text of the body would be heard
                remedy = "yield its text in an async def, or speak by session.say()"
                raise ConfigurationError(f"a body must {remedy}, got {shown(result)} returned")
        finally:
            voice.close()

    async def _speak(self, pieces: AsyncIterable[Any], voice: BodyVoice) -> None:
        source = aiter(pieces)
        try:
            async for piece in source:
                if not isinstance(piece, str):
                    raise ConfigurationError(f"a body must yield str, got {shown(piece)}; yield the text to speak")
                if piece and not voice.push(piece):
                    return
                if self._body is not None:
                    self._body.set_limit(self._limit)
                await checkpoint()  # a body that never waits must not hold the loop
        finally:
            if (aclose := getattr(source, "aclose", None)) is not None:
                await aclose()

    # --- questions

    def judge(
        self,
        name: str,
        transition: Transition,
        on_end: Callable[[bool], None],
        *,
        answer_id: str,
    ) -> None:
        """Judge conditions in order; `on_end` is called with whether all of them hold. A condition that raises does not
        hold.

        Args:
            answer_id: The answer that waits for it; empty outside of turns.
        """
        conditions = transition.conditions
        results: list[bool] = []

        async def call() -> None:
            for condition in conditions:
                result = condition(self._context.session)
                if inspect.isawaitable(result):
                    result = await result
                results.append(bool(result))
                if not result:
                    return

        def ended(run: Run) -> None:
            on_end(run.error is None and len(results) == len(conditions) and all(results))

        run = self._ask(name, call, ended, answer_id)
        if isinstance(transition.trigger, OnState):
            self._of_state = run

    @property
    def is_judging_here(self) -> bool:
        """Whether the calling code is the condition of a transition without an event.

        Private data changed by such a condition do not lead to another judgement, which would never end.
        """
        run = self._of_state
        return run is not None and not run.is_over and run in self._context.hooks.runs_here()

    def ask(
        self, name: str, question: Callable[[], Awaitable[Any]], on_end: Callable[[Any], None], *, answer_id: str
    ) -> None:
        """Ask a classifier; `on_end` is called with its answer, or with None if it raises; `answer_id` as above."""
        answers: list[Any] = []

        async def call() -> None:
            answers.append(await question())

        self._ask(name, call, lambda run: on_end(answers[0] if answers and run.error is None else None), answer_id)

    def _ask(self, name: str, call: Callable[[], Awaitable[None]], then: Callable[[Run], None], answer_id: str) -> Run:
        clock: Clock = "between its speeches"
        start = self._context.hooks.start
        run = start("turn hook", name, call, self._limit, clock, source=KEY, answer_id=answer_id)
        self._questions = [*(one for one in self._questions if not one.is_over), run]
        self._context.group.start_soon(self._end, run, lambda: then(run), name=f"end of {name}")
        return run

    # --- the end

    def cut(self) -> None:
        for run in self._running:
            run.cut()

    def is_waiting_for(self, speech_id: str) -> bool:
        """Return whether the code that runs has asked for that speech, and so may wait for its end."""
        return any(speech_id == handle.id for run in self._running for handle in run.handles)

    @property
    def is_running(self) -> bool:
        return bool(self._running)

    @property
    def _running(self) -> list[Run]:
        return [run for run in (self._body, *self._questions) if run is not None and not run.is_over]

    async def ended(self) -> None:
        """Wait for the end of the code that was cut; the caller sets the limit."""
        for run in self._running:
            await run.wait()

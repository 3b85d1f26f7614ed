"""SessionHarness: one session from start to close in a test, with a scripted caller and everything recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from types import TracebackType
from typing import Any, ClassVar, Self, TypedDict, TypeVar, Unpack

import anyio
import anyio.lowlevel

from vivavoce.agents.agent import Agent
from vivavoce.agents.events import Closed, SessionEvent
from vivavoce.agents.records import CloseReport
from vivavoce.agents.session.options import SessionOptions
from vivavoce.agents.session.session import AgentSession
from vivavoce.agents.speech.flow import ConversationFlow
from vivavoce.agents.testing.caller import Caller
from vivavoce.agents.testing.exchange import exchange
from vivavoce.agents.testing.expectations import Expect
from vivavoce.agents.testing.faults import Faults
from vivavoce.agents.testing.laws import Observed, breaches
from vivavoce.agents.testing.log import ConversationLog
from vivavoce.agents.testing.pipelines import Listening, cascade, realtime, recogniser_of
from vivavoce.agents.testing.ran import RanSession
from vivavoce.agents.testing.recording import Recording
from vivavoce.agents.testing.run import Run
from vivavoce.agents.testing.virtual_run import SharedTime, begun, current_shared_time, run_alone
from vivavoce.agents.transports.local import LocalTransport
from vivavoce.agents.turn.options import WakeUp
from vivavoce.pipelines.core.clock import Clock, LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.llm.base import LLM
from vivavoce.pipelines.pipeline import Pipeline
from vivavoce.pipelines.testing import (
    ScriptedLLM,
    ScriptedRealtimeModel,
    ScriptedSTT,
    ScriptedTTS,
    ScriptError,
    VirtualClock,
    VirtualTimeLoop,
)
from vivavoce.pipelines.tts.base import TTS

E = TypeVar("E", bound=SessionEvent)

Scenario = Callable[["SessionHarness"], Awaitable[None]]
"""The test's code that runs during the session: an async function of the harness."""


class SessionArguments(TypedDict, total=False):
    """Arguments that a harness passes on to `AgentSession`."""

    conversation_flow: ConversationFlow | None
    wake_up: float | WakeUp | None
    userdata: Any
    id: str | None


class More(Listening, SessionArguments, total=False):
    """Further arguments of a harness."""


class SessionHarness(RanSession):
    """Runs one session and records it.

    A plain test function calls `run()`, which brings a loop of virtual time of its own, so it needs no asyncio plugin::

        def test_the_host_books_a_table():
            harness = SessionHarness(Host(), ScriptedLLM("For how many?"))
            harness.caller.says("a table please", 0.5, 2.0)
            harness.run(until=6.0)
            harness.expect_history(("user", "a table please"), ("assistant", "For how many?"))

    A test that owns its loop writes `async with SessionHarness(...) as harness:`; time is then the time of that loop,
    virtual under `run_virtual`, real otherwise. One harness runs one session, once; `Harnesses` runs several.

    Args:
        agent: The agent under test.
        llm, stt, tts: Parts of a cascading pipeline, with a `ScriptedVAD`; the harness makes missing ones, without a
            script. Model and voice may be any: a fallback, or the agent's real model in a test of its behaviour. The
            recogniser is a scripted one, which gets the caller's words.
        model: A speech-to-speech model instead, with a `ScriptedVAD`; by default its server decides turns, so the test
            answers with `model.start_reply()`.
        pipeline: A whole pipeline of the test; the caller's words then go to `stt` or `model`. `SilentPipeline()` for a
            session without one.
        options: Options of the session. The harness sets the clock, and `preemptive` from its attribute of that name,
            and turn records hold their texts: options that contradict this are refused.
        more: `vad=ScriptedVAD(VADOptions(min_silence=0.5))`, `denoise=…`, `turn_detector=ScriptedTurnDetector(…)`
            (not with a whole `pipeline`), `conversation_flow`, `wake_up`, `userdata`, `id`.
    Raises:
        ConfigurationError: Parts or options are given that would have no effect.
    """

    def __init__(
        self,
        agent: Agent,
        llm: LLM | None = None,
        *,
        stt: ScriptedSTT | None = None,
        tts: TTS | None = None,
        model: ScriptedRealtimeModel | None = None,
        pipeline: Pipeline | None = None,
        options: SessionOptions | None = None,
        **more: Unpack[More],
    ) -> None:
        recording = Recording()
        self._log = ConversationLog(recording, lambda: self.played)
        super().__init__(recording, Expect(self._log))
        self.agent = agent
        self.stt = stt or ScriptedSTT()
        self.llm = llm if isinstance(llm, ScriptedLLM) else ScriptedLLM()
        """The scripted model; unused if the test gave another."""
        self.tts = tts if isinstance(tts, ScriptedTTS) else ScriptedTTS()
        """The scripted voice; unused if the test gave another."""
        self.model = model
        self.caller = Caller(recogniser_of(self.stt, model, pipeline))
        listening: Listening = {}
        if "vad" in more:
            listening["vad"] = more.pop("vad")
        if "denoise" in more:
            listening["denoise"] = more.pop("denoise")
        if "turn_detector" in more:
            listening["turn_detector"] = more.pop("turn_detector")
        if pipeline is not None and listening:
            raise ConfigurationError(f"{' and '.join(listening)} had no effect beside a pipeline; put it into that")
        self.pipeline = pipeline or self._make_pipeline(llm or self.llm, tts or self.tts, listening)
        """The session's pipeline; a test with a session of its own may use it too."""
        self.preemptive = False
        """Whether answers are begun before a turn is over; may be set before the session starts. By default they are
        not: the model is asked when the turn is over, so the n-th answer of its script belongs to the n-th turn.
        """
        self._has_options = options is not None
        self._options = options or SessionOptions()
        if not isinstance(self._options.clock, LoopClock):
            raise ConfigurationError(f"the clock is the harness's, got {self._options.clock!r}; leave it out")
        self._arguments: SessionArguments = more  # the remaining arguments
        self._faults = Faults(self.recording, [one.key for one in self._options.extensions])
        self.resume_from: Mapping[str, Any] | None = None
        """A snapshot with which the session continues; set it before the run."""
        self.close_report: CloseReport | None = None
        """How the session ended."""
        self._shared: SharedTime | None = None

    pipeline_of: ClassVar[Callable[..., Pipeline]] = staticmethod(cascade)
    """Makes a pipeline from a test's parts; a suite that runs on another pipeline too replaces it."""

    def _make_pipeline(self, llm: LLM, tts: TTS, listening: Listening) -> Pipeline:
        if self.model is not None:
            return realtime(self.model, **listening)
        return type(self).pipeline_of(llm, self.stt, tts, **listening)

    def _checked_options(self, clock: Clock) -> SessionOptions:
        """Return the session's options; options that the harness would silently override are refused."""
        options = self._options
        if not self.preemptive and options.preemptive_tts:
            raise ConfigurationError("preemptive_tts has no effect while harness.preemptive is False; set it")
        if self.preemptive and not options.preemptive:
            raise ConfigurationError("got harness.preemptive=True and SessionOptions(preemptive=False); leave one out")
        if self._has_options and options.preemptive and not self.preemptive:
            self.recording.remarks.append("no answer is begun before its turn is over, as harness.preemptive is False")
        return replace(options, clock=clock, preemptive=self.preemptive, capture_content=True)

    # --- running

    def run(
        self,
        scenario: Scenario | None = None,
        *,
        until: float = 0.0,
        limit: float = 3600.0,
        waits_for_start: bool = True,
    ) -> Self:
        """Start the session on virtual time, run `scenario`, continue to `until`, close, and check that nothing is
        left.

        Args:
            limit: Virtual seconds after which the run counts as endless.
            waits_for_start: Whether the scenario begins after `session.start()`, `on_enter` included; if not, both
                begin together, and `await harness.started()` waits.
        Returns:
            The harness, so that `expect_…` can follow.
        Raises:
            ScriptError: The scripted model received more requests than its script holds.
            AssertionError: A hook, tool or handler raised, or an error closed the session, and no `expects_error()`
                covers it; or something is left.
            RuntimeError: A loop runs already, or the harness has run.
        """

        async def act() -> None:
            if scenario is not None:
                await begun(scenario, self)
            await self.until(until)

        async def main() -> None:
            await run_session()
            self._run.count_timers()

        async def run_session() -> None:
            if waits_for_start:
                async with self:
                    await act()
                return
            self._open()
            try:
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._run.start, self.resume_from)
                    await act()
            except BaseException as error:
                await self._close(error)
                raise
            await self._close(None)

        run_alone(main, limit=limit)
        return self

    def expects_error(self, source: str | None = None, *, contains: str | None = None) -> Self:
        """Expect at least one such `error` event in the run, and accept all such errors. Call it before they come.

        Without it an error of the application's own code (`hook`, `handler`, `tool`, `guard`, `graph`, the key of an
        extension …) fails the test, and so does an error that closes the session (`session`). A tool's `ToolError` is
        an answer and no error.

        Args:
            source: Source of the event; None: any.
            contains: Words in the error's text, in any case.
        """
        self._faults.expect(source, contains)
        return self

    async def __aenter__(self) -> Self:
        self._open()
        try:
            await self._run.start(self.resume_from)
        except BaseException:
            self._run.stop_watching()
            self.caller.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close(error)

    def _open(self) -> None:
        if self._going is not None:
            raise RuntimeError("this harness has run its session; make another one")
        loop = asyncio.get_running_loop()
        clock: Clock = VirtualClock() if isinstance(loop, VirtualTimeLoop) else LoopClock()
        options = self._checked_options(clock)
        self._shared = current_shared_time()
        self._going = Run(
            session=AgentSession(self.agent, self.pipeline, options=options, **self._arguments),
            transport=LocalTransport(clock, participant=self.caller.identity),
            clock=clock,
            tasks_before=asyncio.all_tasks(loop) if self._shared is None else self._shared.tasks_before,
        )
        self.recording.listen(self._going.session)
        self._going.watch(loop)
        capabilities = self.pipeline.capabilities
        is_silent = not (capabilities.can_listen or capabilities.speaks)
        self.caller.begin(self._going.transport, clock, is_silent=is_silent)

    async def _close(self, error: BaseException | None) -> None:
        """Close the session, and raise for any fault; if the test fails already, add the fault to its error as
        a note.
        """
        run = self._run
        try:
            with anyio.CancelScope(shield=True):  # bounded by the session's close_timeout
                self.recording.end_by_test()
                self.close_report = await run.session.close()
                self.caller.stop()
                run.end()  # the clock needs the loop
                await anyio.lowlevel.checkpoint()  # done callbacks of the last tasks
        finally:
            run.stop_watching()
        if error is None and self._shared is not None:
            self._shared.ended(run, self._check_the_run)
        elif error is None:
            self._check_the_run()
        elif told := "\n".join(filter(None, (self._faults.check(), self._log.told_end()))):
            error.add_note(told)

    def _check_the_run(self) -> None:
        if self.caller.error is not None:
            raise self.caller.error
        unscripted = self.llm.script_error or (self.model.script_error if self.model is not None else None)
        if unscripted is not None:
            raise ScriptError(self._with_conversation(str(unscripted))) from unscripted
        if wrong := self._faults.check():
            raise AssertionError(self._with_conversation(wrong))
        if left := self._run.tasks_left():
            raise AssertionError("\n".join([f"{len(left)} task(s) outlived the session:", *left]))

    # --- waiting

    async def started(self) -> float:
        """Wait until `session.start()` is done, `on_enter` included; return its duration in seconds."""
        return await self._run.started()

    async def until(self, seconds: float) -> None:
        """Let time pass until `seconds` from the session's start; at once if that time has passed."""
        await anyio.sleep(max(0.0, seconds - self.now))

    async def next(self, kind: type[E], *, limit: float = 60.0) -> E:
        """Wait for the next event of a kind.

        Raises:
            AssertionError: None came within `limit` seconds.
        """
        came = anyio.Event()
        found: list[E] = []

        def note(event: E) -> None:
            found.append(event)
            came.set()

        def end(_: Closed) -> None:
            came.set()

        if self.recording.of(Closed):
            came.set()
        self.session.once(kind, note)
        self.session.once(Closed, end)
        with anyio.move_on_after(limit):
            await came.wait()
        self.session.off(kind, note)
        self.session.off(Closed, end)
        if not found:
            which = f"no {kind.name!r} came {'before the session closed' if came.is_set() else f'within {limit:g} s'}"
            raise AssertionError(self._with_conversation(f"{which}; since the start: {self._event_names()}"))
        return found[0]

    async def user(self, text: str, *, spoken: bool = False, limit: float = 60.0) -> Expect:
        """Have the user type or say `text`, and wait until all its consequences are complete: answers, tools, handoffs.

        Everything before, and the user's message itself, is skipped: the next expectation is about the agent's answer.

        Raises:
            AssertionError: It was not complete within `limit` seconds.
        """
        self._log.begin_exchange()

        async def say() -> None:
            if spoken:
                await self.until(self.caller.says(text))
            else:
                self.caller.typed.append(text)
                self.room.send_text(text)

        await exchange(self.session, self.recording, say, limit=limit)
        self.expect.skip_user()
        return self.expect

    # --- laws

    def check_laws(self, *, without: Sequence[str] = ()) -> Self:
        """Check the rules that hold for every session, after the run: `vivavoce.agents.testing.laws` has the laws.

        Each speech ends once and each turn has one outcome; the agent speaks only while its frames play; no text of the
        agent is beyond the played audio; each word of the user is in a message, once; calls have their outputs; agents
        follow each other in one chain; wake-ups and states go in order; nothing follows the close.

        Args:
            without: Names of laws that the application breaks on purpose: `user_words` if it clears the user's turns,
                `speaking` if it plays music.
        Raises:
            AssertionError: A law is broken.
            RuntimeError: The session is not over.
        """
        if self.close_report is None:
            raise RuntimeError("laws are checked when the run is over: harness.run(…).check_laws()")
        if broken := breaches(self._observed(), without=without):
            lines = "\n".join(f"  {line}" for line in broken)
            raise AssertionError(self._with_conversation(f"{len(broken)} breach(es) of the laws:\n{lines}"))
        return self

    def _observed(self) -> Observed:
        voice = self.model if self.model is not None and not self.tts.texts else self.tts
        is_heard = bool(self.tts.texts) or self.model is not None
        return Observed(
            recording=self.recording,
            played=self.played,
            requests=[request.context.items for request in self.llm.requests],
            spoken=self.tts.texts
            if voice is self.tts
            else [text for role, text in self.messages if role == "assistant"],
            seconds_per_word=voice.pace if is_heard else None,
            has_word_times=voice is self.tts and self.tts.capabilities.emits_words,
            typed=self.caller.typed,
            timers_left=self._run.timers_left,
        )

    def _event_names(self) -> list[str]:
        return [event.name for event in self.recording.events]

"""Hooks: runs the application's code. The one place that limits it, reports its errors and says who waits for whom.

| application code | runs in | limit | its error | if it awaits the close | the close |
|---|---|---|---|---|---|
| sync handler of events | the loop | none | event `handler` | (it cannot) | – |
| async handler | queue | `callback_timeout` an event | event `handler` | goes on | waits: `handlers` |
| `on_wake_up` | task | `callback_timeout` quiet | event `on_wake_up` | goes on | cuts: `wake-up` |
| `on_empty_reply` | task | `hook_timeout` quiet | event `hook` | goes on | waits: `handlers` |
| `on_stream` | task | `hook_timeout` between | event `on_stream` | goes on | waits: `handlers` |
| handler of a dialogue, a peer | task | `hook_timeout` between | event of that name | goes on | waits: `handlers` |
| validators of a message | the loop | none | rejects the message | (they cannot) | – |
| `on_enter` in the start | task | none (1) | fails the start | is cut | cuts: `on_enter` |
| `on_enter` in a handoff | task | `hook_timeout` between | event `hook` | is cut | cuts: `on_enter` |
| `on_exit` in a handoff | task | `hook_timeout` between | event `hook` | is cut | waits: `on_exit` |
| `summary` of a task | handoff | none | event `hook` | (it cannot) | – |
| `on_exit`, `cleanup` in the close | step | the step's | in the report | SessionError | is the step |
| `on_user_turn_completed` | speech | `hook_timeout` without | event `hook` | waits, is cut | cuts: `speech` |
| `on_turn_start` of a flow | speech | `hook_timeout` without | event `hook` | waits, is cut | cuts: `speech` |
| `run` of a flow | speech | `llm_first_token`, `llm_stall` | fails the speech | waits, is cut | cuts: `speech` |
| `llm_stage`, `tts_stage` | speech | those of model and voice | fails the speech | waits, is cut | cuts: `speech` |
| `stt_stage` | task | `stt_stage` a transcript | event `stt_stage` | is cut | cuts it at its end |
| observer of a stage | task | `callback_timeout` an item | event `observer` | goes on | waits: `handlers` |
| `judge` of a content guard | task | `ContentGuard.limit` | event `guard` | is cut | cuts: `speech` |
| `on_turn_end` of a flow | task | `hook_timeout` | event `hook` | is cut | waits: its `cleanup` |
| `cleanup` of a replaced flow | task | `hook_timeout` | event `hook` | is cut | waits: its `cleanup` |
| `cleanup` of a flow in the close | step | the step's | in the report | SessionError | is the step |
| validators of a form's model | task | 10 s | event `form` | goes on | waits: `handlers` |
| body of a graph's state | task, thread | `hook_timeout` between | event `graph` | is cut | cuts: `graph` |
| condition, classifier of a graph | task | `hook_timeout` between | event `graph` | is cut | cuts: `graph` |
| async tool | task | its `timeout` | the call's output | waits, is cut | cuts: `tools` |
| sync tool | thread | its `timeout` | the call's output | (it cannot) | leaves it behind |
| `on_turn` of an extension | speech (2) | `turn_limit` without | event, its key | waits, is cut | cuts it at once |
| `on_tool_result` of an extension | tool | `turn_limit` without | event, its key | waits, is cut | cuts: `tools` |
| `entered`, `undo`, `turn_over`, `end` of one | the loop | none | event, its key | (it cannot) | – |
| `open`, `begin` of an extension | task | `start_step` | fails the start | waits, is cut | cuts: its key |
| `aclose` of an extension | step | the step's | in the report | SessionError | is the step |
| `degrade` of a budget | task | 10 s quiet | event `budget` | goes on | waits: `handlers` |
| store of the history | task | 10 s a write | event, once | waits until its limit | waits: `history` |
| consent to a recording | task | 60 s | event `recording` | waits, is cut | cuts it at its end |
| connecting, taking over, joining | task | its own | fails the start | waits, is cut | cuts: its own name |

*Runs in*: a task of the session; a queue of events, one for each handler, in a task; the task of the speech; a thread;
the step of the close. *Limit*: `quiet` counts while the session speaks nothing, anew after each speech; `between`
counts while nothing is spoken that the code asked for, anew after each such speech; `without` does the same and goes on
where it stood. (1) `hook_timeout` between its speeches from when a handoff waits for it.
(2) Of a turn that is ahead, or that a model's server has begun to answer, in a task; its limit counts always.

*Awaits the close*: by `close()`, `leave()` or `wait_closed()`. Code that the close waits for must not wait for the
close: in a step of the close it raises a SessionError; a hook is cut there; the close does not wait for a handler that
does so, which goes on after the close. The limit of such a handler stands still, since the close has its own.
A step is known by its task: a task that `on_exit` starts and then waits for may await the close, and costs the step its
whole limit. *The close* names the step that waits for the code or cuts it, and code that clings and is left behind.

An exit, any other `BaseException` and a cancellation of the code's own task are errors too (`application_code`).

*Its own speech* may be awaited in all of them, except in a tool of that very speech, and in a stage: the answer, or the
caller's words, wait for that (`stage_run`). A stage may await a speech that has the floor. `update_agent()` cannot be
awaited in `on_enter`, `on_exit`, a stage and code that a speech waits for (`on_user_turn_completed`, `on_turn_start`,
`run`), as it begins after them; `update_pipeline()` and `update_components()` cannot be awaited in a stage and in code
that a speech waits for. All raise a SessionError, at once.
`interrupt()` may be awaited everywhere but in a thread; in a hook of a turn it stops the speech of the hook only.
A *task* (`AgentTask`) may be awaited in all of them but sync ones, stages, `on_exit` and `cleanup`: the limit of the
code stands still meanwhile, and a speech or a handoff that waits for the code leaves the floor. The start goes on
without an `on_enter` that awaits a task; its error is an event `hook` then, and the close cuts it.
"""

from __future__ import annotations

import logging
import math
from asyncio import Event, current_task, get_running_loop  # anyio's: no time in plain callbacks; costly, as its tasks
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Literal

import anyio
from anyio.abc import TaskGroup

from vivavoce.agents.core.application_code import application_code
from vivavoce.agents.core.call_site import CallSite, call_site, call_sites
from vivavoce.agents.core.speech_handle import SpeechHandle
from vivavoce.agents.telemetry.observer import NO_WATCH, Watch
from vivavoce.pipelines.core.errors import SessionError, describe, located
from vivavoce.pipelines.core.owned_call import UNWIND_LIMIT

logger = logging.getLogger(__name__)

Kind = Literal[
    "handler",
    "event",
    "wake-up",
    "callback",
    "agent hook",
    "turn hook",
    "tool result",
    "flow hook",
    "guard",
    "consent",
    "start",
    "close step",
]
Clock = Literal["always", "while quiet", "between its speeches", "without its speeches"]
"""When a limit counts: at all times; while the session speaks nothing, anew after each speech; while nothing is spoken
that the code asked for, anew after each such speech; the same, but going on where it stood."""

GOES_ON_AFTER_CLOSE = frozenset[Kind](("handler", "event", "wake-up", "callback"))
"""Code that may await the close. The close waits for the other code of these kinds, and cuts it then."""
CUT_BY_CLOSE_AWAITED = frozenset[Kind](("agent hook", "flow hook", "guard"))
"""Code that is cut where it awaits the close."""
_TIMES_OUT = frozenset[Kind](("event", "turn hook", "tool result", "flow hook", "guard"))
"""Code whose limit is a TimeoutError for `error` events; of the other kinds it is a SessionError."""

Call = Callable[[], Awaitable[object]]


class Run(CallSite):
    """One run of application code.

    Args:
        name: For logs and errors, such as `"on_enter of agent 'desk'"`.
        limit: Seconds, which count as `clock` says.
        answer_id: The speech that answers the turn of a hook of a turn.
        source: Of the `error` event for its error; None if its owner reports it.
        is_shielded: Whether only its limit and `cut()` cancel it, not the end of the task group around it.
    """

    def __init__(
        self,
        hooks: Hooks,
        kind: Kind,
        name: str,
        limit: float = math.inf,
        clock: Clock = "always",
        *,
        answer_id: str = "",
        source: str | None = None,
        is_shielded: bool = False,
    ) -> None:
        super().__init__()
        self.hooks = hooks
        self.kind = kind
        self.name = name
        self.answer_id = answer_id
        self.source = source
        self.handles: list[SpeechHandle] = []
        """The speeches that it asked for."""
        self.error: BaseException | None = None
        """The error that it ended with; a limit is one too."""
        self.late: Exception | None = None
        """The error of its limit, once that has cut it."""
        self.is_left_behind = False
        """Whether nothing waits for it any more, so that its error is only logged."""
        self.is_awaiting_close = False
        self.task_id = 0
        self._limit = limit
        self._clock = clock
        self._left = limit
        self._holds = 0
        self.is_cut = False
        """Whether `cut()` has cancelled it."""
        self._scope = anyio.CancelScope(shield=is_shielded)
        self._is_over = False
        self.is_let_go = False
        """Whether the start does not wait for its end any more."""
        self._changed = Event()
        """Set, and replaced, when it ends or is let go, and when its limit changes."""

    @property
    def is_over(self) -> bool:
        return self._is_over

    @property
    def failure(self) -> Exception | None:
        """Its error, as an application gets to know it."""
        error = self.error
        return error if error is None or isinstance(error, Exception) else SessionError(describe(error))

    # --- the limit

    def set_limit(self, seconds: float) -> None:
        """Give it `seconds` from now on."""
        self._limit = self._left = seconds
        if not self._holds:
            self._set_deadline(get_running_loop().time() + seconds)

    def hold(self) -> None:
        """Stop the clock of its limit, until `release()` was called as often."""
        self._holds += 1
        if self._holds == 1:
            self._left = self._scope.deadline - get_running_loop().time()
            self._set_deadline(math.inf)

    def release(self) -> None:
        """Let the clock of its limit go on."""
        self._holds -= 1
        if not self._holds:
            seconds = self._left if self._clock == "without its speeches" else self._limit
            self._set_deadline(get_running_loop().time() + seconds)

    def speaks(self, handle: SpeechHandle) -> None:
        """Note that it has asked for that speech. Call it on the session's event loop."""
        self.handles.append(handle)
        if self._clock in ("between its speeches", "without its speeches"):
            self.hold()
            handle.add_done_callback(lambda _: self.release())

    def _set_deadline(self, deadline: float) -> None:
        if not self._scope.cancel_called:
            self._scope.deadline = deadline
            self._wake()

    # --- the run

    async def make(self, call: Call, watch: Watch = NO_WATCH) -> None:
        """Make the call in the calling task.

        Raises:
            BaseException: The error that the call raised.
            TimeoutError, SessionError: It took longer than its limit.
        """
        token = call_site.set(self)
        try:
            with watch:
                self._begin()
                with self._scope:
                    async with application_code(self.name):
                        await call()
                if self._scope.cancelled_caught:
                    if not self.is_cut:
                        raise self._note_late()
                    watch.cancelled()
        finally:
            self._end()
            call_site.reset(token)

    def _begin(self) -> None:
        self.task_id = id(current_task())
        if self._clock == "while quiet" and self.hooks.begins_quiet(self):
            self._holds += 1
        self._set_deadline(math.inf if self._holds else get_running_loop().time() + self._limit)

    def _end(self) -> None:
        self._is_over = True
        self.hooks.ended(self)
        self._wake()

    def _wake(self) -> None:
        """Have all tasks that wait for it look again."""
        changed, self._changed = self._changed, Event()
        changed.set()

    def _note_late(self) -> Exception:
        """Note that its limit has cut it; return the error for that."""
        if self.late is None:
            apart = "" if self._clock == "always" else ", speech apart"
            problem = f"{self.name} did not end within {self._limit:g} s{apart}"
            self.late = TimeoutError(problem) if self.kind in _TIMES_OUT else SessionError(problem)
        return self.late

    def cut(self) -> None:
        """Cancel it. No error is reported for that."""
        if not self._scope.cancel_called:
            self._set_deadline(get_running_loop().time())
            self.is_cut = True
            self._scope.cancel()

    def answers(self, speech_id: str) -> None:
        """Set the answer that waits for this code; speech of the code is spoken before it. "": no answer waits."""
        self.answer_id = speech_id

    def fail(self, error: BaseException) -> None:
        """Keep and report its error. Once it was left behind, an error is only logged."""
        if self.is_left_behind:
            self.hooks.failed(self.name, error, "")
        else:
            self.error = error if self.source is None else self.hooks.failed(self.name, error, self.source)

    def awaits_close(self) -> None:
        """Note that it awaits the close: the close does not wait for it, and its limit stands still."""
        self.hold()
        self.is_awaiting_close = True

    def close_awaited(self) -> None:
        """Note that it awaits the close no longer."""
        self.is_awaiting_close = False
        self.release()

    def leave_behind(self) -> None:
        """Have its error logged only, since nothing waits for it any more."""
        self.is_left_behind = True

    def let_go(self, source: str) -> None:
        """Let the start go on without its end: it waits for a task. Its error is reported as that of `source`."""
        self.is_let_go, self.source = True, source
        self._wake()

    async def wait(self) -> None:
        """Wait for its end, however long."""
        while not self.is_over:
            await self._changed.wait()

    async def wait_or_let_go(self) -> None:
        """Wait until it has ended or was let go."""
        while not (self.is_over or self.is_let_go):
            await self._changed.wait()

    async def finish(self, unwind: float = UNWIND_LIMIT) -> None:
        """Wait for its end, at most until `unwind` seconds after its limit or `cut()`.

        Code that ignores its cancellation is left behind then, and `error` is that of its limit.
        """
        while not self.is_over:
            with anyio.CancelScope(deadline=self._scope.deadline + unwind) as waiting:
                await self._changed.wait()
            if waiting.cancelled_caught:
                logger.error("%s ignores its cancellation and is left behind", self.name)
                if not self.is_cut:
                    self.fail(self._note_late())
                self.leave_behind()
                return


class Hooks:
    """Runs the application code of one session.

    Args:
        report_error: Called with an error and its source; makes it an `error` event.
    """

    def __init__(self, report_error: Callable[[Exception, str], None]) -> None:
        self._report_error = report_error
        self._group: TaskGroup | None = None
        self._waited: set[Run] = set()
        """The runs that the close waits for at its step `handlers`."""
        self._quiet: set[Run] = set()
        """Runs whose limit counts while the session speaks nothing."""
        self._is_busy = False
        self._idle = Event()

    def open(self, group: TaskGroup) -> None:
        """Let code run in tasks of `group`."""
        self._group = group

    @property
    def is_open(self) -> bool:
        """Whether code can run in tasks."""
        return self._group is not None

    async def run(
        self,
        kind: Kind,
        name: str,
        call: Call,
        limit: float = math.inf,
        clock: Clock = "always",
        *,
        source: str = "hook",
        watch: Watch = NO_WATCH,
        answer_id: str = "",
        lets_out: tuple[type[Exception], ...] = (),
    ) -> Run:
        """Make a call in the calling task, and report its error; `lets_out` are raised.

        Args:
            source: Of the `error` event; empty for none.
        """
        run = Run(self, kind, name, limit, clock, answer_id=answer_id, source=source)
        try:
            await run.make(call, watch)
        except lets_out:
            raise
        except Exception as error:  # noqa: BLE001 - the user-callback boundary
            run.fail(error)
        return run

    def start(
        self,
        kind: Kind,
        name: str,
        call: Call,
        limit: float = math.inf,
        clock: Clock = "always",
        *,
        source: str | None = "hook",
        watch: Watch = NO_WATCH,
        is_shielded: bool = False,
        answer_id: str = "",
    ) -> Run:
        """Make a call in a task of the session, and report its error.

        Args:
            source: Of the `error` event; None to leave the error to the caller, who reads `Run.error`.
        """
        assert self._group is not None, "open() comes first"
        run = Run(self, kind, name, limit, clock, answer_id=answer_id, source=source, is_shielded=is_shielded)
        if kind in GOES_ON_AFTER_CLOSE:
            self._waited.add(run)
        self._group.start_soon(self._work, run, call, watch, name=name)
        return run

    async def _work(self, run: Run, call: Call, watch: Watch) -> None:
        try:
            await run.make(call, watch)
        except Exception as error:  # noqa: BLE001 - the user-callback boundary
            run.fail(error)

    def failed(self, name: str, error: BaseException, source: str) -> Exception:
        """Log and report the error of application code; return the one that was reported.

        Args:
            source: Of the `error` event; empty for none.
        """
        logger.warning("%s failed: %s", name, located(error))
        logger.debug("%s failed here", name, exc_info=error)
        reported = error if isinstance(error, Exception) else SessionError(describe(error))
        if source:
            self._report_error(reported, source)
        return reported

    # --- limits that count while the session speaks nothing

    def agent_is(self, *, busy: bool) -> None:
        """Note whether the session has any speech; called at each step of its loop."""
        if busy != self._is_busy:
            self._is_busy = busy
            for run in self._quiet:
                run.hold() if busy else run.release()

    def begins_quiet(self, run: Run) -> bool:
        """Record a run whose limit counts while the session speaks nothing; return whether it speaks now."""
        self._quiet.add(run)
        return self._is_busy

    def ended(self, run: Run) -> None:
        """Note the end of a run."""
        self._quiet.discard(run)
        self._waited.discard(run)
        self._idle.set()

    # --- who waits for whom

    def here(self, kind: Kind) -> Run | None:
        """Return the run of that kind which the calling code is part of, if it is."""
        return next((run for run in self.runs_here() if run.kind == kind), None)

    def runs_here(self) -> Iterator[Run]:
        """Yield the runs that the calling code is part of, the innermost first."""
        return (site for site in call_sites() if isinstance(site, Run) and site.hooks is self)

    def check_may_await_close(self) -> None:
        """Check that the close does not wait for the calling task.

        Raises:
            SessionError: The task runs a step of the close.
        """
        task_id = id(current_task())
        if any(run.kind == "close step" and run.task_id == task_id for run in self.runs_here()):
            raise SessionError("the session is closing and waits for this code; return from it instead of closing")

    @contextmanager
    def awaiting_close(self) -> Iterator[bool]:
        """Cut the calling code, which awaits the close, or take it out of the code that the close waits for.

        Yields:
            Whether the close does not wait for the calling code, which is part of the session's own tasks.
        """
        runs = list(self.runs_here())
        for run in runs:
            if run.kind in CUT_BY_CLOSE_AWAITED:
                run.cut()
        going_on = [run for run in runs if run.kind in GOES_ON_AFTER_CLOSE]
        for run in going_on:
            run.awaits_close()
        self._idle.set()
        try:
            yield bool(going_on)
        finally:
            for run in going_on:
                run.close_awaited()

    @property
    def running(self) -> list[str]:
        """The names of the runs that the close waits for at its step `handlers`."""
        return sorted(run.name for run in self._waited if not run.is_awaiting_close)

    async def wait_idle(self, *, is_closed: bool = False) -> None:
        """Wait until there are none; the caller limits it.

        Args:
            is_closed: Whether to wait also for the runs that awaited the close, since they go on now.
        """
        while any(is_closed or not run.is_awaiting_close for run in self._waited):
            self._idle = Event()
            await self._idle.wait()

    def cut(self) -> None:
        """Cut the runs that the close waits for at its step `handlers`."""
        for run in list(self._waited):
            if not run.is_awaiting_close:
                run.cut()

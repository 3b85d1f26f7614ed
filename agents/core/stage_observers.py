"""StageObservers: watch the streams of a session's stages without slowing them."""

from __future__ import annotations

import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Literal, get_args

import anyio
from anyio.abc import TaskGroup

from vivavoce.agents.core.hooks import Hooks
from vivavoce.pipelines.core.checks import check_choice, check_whole, shown
from vivavoce.pipelines.core.errors import ConfigurationError

Stage = Literal["stt", "llm", "tts"]
STAGES: tuple[Stage, ...] = get_args(Stage)

Show = Callable[[Any], Awaitable[None] | None]


class StageObserver:
    """An observer of one stage, which `session.observe()` returns."""

    def __init__(self, control: StageObserverControl) -> None:
        self._control = control

    @property
    def dropped(self) -> int:
        """How many items it did not get, since it was behind."""
        return self._control.dropped

    @property
    def is_closed(self) -> bool:
        """Whether it gets no more items: it was closed, it has failed, or the session is over."""
        return self._control.is_closed

    def close(self) -> None:
        """Observe no more."""
        self._control.close()


class StageObserverControl:
    """The session's side of an observer: its queue, and the task that empties it.

    Args:
        show: The application's function.
        max_pending: Items that may wait.
        limit: Seconds for one call.
        on_closed: Called once, when it takes no more.
    """

    def __init__(
        self,
        stage: Stage,
        show: Show,
        max_pending: int,
        hooks: Hooks,
        limit: float,
        on_closed: Callable[[StageObserverControl], None],
    ) -> None:
        self.stage = stage
        self.observer = StageObserver(self)
        self.dropped = 0
        self.is_closed = False
        self._show = show
        self._hooks = hooks
        self._limit = limit
        self._on_closed = on_closed
        self._max_pending = max_pending
        self._pending: deque[object] = deque()
        self._news = anyio.Event()
        self._has_task = False

    def put(self, item: object, group: TaskGroup) -> None:
        """Queue an item, or count it as dropped. Synchronous."""
        if self.is_closed:
            return
        if len(self._pending) >= self._max_pending:
            self.dropped += 1
            return
        self._pending.append(item)
        self._news.set()
        if not self._has_task:
            self._has_task = True
            group.start_soon(self._run, name=f"observer of the {self.stage} stage")

    def close(self) -> None:
        """Drop what waits, and take no more."""
        if self.is_closed:
            return
        self.is_closed = True
        self._pending.clear()
        self._news.set()
        self._on_closed(self)

    async def _run(self) -> None:
        name = f"observer of the {self.stage} stage"
        while not self.is_closed:
            while self._pending:
                call = partial(self._call, self._pending.popleft())
                run = await self._hooks.run("event", name, call, self._limit, source="observer")
                if run.error is not None:
                    self.close()
            self._news = anyio.Event()
            if not self.is_closed:
                await self._news.wait()

    async def _call(self, item: object) -> None:
        result = self._show(item)
        if inspect.isawaitable(result):
            await result


class StageObservers:
    """The observers of one session.

    Args:
        group: Returns the session's task group.
        limit: Seconds for one call of an observer.
    """

    def __init__(self, hooks: Hooks, group: Callable[[], TaskGroup], *, limit: float) -> None:
        self._hooks = hooks
        self._group = group
        self._limit = limit
        self._of: dict[str, list[StageObserverControl]] = {}

    def add(self, stage: Stage, show: Show, max_pending: int) -> StageObserver:
        """Add an observer.

        Raises:
            ConfigurationError: There is no such stage, `show` is no function, or `max_pending` is no number of items.
        """
        check_choice("stage", stage, STAGES)
        check_whole("max_pending", max_pending, at_least=1)
        if not callable(show):
            raise ConfigurationError(f"an observer must be a function of one item, got {shown(show)}")
        control = StageObserverControl(stage, show, max_pending, self._hooks, self._limit, self._remove)
        self._of.setdefault(stage, []).append(control)
        return control.observer

    def close(self) -> None:
        """Close all of them: the session is over."""
        for control in [control for controls in self._of.values() for control in controls]:
            control.close()

    def _remove(self, closed: StageObserverControl) -> None:
        left = [control for control in self._of[closed.stage] if control is not closed]
        if left:
            self._of[closed.stage] = left
        else:
            del self._of[closed.stage]

    def has(self, stage: Stage) -> bool:
        """Return whether a stage is observed."""
        return stage in self._of

    def show(self, stage: str, item: object) -> None:
        """Give an item to the observers of a stage. Synchronous."""
        for control in self._of.get(stage, ()):
            control.put(item, self._group())

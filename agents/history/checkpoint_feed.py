"""CheckpointFeed: keeps a session's conversation outside of its process after each turn, if the job has a place for it.

No turn waits for it. Only the newest state of the conversation is kept, therefore writes that are slower than the turns
skip states. A write that fails is one `error` event and one line in the log; the next turn tries again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import anyio

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.threads import SerialThread
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.history.snapshot import TakeMemory, take_snapshot
from vivavoce.agents.session_watch import Keep, current_watch
from vivavoce.agents.turn.machine import TurnMachine
from vivavoce.pipelines.core.errors import SessionError, describe
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors

logger = logging.getLogger(__name__)

WRITE_LIMIT = 10.0
"""Seconds for one write."""
SOURCE = "checkpoint"
"""The source of its `error` events."""


class CheckpointFeed:
    """Writes the snapshots of one session."""

    def __init__(
        self, context: SessionContext, history: HistoryControl, machine: TurnMachine, memory: TakeMemory
    ) -> None:
        self._context = context
        self._history = history
        self._machine = machine
        self._memory = memory
        self._keep: Keep | None = None
        self._is_due = False
        self._news = anyio.Event()
        self._is_failing = False

    def open(self) -> None:
        """Begin to write, in a task of the session, if the session's job keeps its conversation."""
        watch = current_watch()
        self._keep = None if watch is None else watch.keeper(self._context.log.room)
        if self._keep is not None:
            self._context.group.start_soon(self._run, self._keep, name="checkpoints")

    def turn_over(self) -> None:
        """The conversation has changed: write it soon."""
        if self._keep is not None:
            self._is_due = True
            self._news.set()

    async def _run(self, keep: Keep) -> None:
        thread = SerialThread("checkpoint")
        while True:
            while not self._is_due:
                self._news = anyio.Event()
                await self._news.wait()
            self._is_due = False
            await self._write(keep, thread)

    async def _write(self, keep: Keep, thread: SerialThread) -> None:
        try:
            with anyio.move_on_after(WRITE_LIMIT) as scope, strays_as_errors("the checkpoint store"):
                await keep(await thread.run(_text, self._take()))
            if scope.cancelled_caught:
                raise SessionError(f"the checkpoint store did not write within {WRITE_LIMIT:g} s")
        except Exception as error:  # noqa: BLE001 - a store is foreign code and disks fail; the call goes on
            if not self._is_failing:
                logger.error("The call is not kept for a crash, the next turn tries again: %s", describe(error))
                self._context.report_error(error, SOURCE, is_recovered=True)
            logger.debug("Keeping the call failed", exc_info=error)
            self._is_failing = True
        else:
            self._is_failing = False

    def _take(self) -> Callable[[], dict[str, Any]]:
        return take_snapshot(
            session_id=self._context.id,
            agent=self._context.live.agent.id,
            history=self._history,
            userdata=self._context.session.userdata,
            turns=self._machine.turns,
            memory=self._memory,
        )


def _text(data: Callable[[], dict[str, Any]]) -> str:
    return json.dumps(data())

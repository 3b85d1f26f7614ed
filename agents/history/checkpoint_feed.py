"""CheckpointFeed: keeps a session's conversation outside of its process, if the job has a place for it.

It writes after each turn, and ahead: the user's message at the commit, and each tool call before its tool runs. The
first frame of the answer waits for the first of these writes, the tool for the second, both for a short time. Nothing
else waits. Only the newest state of the conversation is kept, therefore writes that are slower than the changes skip
states.

A store that is late, or a write that fails, is one `error` event and one line in the log; nothing waits for the store
until it has written again, and the next change is another try. Of a store that stays late there is no second event
until it has written in time.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import anyio

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.core.threads import SerialThread
from vivavoce.agents.history.history import HistoryControl
from vivavoce.agents.history.open_work import NO_OPEN_WORK, NOTHING_PASSED, BegunCall, OpenWork, PassedCode
from vivavoce.agents.history.snapshot import TakeExtensions, take_snapshot
from vivavoce.agents.session_watch import Keep, current_watch
from vivavoce.agents.turn.machine import TurnMachine
from vivavoce.pipelines.core.errors import SessionError, describe
from vivavoce.pipelines.core.stray_cancellation import strays_as_errors

logger = logging.getLogger(__name__)

WRITE_LIMIT = 10.0
"""Seconds for one write."""
FRAME_LIMIT = 0.1
"""Seconds that the first frame of an answer waits for the write of its turn."""
CALL_LIMIT = 0.5
"""Seconds that a tool waits for the write of its call."""
SOURCE = "checkpoint"
"""The source of its `error` events."""


@dataclass(slots=True)
class _OpenTurn:
    """A turn whose answer is not over.

    Args:
        change: The number of the change that its commit made.
    """

    change: int
    passed: PassedCode = NOTHING_PASSED


class CheckpointFeed:
    """Writes the snapshots of one session, and knows its open work.

    Args:
        agent_id: Returns the id of the agent with which another process goes on: the agent behind all tasks.
    """

    def __init__(
        self,
        context: SessionContext,
        history: HistoryControl,
        machine: TurnMachine,
        extensions: TakeExtensions,
        agent_id: Callable[[], str],
    ) -> None:
        self._context = context
        self._history = history
        self._machine = machine
        self._extensions = extensions
        self._agent_id = agent_id
        self._keep: Keep | None = None
        self._turns: dict[str, _OpenTurn] = {}
        """The user's turns whose answers are not over, oldest first."""
        self._calls: tuple[BegunCall, ...] = ()
        self._results: tuple[str, ...] = ()
        """The turns and speeches whose results are in the history and have no answer yet."""
        self._calls_change = 0
        """The number of the change that the newest call made."""
        self._changes = 0
        self._written = 0
        """The number of the newest change that the store has."""
        self._news = anyio.Event()
        self._answered = anyio.Event()
        """Set at the end of a write, and then replaced."""
        self._is_failing = False
        """Whether no part waits for the store: it is late, or its last write has failed."""
        self._is_told = False
        """Whether an error was reported since the last write that succeeded."""
        self._is_late = False
        """Whether a late store was reported since the last write in time."""
        self.resumed = NO_OPEN_WORK
        """The open work of the session that this session continues."""

    # --- the open work

    @property
    def open_work(self) -> OpenWork:
        """The newest turn of the user without an answer, the calls that have begun, and the results to tell."""
        turn_id = next((turn_id for turn_id in reversed(self._turns) if self._has_words(turn_id)), "")
        results = tuple(made_by for made_by in self._results if made_by != turn_id)
        return OpenWork(turn_id=turn_id, passed=self.passed(turn_id), calls=self._calls, results=results)

    def _has_words(self, turn_id: str) -> bool:
        """Return whether another process can answer the turn: the words are missing if only the model has heard them so
        far."""
        item = self._history.user_item(turn_id)
        return item is not None and not item.no_transcript

    def passed(self, turn_id: str) -> PassedCode:
        """Return the code that a turn has passed, in this process or before a crash."""
        turn = self._turns.get(turn_id)
        return NOTHING_PASSED if turn is None else turn.passed

    def resume(self, work: OpenWork) -> None:
        """Begin with the open work of an earlier session. Its calls begin again, or end."""
        self.resumed = work
        if work.turn_id:
            self._turns[work.turn_id] = _OpenTurn(0, work.passed)

    def turn_committed(self, turn_id: str) -> None:
        """Note that the user's turn is committed, perhaps again with more words."""
        self._turns.pop(turn_id, None)
        self.changed()
        self._turns[turn_id] = _OpenTurn(self._changes)

    def hook_has_run(self, turn_id: str, instructions: str) -> None:
        """Note that `on_user_turn_completed` has run for the words of the turn, and the instructions that it has
        left."""
        if (turn := self._turns.get(turn_id)) is not None:
            turn.passed = replace(turn.passed, instructions=instructions)
            self.changed()

    def turn_taken(self, turn_id: str, key: str, is_taken: bool) -> None:
        """Note whether the state of the extension with that key has the effect of the turn."""
        turn = self._turns.get(turn_id)
        if turn is not None and (key in turn.passed.taken_by) != is_taken:
            others = tuple(other for other in turn.passed.taken_by if other != key)
            turn.passed = replace(turn.passed, taken_by=(*others, key) if is_taken else others)
            self.changed()

    def turn_over(self, *turn_ids: str) -> None:
        """Note that the answer to these turns is over, and the answers to all turns before them."""
        for turn_id in turn_ids:
            while turn_id in self._turns:
                del self._turns[next(iter(self._turns))]
        self.changed()

    def calls_are(self, calls: Sequence[BegunCall], results: Sequence[str]) -> None:
        """Take the calls that are not in the history yet, and the turns whose results no answer has told."""
        if (tuple(calls), tuple(results)) != (self._calls, self._results):
            self._calls, self._results = tuple(calls), tuple(results)
            self.changed()
            self._calls_change = self._changes

    def changed(self) -> None:
        """Store the conversation soon, as it is then."""
        self._changes += 1
        self._news.set()

    # --- waiting

    async def turn_kept(self, turn_id: str) -> bool:
        """Wait until the store has the turn, for at most `FRAME_LIMIT`; return whether it had to wait."""
        turn = self._turns.get(turn_id)
        return turn is not None and await self._kept(turn.change, FRAME_LIMIT)

    async def calls_kept(self) -> bool:
        """Wait until the store has the calls that have begun, for at most `CALL_LIMIT`; return whether it had to
        wait."""
        return await self._kept(self._calls_change, CALL_LIMIT)

    async def kept(self, limit: float) -> None:
        """Wait until the store has all changes, for so many seconds at most."""
        await self._kept(self._changes, limit)

    async def _kept(self, change: int, limit: float) -> bool:
        if self._keep is None or self._is_failing or self._written >= change:
            return False
        with anyio.move_on_after(limit) as scope:
            while self._written < change and not self._is_failing:
                await self._answered.wait()
        if scope.cancelled_caught:
            self._late(limit)
        return True

    # --- writing

    def open(self) -> None:
        """Begin to write, in a task of the session, if the session's job keeps its conversation."""
        watch = current_watch()
        self._keep = None if watch is None else watch.keeper(self._context.log.room)
        if self._keep is not None:
            self._context.group.start_soon(self._run, self._keep, name="checkpoints")

    async def _run(self, keep: Keep) -> None:
        thread = SerialThread("checkpoint")
        tried = 0
        while True:
            while tried == self._changes:
                self._news = anyio.Event()
                await self._news.wait()
            tried = self._changes
            await self._write(keep, thread, tried)
            self._answered.set()
            self._answered = anyio.Event()

    async def _write(self, keep: Keep, thread: SerialThread, change: int) -> None:
        began = self._context.clock.now()
        try:
            with anyio.move_on_after(WRITE_LIMIT) as scope, strays_as_errors("the checkpoint store"):
                await keep(await thread.run(_text, self.take()))
            if scope.cancelled_caught:
                raise SessionError(f"the checkpoint store did not write within {WRITE_LIMIT:g} s")
        except Exception as error:  # noqa: BLE001 - a store is foreign code and disks fail; the call goes on
            self._failed(error)
        else:
            self._written, self._is_failing, self._is_told = change, False, False
            self._is_late = self._is_late and self._context.clock.now() - began > FRAME_LIMIT

    def _late(self, limit: float) -> None:
        if not self._is_late:
            logger.warning("The store of calls is late; the call is kept when it answers")
            error = SessionError(
                f"the checkpoint store is late, it has not written within {limit:g} s; the call is kept when it answers"
            )
            self._context.report_error(error, SOURCE, is_recovered=True)
            self._is_late = self._is_told = True
        self._is_failing = True

    def _failed(self, error: Exception) -> None:
        if not self._is_told:
            logger.error("The call is not kept for a crash, the next turn tries again: %s", describe(error))
            self._context.report_error(error, SOURCE, is_recovered=True)
        logger.debug("Keeping the call failed", exc_info=error)
        self._is_failing = self._is_told = True

    def take(self, *, only_ids: bool = False) -> Callable[[], dict[str, Any]]:
        """Take the conversation as it is now; the returned call, from any thread, makes the data of a snapshot.

        Args:
            only_ids: Whether the history is given by the ids of its items only.
        Raises:
            ConfigurationError: The userdata cannot be JSON.
        """
        return take_snapshot(
            session_id=self._context.id,
            agent=self._agent_id(),
            history=self._history,
            userdata=self._context.userdata,
            turns=self._machine.turns,
            extensions=self._extensions,
            open_work=self.open_work,
            only_ids=only_ids,
        )


def _text(data: Callable[[], dict[str, Any]]) -> str:
    return json.dumps(data())

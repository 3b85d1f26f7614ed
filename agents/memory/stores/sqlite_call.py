"""SqliteCall: one call of a SqliteStore, from its caller to the store's thread and back."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from typing import Any

from vivavoce.agents.core.values import HALF_PAIR
from vivavoce.pipelines.core.errors import StoreValueError


class SqliteCall:
    """A call that waits for the thread, and its outcome."""

    def __init__(self, run: Callable[[sqlite3.Connection], Any], uses: str | None, *, only_reads: bool) -> None:
        self._run = run
        self._result: Any = None
        self._error: Exception | None = None
        self._is_given_up = False
        self.uses = uses
        """The session that the call writes to."""
        self.only_reads = only_reads
        """Whether the call changes nothing, and so need not wait for other processes that write."""
        self.has_written = False
        """Whether the call has changed the file. A call that changes nothing succeeds on a full disk."""

    def give_up(self) -> None:
        """Cancel the call if it has not begun: its caller has stopped waiting, and may have called again."""
        self._is_given_up = True

    def carry_out(self, database: sqlite3.Connection) -> None:
        """Run the call, unless it was given up. An error of the call before it has changed anything goes to its caller
        only."""
        if self._is_given_up:
            return
        before = database.total_changes
        try:
            self._result = self._run(database)
        except Exception as error:  # noqa: BLE001 - of a change's function, or a text: the other calls go on
            if isinstance(error, sqlite3.Error) or database.total_changes != before:
                raise
            self._error = StoreValueError(HALF_PAIR) if isinstance(error, UnicodeEncodeError) else error
        self.has_written = database.total_changes != before

    def fail(self, error: Exception) -> None:
        """Note that none of the transaction's calls took effect."""
        self._error = error

    def result(self) -> Any:
        """Return its result, or raise its error."""
        if self._error is not None:
            raise self._error
        return self._result

"""SQLite files that several open at the same time."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from vivavoce.agents.core.sqlite_file import open_sqlite

AT_ONCE = 8


def test_a_new_file_may_be_opened_by_many_at_the_same_moment(tmp_path: Path) -> None:
    together = threading.Barrier(AT_ONCE)

    def open_and_close(path: Path) -> None:
        together.wait(10)
        open_sqlite(path, kind="a test", version=1, schema="CREATE TABLE IF NOT EXISTS one (text TEXT)").close()

    with ThreadPoolExecutor(AT_ONCE) as threads:
        for number in range(20):
            list(threads.map(open_and_close, [tmp_path / f"{number}.sqlite"] * AT_ONCE))

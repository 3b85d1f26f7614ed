"""Index: passages in SQLite, found by their words (FTS5) and by their vectors. Its calls run in one thread."""

from __future__ import annotations

import json
import math
import re
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vivavoce.agents.core.sqlite_file import open_sqlite
from vivavoce.agents.knowledge.passages import Passage
from vivavoce.pipelines.core.errors import ConfigurationError

if TYPE_CHECKING:
    from vivavoce.agents.knowledge.vectors import Vectors

VERSION = 1
IN_MEMORY = ":memory:"
SCHEMA = """
CREATE TABLE IF NOT EXISTS passages (
    id INTEGER PRIMARY KEY, source TEXT NOT NULL, text TEXT NOT NULL, metadata TEXT NOT NULL, vector BLOB);
CREATE INDEX IF NOT EXISTS passages_by_source ON passages (source);
CREATE TABLE IF NOT EXISTS embedder (model TEXT NOT NULL, dimensions INTEGER NOT NULL);
CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(
    text, content = 'passages', content_rowid = 'id', tokenize = 'porter unicode61 remove_diacritics 2');
CREATE TRIGGER IF NOT EXISTS passage_added AFTER INSERT ON passages BEGIN
    INSERT INTO words (rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER IF NOT EXISTS passage_removed AFTER DELETE ON passages BEGIN
    INSERT INTO words (words, rowid, text) VALUES ('delete', old.id, old.text);
END;
"""
TABLES = ("passages", "embedder", "words", "words_data", "words_idx", "words_docsize", "words_config")

MOST_WORDS = 60
"""Words of a query that are searched: the first ones. FTS5 takes 256 at most."""
CANDIDATES = 20
"""Passages, the best ones by BM25, whose score by words is computed."""
FEW = 200
"""A word that is in so many passages, or in fewer, is searched even if most passages have it."""
MOST_COUNTS = 20_000
"""Words whose counts are kept."""
LEXICAL_BONUS = 0.1
"""Weight of the score by words beside a cosine."""

Model = tuple[str, int]
"""The name of an embedding model and its dimensions; `("", 0)` for words alone."""
_FILLERS = frozenset(
    "a about am an and any are as at be been but by can could did do does doing for from get give go got had has have "
    "he hello her hey hi him his how i if in into is it its just let like may maybe me might more my need no not of "
    "off oh ok okay on or our out please possible really right said say she should so some tell than thank thanks "
    "that the their them then there these they this those to too uh um up us very want was we well were what when "
    "where which who why will with would yes you your d didn doesn don isn ll m re s t ve".split()
)
"""English words that say nothing about a question's subject; they count if a question has no others."""
_WORD = re.compile(r"\w+")


class Index:
    """The passages of one knowledge base.

    Args:
        path: The file, or `IN_MEMORY`.
        model: Of the vectors that passages have.
    Raises:
        ConfigurationError: SQLite has no FTS5, or the file is no knowledge base, or one of another embedder.
        sqlite3.Error: The file cannot be used.
    """

    def __init__(self, path: str, model: Model) -> None:
        self._model = model
        self.database = _opened(path)
        self._marks: tuple[int, int] | None = None
        """The state of the file in which the following were read."""
        self._vectors: Vectors | None = None
        self._counts: dict[str, int] = {}
        """In how many passages a word is."""
        self._total = 0
        """The number of passages."""
        try:
            self._check_model()
        except BaseException:
            self.database.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self.database.close()

    def _check_model(self) -> None:
        if self.is_empty():
            return
        found = self.database.execute("SELECT model, dimensions FROM embedder").fetchone() or ("", 0)
        if found != self._model:
            raise ConfigurationError(
                f"the knowledge base has {_described(found)}, and needs an embedder of these, got "
                f"{_described(self._model)}; give it that embedder, or take another file and add the documents again"
            )

    # --- changes, each in one transaction

    def add(self, texts: Sequence[str], vectors: Sequence[bytes | None], source: str, metadata: str) -> None:
        """Add passages in place of those of the same source, unless that is empty.

        Raises:
            ConfigurationError: Another process has filled the file with vectors of another embedder.
        """
        with self.database:
            self.database.execute("BEGIN IMMEDIATE")
            if source:
                self.database.execute("DELETE FROM passages WHERE source = ?", (source,))
            self._check_model()
            self.database.execute("DELETE FROM embedder")
            self.database.execute("INSERT INTO embedder VALUES (?, ?)", self._model)
            rows = [(source, text, metadata, vector) for text, vector in zip(texts, vectors, strict=True)]
            insert = "INSERT INTO passages (source, text, metadata, vector) VALUES (?, ?, ?, ?)"
            self.database.executemany(insert, rows)

    def remove(self, source: str) -> int:
        """Remove the passages of a source; return how many there were."""
        return self.database.execute("DELETE FROM passages WHERE source = ?", (source,)).rowcount

    def clear(self) -> None:
        """Remove all passages."""
        self.database.execute("DELETE FROM passages")

    # --- searching

    def is_empty(self) -> bool:
        """Return whether there is no passage."""
        return self.database.execute("SELECT 1 FROM passages LIMIT 1").fetchone() is None

    def search(self, query: str, vector: bytes | None, k: int) -> list[Passage]:
        """Return the `k` best passages, the best one first."""
        self._note_state()
        words = self._telling(_words_of(query))
        by_words = self._by_words([word for word in words if self._counts[word]], max(k, CANDIDATES))
        if vector is None:
            scores = self._shares(words, by_words)
        else:
            cosines = self._all_vectors().cosines(vector)
            found = [*dict.fromkeys((*cosines.closest(k + CANDIDATES), *by_words))]
            shares = self._shares(words, found)
            scores = {one: cosine + LEXICAL_BONUS * shares[one] for one, cosine in cosines.of(found).items()}
        best = sorted(scores, key=lambda one: -scores[one])[:k]  # stable: of equal ones, the best by BM25 is first
        return [passage for one in best if (passage := self._passage(one, scores[one])) is not None]

    def warm(self) -> None:
        """Read the vectors before the first search needs them."""
        self._note_state()
        if self._model[1]:
            self._all_vectors()

    def _note_state(self) -> None:
        """Forget everything that was read from the file before its last change."""
        marks = (self.database.execute("PRAGMA data_version").fetchone()[0], self.database.total_changes)
        if marks != self._marks or len(self._counts) > MOST_COUNTS:
            self._marks, self._vectors, self._counts = marks, None, {}
            self._total = self.database.execute("SELECT count(*) FROM passages").fetchone()[0]
            self._check_model()

    def _telling(self, words: Sequence[str]) -> list[str]:
        """Return the words without those that most passages have, which say nothing and take the most time."""
        count = "SELECT count(*) FROM words WHERE words MATCH ?"
        for word in words:
            if word not in self._counts:
                self._counts[word] = self.database.execute(count, (_quoted(word),)).fetchone()[0]
        most = max(self._total / 2, FEW)
        return [word for word in words if self._counts[word] <= most] or [*words]

    def _by_words(self, words: Sequence[str], limit: int) -> list[int]:
        query = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
        wanted = " OR ".join(map(_quoted, words))
        return [one for (one,) in self.database.execute(query, (wanted, limit))] if words else []

    def _shares(self, words: Sequence[str], passages: Sequence[int]) -> dict[int, float]:
        """Return for each of these passages the share of the words that it has."""
        weights = {word: self._weight(word) for word in words}
        shares = dict.fromkeys(passages, 0.0)
        marks = ",".join("?" * len(passages))
        having = f"SELECT group_concat(rowid) FILTER (WHERE rowid IN ({marks})) FROM words WHERE words MATCH ?"
        for word in words if passages else ():
            if self._counts[word]:
                (among,) = self.database.execute(having, (*passages, _quoted(word))).fetchone()
                for one in among.split(",") if among else ():
                    shares[int(one)] += weights[word] / sum(weights.values())
        return shares

    def _weight(self, word: str) -> float:
        count = self._counts[word]
        return math.log(1 + (self._total - count + 0.5) / (count + 0.5))

    def _all_vectors(self) -> Vectors:
        from vivavoce.agents.knowledge.vectors import Vectors

        if self._vectors is None:
            rows = self.database.execute("SELECT id, vector FROM passages WHERE vector IS NOT NULL ORDER BY id")
            self._vectors = Vectors(rows.fetchall(), self._model[1])
        return self._vectors

    def _passage(self, one: int, score: float) -> Passage | None:
        query = "SELECT text, source, metadata FROM passages WHERE id = ?"
        row = self.database.execute(query, (one,)).fetchone()
        return None if row is None else Passage(row[0], score, row[1], json.loads(row[2]))


def _opened(path: str) -> sqlite3.Connection:
    try:
        if path == IN_MEMORY:
            database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            database.executescript(SCHEMA)
            return database
        return open_sqlite(
            Path(path), kind="a knowledge base", version=VERSION, schema=SCHEMA, tables=TABLES, isolation_level=None
        )
    except sqlite3.OperationalError as error:
        if "fts5" not in str(error):
            raise
        raise ConfigurationError(
            f"a knowledge base needs SQLite with FTS5, got SQLite {sqlite3.sqlite_version} without it; take a Python "
            "with another SQLite, such as one of python.org or of uv"
        ) from error


def _words_of(query: str) -> list[str]:
    """Return the words of a query, each once, without those that say nothing of its subject."""
    words = [*dict.fromkeys(_WORD.findall(query.casefold()))]
    return ([word for word in words if word not in _FILLERS] or words)[:MOST_WORDS]


def _quoted(word: str) -> str:
    """Return the word for FTS5, so that it is no syntax; `_WORD` lets no quotation mark through."""
    return f'"{word}"'


def _described(model: Model) -> str:
    name, dimensions = model
    return f"vectors of {name or 'a model'} with {dimensions} dimensions" if dimensions else "no vectors"

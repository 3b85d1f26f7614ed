"""Vectors: the vectors of all passages in one matrix of float32, compared by numpy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vivavoce.pipelines.core.native_threads import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt


def packed(vector: Sequence[float]) -> bytes:
    """Return a vector as float32, of length one, so that a product is a cosine."""
    numbers = np.asarray(vector, np.float64)
    length = float(np.linalg.norm(numbers))
    return (numbers / length if length > 0 else numbers).astype(np.float32).tobytes()


class Cosines:
    """The cosines of a query and all passages.

    Args:
        ids: Of the passages, in ascending order.
    """

    def __init__(self, ids: npt.NDArray[np.int64], cosines: npt.NDArray[np.float32]) -> None:
        self._ids = ids
        self._cosines = cosines

    def closest(self, count: int) -> list[int]:
        """Return the ids of the passages with the highest cosines, in any order."""
        if count >= len(self._ids):
            return [int(one) for one in self._ids]
        return [int(one) for one in self._ids[np.argpartition(-self._cosines, count)[:count]]]

    def of(self, ids: Sequence[int]) -> dict[int, float]:
        """Return the cosines of these passages; those without a vector are left out."""
        places = np.searchsorted(self._ids, np.asarray(ids, np.int64))
        return {
            one: float(self._cosines[place])
            for one, place in zip(ids, places, strict=True)
            if place < len(self._ids) and self._ids[place] == one
        }


class Vectors:
    """The vectors of an index.

    Args:
        rows: Ids in ascending order, and `packed` vectors.
    """

    def __init__(self, rows: Sequence[tuple[int, bytes]], dimensions: int) -> None:
        self._ids: npt.NDArray[Any] = np.fromiter((one for one, _ in rows), np.int64, len(rows))
        vectors = np.frombuffer(b"".join(vector for _, vector in rows), np.float32)
        self._matrix: npt.NDArray[Any] = vectors.reshape(len(rows), dimensions)

    def cosines(self, vector: bytes) -> Cosines:
        """Compare a `packed` vector with all of them."""
        return Cosines(self._ids, self._matrix @ np.frombuffer(vector, np.float32))

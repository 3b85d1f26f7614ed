"""Blaming: which component a reply failed by, in a block that costs next to nothing when all goes well."""

from __future__ import annotations

from collections.abc import Callable

from vivavoce.pipelines.core.stray_cancellation import strays_as_errors


class Blaming(strays_as_errors):
    """Tells of an error, or of a stray cancellation, that leaves the block.

    Args:
        blame: Told the component.
        component: Whose block it is.
    """

    __slots__ = ("_blame",)

    def __init__(self, blame: Callable[[str], None], component: str) -> None:
        super().__init__(component)
        self._blame = blame

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            return
        if isinstance(error, Exception):
            self._blame(self._what)
        else:
            try:
                super().__exit__(kind, error, trace)
            except Exception:
                self._blame(self._what)
                raise

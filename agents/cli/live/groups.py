"""Groups: texts that stay unbroken, on as few lines as the terminal's width allows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rich.console import Console, ConsoleOptions
from rich.text import Text


class Groups:
    """Shows texts one after the other, and continues on a new line if the next one does not fit.

    Args:
        texts: The unbroken texts; one that is wider than the terminal is broken nevertheless.
        indent: Cells at the beginning of every line.
    """

    def __init__(self, texts: Iterable[Text], *, indent: int = 0) -> None:
        self._texts = list(texts)
        self._indent = indent

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        width = max(1, options.max_width - self._indent)
        line = Text()
        for text in self._texts:
            if line and line.cell_len + 1 + text.cell_len > width:
                yield from self._indented(line, width, console)
                line = Text()
            line = Text.assemble(line, " ", text) if line else text.copy()
        if line:
            yield from self._indented(line, width, console)

    def _indented(self, line: Text, width: int, console: Console) -> Iterator[Text]:
        for piece in line.wrap(console, width, overflow="fold"):
            yield Text.assemble(" " * self._indent, piece)

"""name_async_library: tells anyio which library runs the code of a context.

Where sniffio is installed, anyio asks it. Without a name in the context it finds asyncio in tasks only: a timer's
callback could make no cancel scope.
"""

from __future__ import annotations

import sys


def name_async_library(name: str | None) -> None:
    """Name the library of the calling context, and of all tasks, timers and threads that take it over; None: none."""
    sniffio = sys.modules.get("sniffio")  # anyio imports it, if it is there
    if sniffio is not None:
        sniffio.current_async_library_cvar.set(name)

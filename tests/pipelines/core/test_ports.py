"""The words for a port that cannot be listened on."""

from __future__ import annotations

import errno
import socket

import pytest

from vivavoce.pipelines.core.ports import why_no_port


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (OSError(errno.EADDRINUSE, "in use"), "port 8090 on here is taken by another program"),
        (OSError(errno.EACCES, "a long text of asyncio"), "cannot listen on here:8090: Permission denied"),
        (
            socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
            "here:8090: 'here' is no address of this machine; 0.0.0.0 is all",
        ),
        (OSError("odd"), "here:8090: odd"),
    ],
)
def test_the_reason_is_named_also_that_of_an_unknown_host(error: OSError, reason: str) -> None:
    assert reason in why_no_port(error, "here", 8090)

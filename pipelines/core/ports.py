"""The words for a port that a program of vivavoce cannot listen on."""

from __future__ import annotations

import errno
import os
import socket


def why_no_port(error: OSError, host: str, port: int, *, option: str = "port") -> str:
    """Return why nothing can listen there, and the remedy.

    Args:
        error: The system's error.
        option: The user's name for the choice of the port.
    """
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} on {host} is taken by another program: end that one, or choose another {option} "
            f"({option} 0 takes a free one)"
        )
    if isinstance(error, socket.gaierror):
        return f"cannot listen on {host}:{port}: {host!r} is no address of this machine; 0.0.0.0 is all of them"
    return f"cannot listen on {host}:{port}: {os.strerror(error.errno) if error.errno else error}"

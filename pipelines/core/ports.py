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
    if isinstance(error, socket.gaierror) or not error.errno:  # the first counts its own numbers
        return f"cannot listen on {host}:{port}: {error.strerror or error}"
    return f"cannot listen on {host}:{port}: {os.strerror(error.errno)}"

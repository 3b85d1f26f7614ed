"""Wire: messages between the processes of `vivavoce dev`, one JSON object a line over the child's stdin and stdout.

To the child: `register`, `take` (run a job in a room, with or without a conversation to continue), `preview`,
`hand_over`, `go_on`, `drop` (leave a call that was over before), `drain`, `stop`. From it: `loaded` or `failed`,
`registered`, `call`, `call_over`, `call_failed`, `ready`, `preview`, `handed_over`, `resumed`, `show` (output for the
display).
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any

from anyio.abc import ByteReceiveStream

Message = dict[str, Any]


def encode(what: str, **fields: Any) -> bytes:
    """Return a message as a line."""
    return json.dumps({"is": what, **fields}, ensure_ascii=False).encode() + b"\n"


async def messages(stream: ByteReceiveStream) -> AsyncIterator[Message]:
    """Yield the messages of a stream until its end; a line that the end cuts off is dropped."""
    rest = b""
    async for data in stream:
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            message: Message = json.loads(line)
            yield message


class Speaker:
    """Writes a child's messages, from any thread, in order. From now on the app's own prints go to stderr."""

    def __init__(self) -> None:
        self._descriptor = os.dup(sys.stdout.fileno())
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        self._lock = threading.Lock()

    def send(self, what: str, **fields: Any) -> None:
        """Write one message; without a reader it is dropped."""
        line = encode(what, **fields)
        with self._lock:
            try:
                while line:
                    line = line[os.write(self._descriptor, line) :]
            except BrokenPipeError:
                return

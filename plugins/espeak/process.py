"""Helper: one helper process of `espeak.TTS`, its pipes and the requests that wait for it."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Mapping
from typing import Any, cast

import anyio

from vivavoce.pipelines.core.errors import (
    ConfigurationError,
    ProviderConnectionError,
    ProviderError,
    ProviderProtocolError,
    ProviderTimeoutError,
)
from vivavoce.plugins.espeak import wire

logger = logging.getLogger(__name__)

PROVIDER = "espeak"
MODULE = "vivavoce.plugins.espeak.helper"
STDOUT = 1
MAX_COMPLAINT = 2000
"""Bytes of the helper's stderr kept for the error message."""


class Request:
    """The messages of the helper for one text."""

    def __init__(self, number: int) -> None:
        self.number = number
        self._messages: asyncio.Queue[tuple[wire.Header, bytes] | ProviderError] = asyncio.Queue()

    def put(self, message: tuple[wire.Header, bytes] | ProviderError) -> None:
        """Put the next message, or the reason why there is none."""
        self._messages.put_nowait(message)

    async def next(self, limit: float) -> tuple[wire.Header, bytes]:
        """Return the next message.

        Raises:
            ProviderTimeoutError: No message came within `limit` seconds.
            ProviderError: The helper is lost.
        """
        try:
            async with asyncio.timeout(limit):
                message = await self._messages.get()
        except TimeoutError as error:
            raise ProviderTimeoutError(
                f"no audio from the helper process within {limit} s", provider=PROVIDER
            ) from error
        if isinstance(message, ProviderError):
            raise message
        return message


class Helper(asyncio.SubprocessProtocol):
    """One process. Everything runs in callbacks of the loop that started it; there is no task."""

    def __init__(self) -> None:
        self._transport: asyncio.SubprocessTransport | None = None
        self._decoder = wire.FrameDecoder()
        self._complaint = b""
        self._requests: dict[int, Request] = {}
        self._last = 0
        self._ready = Request(0)
        self._requests[0] = self._ready
        self._gone = asyncio.Event()
        self._is_lost = False

    @classmethod
    async def start(cls, settings: Mapping[str, object], *, limit: float, close_limit: float) -> Helper:
        """Start the process and wait until its voice is loaded. A start that fails ends the process.

        Args:
            limit: Seconds of the start.
            close_limit: Seconds of the end of a process that is killed.
        Raises:
            ConfigurationError: espeak-ng refuses the settings.
            ProviderError: It does not start within `limit` seconds.
        """
        command = [sys.executable, "-P", "-m", MODULE, json.dumps(settings)]
        loop = asyncio.get_running_loop()
        try:
            # A process session of its own: Ctrl-C in a terminal is for the parent, which ends the helper by its stdin.
            # Shielded, so that a cancelled start knows the process that it has to end.
            with anyio.CancelScope(shield=True):
                _, helper = await loop.subprocess_exec(cls, *command, start_new_session=True)
        except OSError as error:
            raise ProviderConnectionError(f"cannot start {command[0]!r}: {error}", provider=PROVIDER) from error
        try:
            header, _ = await helper._ready.next(limit)
        except BaseException:
            with anyio.CancelScope(shield=True):
                await helper._end_now(close_limit)
            raise
        if header["op"] == "refused":
            await helper.aclose(close_limit)
            raise ConfigurationError(f"espeak.TTS: {header['message']}")
        logger.debug("espeak helper process %d is ready", helper.pid)
        return helper

    @property
    def pid(self) -> int:
        """Of the process."""
        assert self._transport is not None
        return self._transport.get_pid()

    @property
    def is_lost(self) -> bool:
        """Whether it accepts no more requests."""
        return self._is_lost

    def speak(self, text: str) -> Request:
        """Request the audio of `text`."""
        self._last += 1
        request = Request(self._last)
        if self._is_lost:
            request.put(self._loss())
            return request
        self._requests[request.number] = request
        self._send({"op": "speak", "id": request.number, "text": text})
        return request

    def cancel(self, request: Request) -> None:
        """Stop `request` and forget it; allowed when it is over."""
        if self._requests.pop(request.number, None) is not None and not self._is_lost:
            self._send({"op": "cancel", "id": request.number})

    def kill(self) -> None:
        """End the process now."""
        self._lose(self._loss())
        assert self._transport is not None
        self._transport.close()  # closes the pipes and kills the process

    async def aclose(self, limit: float) -> None:
        """Let the process end by closing its stdin; kill it after `limit` seconds."""
        self._lose(ProviderConnectionError("the voice was closed meanwhile", provider=PROVIDER, retryable=False))
        try:
            async with asyncio.timeout(limit):
                await self._gone.wait()
        except TimeoutError:
            logger.warning("espeak helper process did not end within %s s; killing it", limit)
        finally:
            await self._end_now(limit)

    async def _end_now(self, limit: float) -> None:
        self.kill()
        try:
            async with asyncio.timeout(limit):  # SIGKILL needs no consent, but a busy machine is late
                await self._gone.wait()
        except TimeoutError:
            logger.warning("espeak helper process %d was killed and has not ended within %s s", self.pid, limit)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.SubprocessTransport, transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd != STDOUT:
            self._complaint = (self._complaint + data)[-MAX_COMPLAINT:]
            return
        try:
            for header, payload in self._decoder.feed(data):
                self._dispatch(header, payload)
        except wire.WireError as error:
            self._lose(ProviderProtocolError(f"the helper process sent garbage: {error}", provider=PROVIDER))
            self.kill()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == STDOUT:
            self._lose(self._loss())

    def process_exited(self) -> None:
        self._lose(self._loss())
        self._gone.set()

    def _dispatch(self, header: wire.Header, payload: bytes) -> None:
        number = header.get("id", 0)
        request = self._requests.get(number)
        if request is None:  # cancelled meanwhile
            return
        if header["op"] != "audio":
            del self._requests[number]
        request.put((header, payload))

    def _send(self, header: wire.Header) -> None:
        self._stdin().write(wire.encode(header))

    def _stdin(self) -> Any:
        assert self._transport is not None
        return self._transport.get_pipe_transport(0)

    def _lose(self, error: ProviderError) -> None:
        if self._is_lost:
            return
        self._is_lost = True
        for request in self._requests.values():
            request.put(error)
        self._requests.clear()
        self._stdin().close()

    def _loss(self) -> ProviderError:
        code = None if self._transport is None else self._transport.get_returncode()
        said = self._complaint.decode(errors="replace").strip()
        return ProviderConnectionError(
            f"the helper process is lost (exit status {code})" + (f"; it said: {said}" if said else ""),
            provider=PROVIDER,
        )

"""Link: one open connection to a peer: it reads frames, answers calls, and holds the own calls until their outcomes."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import Any, Protocol

import anyio

from vivavoce.agents.peers.wire import (
    MAX_OPEN,
    Call,
    Cancel,
    Delivery,
    Outcome,
    PeerProtocolError,
    PeerWire,
    Refused,
    Takes,
    encode,
)
from vivavoce.pipelines.core.errors import PeerUnreachable, describe

logger = logging.getLogger(__name__)

CLOSE_LIMIT = 0.5
"""Seconds for the close of a connection."""
PROTOCOL_ERROR = 1002
LOST = "the connection to the peer was lost"


class Side(Protocol):
    """Takes the calls of the other end. A call that is not waited for any more is cancelled."""

    async def take(self, call: Call) -> Outcome:
        """Take or reject a message; return the answer to a request."""
        ...

    async def deliver(self, delivery: Delivery, link: Link) -> Outcome:
        """Take or reject a message of a dialogue, which came over that connection."""
        ...


class Link:
    """One connection, after both ends have said hello.

    Args:
        socket: A WebSocket of aiohttp, of either end.
        side: Takes the calls of the other end.
    """

    def __init__(self, socket: Any, wire: PeerWire, side: Side) -> None:
        self._socket = socket
        self.wire = wire
        self._side = side
        self._open: dict[int, asyncio.Future[Outcome]] = {}
        """The own calls without an outcome, by their numbers."""
        self._answering: dict[int, anyio.CancelScope] = {}
        """The calls of the other end at work."""
        self._room = anyio.Semaphore(MAX_OPEN)
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._why = LOST

    @property
    def is_open(self) -> bool:
        """Whether calls can be made."""
        return not (self._ended.is_set() or self._scope.cancel_called)

    async def run(self) -> None:
        """Serve the connection until it ends; then each open call fails. Call it once."""
        code = 1000
        try:
            with self._scope:
                await self._serve()
        except PeerProtocolError as error:
            code, self._why = PROTOCOL_ERROR, f"{LOST}: it broke the protocol"
            logger.warning("A peer broke the protocol, and its connection is closed: %s", error)
        finally:
            self._ended.set()
            for waiting in self._open.values():
                if not waiting.done():
                    waiting.set_exception(PeerUnreachable(self._why))
            with anyio.move_on_after(CLOSE_LIMIT, shield=True):
                await self._socket.close(code=code)

    def close(self) -> None:
        """End the connection; `run()` closes it."""
        self._why = "the connection to the peer was closed"
        self._scope.cancel()

    async def aclose(self) -> None:
        """End the connection and wait for that."""
        self.close()
        with anyio.move_on_after(2 * CLOSE_LIMIT, shield=True):
            await self._ended.wait()

    # --- own calls

    async def ask(self, frame: Call | Delivery) -> Outcome:
        """Make a call and return its outcome.

        Raises:
            PeerUnreachable: The connection was lost.
            ConfigurationError: The message is too long, or no JSON; nothing was sent.
        """
        async with self._room:
            if not self.is_open:
                raise PeerUnreachable(self._why)
            number, text = self.wire.call(frame)
            waiting: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
            self._open[number] = waiting
            try:
                await self._write(text)
                return await waiting
            except anyio.get_cancelled_exc_class():
                if self.is_open and (cancel := self.wire.cancel(number)):
                    with anyio.move_on_after(CLOSE_LIMIT, shield=True), suppress(PeerUnreachable):
                        await self._write(cancel)
                raise
            finally:
                del self._open[number]
                if waiting.done() and not waiting.cancelled():
                    waiting.exception()  # it is read, also where the write had failed before

    async def note_takes(self, models: tuple[str, ...]) -> None:
        """Tell the other end which models this end takes from now on."""
        if self.is_open:
            await self._write(encode(Takes(models=models)))

    # --- the connection

    async def _serve(self) -> None:
        broken: PeerProtocolError | None = None
        async with anyio.create_task_group() as tasks:
            while (text := await self._receive()) is not None:
                try:
                    frame = self.wire.take(text)
                except PeerProtocolError as error:
                    broken = error
                    break
                if isinstance(frame, Call | Delivery):
                    self._answering[frame.number] = scope = anyio.CancelScope()
                    tasks.start_soon(self._answer, frame, scope)
                elif isinstance(frame, Outcome):
                    self._settle(frame)
                elif isinstance(frame, Cancel) and frame.number in self._answering:
                    self._answering[frame.number].cancel()
            self._ended.set()
            tasks.cancel_scope.cancel()
        if broken is not None:
            raise broken

    def _settle(self, outcome: Outcome) -> None:
        waiting = self._open.get(outcome.number)
        if waiting is not None and not waiting.done():
            waiting.set_result(outcome)

    async def _answer(self, frame: Call | Delivery, scope: anyio.CancelScope) -> None:
        with scope, suppress(PeerUnreachable):
            try:
                outcome = await self._outcome_of(frame)
                await self._write(self.wire.outcome(frame.number, outcome))
            finally:
                del self._answering[frame.number]

    async def _outcome_of(self, frame: Call | Delivery) -> Outcome:
        try:
            if isinstance(frame, Call):
                return await self._side.take(frame)
            return await self._side.deliver(frame, self)
        except Exception as error:  # noqa: BLE001 - the answer to one call must not end the others
            logger.error("A call of a peer failed: %s", describe(error))
            logger.debug("A call of a peer failed here", exc_info=error)
            return Outcome(status="failed", detail="the other end failed")

    async def _receive(self) -> str | None:
        """Return the next text, or None at the end of the connection."""
        from aiohttp import WSMsgType

        message = await self._socket.receive()
        if message.type is WSMsgType.TEXT:
            return str(message.data)
        if message.type is WSMsgType.BINARY:
            return ""  # which is no frame
        if message.type is WSMsgType.CLOSE and message.extra:
            self._why = f"{LOST}: it closed the connection with code {message.data}"
        return None

    async def _write(self, text: str) -> None:
        try:
            await self._socket.send_str(text)
        except (OSError, RuntimeError) as error:
            self._scope.cancel()
            raise PeerUnreachable(f"{LOST}: {describe(error)}") from None


async def refuse(socket: Any, detail: str) -> None:
    """Refuse a connection, for that reason, and close it."""
    with anyio.move_on_after(CLOSE_LIMIT):
        await socket.send_str(encode(Refused(detail=detail)))
        await socket.close()

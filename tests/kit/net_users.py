"""The users of the network layer, for the fault suite: each opens a websocket, or sends a request, in its own way.

A plugin that uses `pipelines/net` adds a class here, and `tests/conformance/test_net_faults.py` runs on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio

from kit.servers.faulty_server import LIMIT, Body, Message, no_answer
from vivavoce.pipelines.core.errors import ProviderError
from vivavoce.pipelines.media.frame import AudioFrame
from vivavoce.pipelines.net.client import Client
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.pipelines.net.redaction import Redaction
from vivavoce.pipelines.net.reopening_socket import ReopeningOptions, ReopeningSocket
from vivavoce.pipelines.net.sockets import OnLost, OnMessage, Socket, open_socket
from vivavoce.pipelines.net.streams import json_lines, json_object, sse
from vivavoce.pipelines.realtime_model.feed import Feed

SHORT = 0.3
"""Seconds in which a user connects to a server that stalls, and reads from it, so that a test need not wait long."""

FRAME, LOW = AudioFrame.silence(0.02, 24000), AudioFrame.silence(0.02, 16000)


class Line:
    """An open websocket of a user.

    Args:
        push: Sends a piece of audio.
        events: Yields what the user reports.
        aclose: Closes it.
    """

    def __init__(
        self, push: Callable[[], object], events: AsyncIterator[object], aclose: Callable[[], Awaitable[None]]
    ) -> None:
        self.push = push
        self.aclose = aclose
        self._events = events

    async def next(self) -> object:
        """Return the next event.

        Raises:
            ProviderError: The connection was lost.
        """
        with anyio.fail_after(LIMIT):
            return await anext(self._events)


class SocketUser(ABC):
    """Code that keeps a websocket open."""

    name: str
    good: Message
    """A message of the server that the user reports as an event."""
    greeting: tuple[Message, ...] = ()
    """What its server says first."""
    speaks_tls_only = False
    """Whether its server needs a certificate."""
    has_sdk = False
    """Whether an SDK opens the websocket: it follows redirects, and tells a refusal without its body."""
    withholds = False
    """Whether it shows no text of the server, which may quote the conversation."""
    sends_audio = True
    """Whether audio is what it sends, and not little text."""
    drops = True
    """Whether it drops audio that the server does not take; else the connection counts as lost."""

    def answer(self, message: Message) -> Iterable[Message]:
        """Return the messages with which a good server answers one of the user."""
        return no_answer(message)

    @abstractmethod
    def line(self, url: str, key: str, limit: float = LIMIT) -> AbstractAsyncContextManager[Line]:
        """Open a websocket, ready for audio; the block's end closes it, and the component.

        Args:
            limit: Seconds to connect.
        Raises:
            ProviderError: It cannot be opened.
        """

    def __str__(self) -> str:
        return self.name


class RequestUser(ABC):
    """Code that sends a request and reads a streamed answer."""

    name: str
    good: Body
    """The answer of a good server, in two pieces at least."""
    has_sdk = False
    """Whether an SDK sends the request, which reads a refusal to its end before it tells the status."""
    broken: bytes = b""
    """A piece of a body that breaks its format; b"": any body has it."""

    @abstractmethod
    async def ask(self, url: str, key: str, limit: float = LIMIT) -> list[object]:
        """Return the items of the answer.

        Args:
            limit: Seconds to connect, and seconds between two pieces.
        Raises:
            ProviderError: There is none, or it broke off.
        """

    def __str__(self) -> str:
        return self.name


def limits(limit: float) -> ConnectionOptions:
    """Return limits of connecting and reading."""
    return ConnectionOptions(connect_timeout=limit, read_timeout=limit)


def net_client(url: str, key: str, limit: float = LIMIT) -> tuple[Client, Failures]:
    """Return a client as a plugin makes one, and its errors."""
    client = Client("test.STT", url, headers={"Authorization": f"Bearer {key}"}, options=limits(limit))
    return client, Failures(provider="test", redact=Redaction(client.secrets))


class NetSocket(SocketUser):
    """`Socket` by itself; its messages are JSON objects."""

    name = "net.Socket"
    good = '{"type": "fine"}'

    @asynccontextmanager
    async def line(self, url: str, key: str, limit: float = LIMIT) -> AsyncIterator[Line]:
        client, failures = net_client(url, key, limit)
        events: Feed[object] = Feed()

        def take(message: Message) -> None:
            events.put(json_object(message, failures))

        socket = await open_socket(
            client, "listen", {"model": "m"}, failures, on_message=take, on_lost=events.end, component="stt"
        )
        socket.start()
        try:
            yield Line(lambda: socket.post(FRAME.data, is_audio=True), events.items(), socket.aclose)
        finally:
            await socket.aclose()
            await client.aclose()


class NetReopeningSocket(SocketUser):
    """`ReopeningSocket` that makes no further try, so that a loss shows."""

    name = "net.ReopeningSocket"
    drops = False
    good = NetSocket.good

    @asynccontextmanager
    async def line(self, url: str, key: str, limit: float = LIMIT) -> AsyncIterator[Line]:
        client, failures = net_client(url, key, limit)
        events: Feed[object] = Feed()

        async def connect(on_message: OnMessage, on_lost: OnLost) -> Socket:
            socket = await open_socket(
                client, "", (), failures, on_message=on_message, on_lost=on_lost, component="stt"
            )
            socket.start()
            return socket

        socket: ReopeningSocket[bytes] = ReopeningSocket(
            connect,
            bytes,
            on_message=lambda message: events.put(json_object(message, failures)),
            on_lost=events.end,
            provider="test",
            component="stt",
            options=ReopeningOptions(waits=()),
        )
        await socket.open()
        try:
            yield Line(lambda: socket.push(FRAME.data, FRAME.duration), events.items(), socket.aclose)
        finally:
            await socket.aclose()
            await client.aclose()


class NetEvents(RequestUser):
    """`sse()` by itself."""

    name = "net.sse"
    good = Body((b"event: piece\ndata: on", b"e\n\n: a comment\n\ndata: two\n\n"), "text/event-stream")
    broken = b"data: \xff\n\n"

    async def ask(self, url: str, key: str, limit: float = LIMIT) -> list[object]:
        client, failures = net_client(url, key, limit)
        try:
            async with client.request("messages", failures, json={"text": "Hello"}) as response:
                return [event async for event in sse(response)]
        finally:
            await client.aclose()


class NetLines(RequestUser):
    """`json_lines()` by itself."""

    name = "net.json_lines"
    good = Body((b'{"audio": "on', b'e"}\n\n{"audio": "two"}'), "application/x-ndjson")
    broken = b"{\n"

    async def ask(self, url: str, key: str, limit: float = LIMIT) -> list[object]:
        client, failures = net_client(url, key, limit)
        try:
            async with client.request("tts", failures, json={"text": "Hello"}) as response:
                return [value async for value in json_lines(response)]
        finally:
            await client.aclose()


def chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and all that are chained to it."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [one.__cause__, one.__context__]


def check_clean(error: ProviderError, key: str, *words: str) -> None:
    """Check that an error shows neither the key nor these words, and leads to no foreign error, which holds the key."""
    for one in chain(error):
        assert isinstance(one, ProviderError), f"a foreign error is chained: {type(one).__name__}"
        for text in (key, *words):
            assert text not in f"{one!s} {one!r} {vars(one)!r}"

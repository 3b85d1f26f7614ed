"""Line: the way to one peer. `DialledLine` connects, and again with the next call after a loss; `GivenLine` cannot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import anyio

from vivavoce.agents.peers.dial import dial
from vivavoce.agents.peers.link import Link, Side
from vivavoce.agents.peers.wire import Hello
from vivavoce.pipelines.core.errors import PeerUnreachable
from vivavoce.pipelines.core.owned_tasks import OwnedTasks
from vivavoce.pipelines.net.keys import shown_url


class Line(ABC):
    """The way to one peer."""

    link: Link | None
    """The last connection."""

    @property
    @abstractmethod
    def url(self) -> str:
        """The address without parts that may be secret; "" if the peer has connected itself."""

    is_closed: bool
    """Whether it was closed for good."""

    @abstractmethod
    async def ready(self) -> Link:
        """Return an open connection.

        Raises:
            PeerUnreachable, PeerRejected: There is none.
        """

    def close(self) -> None:
        """Close it for good, also if it is being made."""
        self.is_closed = True
        if self.link is not None:
            self.link.close()

    async def aclose(self) -> None:
        """Close it for good, and wait for that."""
        self.close()
        if self.link is not None:
            await self.link.aclose()


class GivenLine(Line):
    """The connection that a peer has made."""

    url = ""

    def __init__(self) -> None:
        self.is_closed = False
        self.link: Link | None = None

    def open(self, link: Link) -> None:
        """Take the connection."""
        self.link = link

    async def ready(self) -> Link:
        if self.link is None or not self.link.is_open:
            raise PeerUnreachable("the peer has closed its connection, and only it can connect again")
        return self.link


class DialledLine(Line):
    """A connection to a URL.

    Args:
        hello: Makes the hello of this end.
        tasks: Run the connection; their owner ends them.
    """

    def __init__(self, url: str, token: str, hello: Callable[[], Hello], tasks: OwnedTasks) -> None:
        self._url = url
        self._token = token
        self._hello = hello
        self._tasks = tasks
        self._side: Side | None = None
        self._dialling = anyio.Lock()
        self.is_closed = False
        self.link: Link | None = None

    def open(self, side: Side) -> None:
        """Have `side` take the calls of the other end."""
        self._side = side

    @property
    def url(self) -> str:
        return shown_url(self._url)

    async def ready(self) -> Link:
        async with self._dialling:
            self._check_not_closed()
            if self.link is None or not self.link.is_open:
                socket, wire = await dial(self._url, self._token, self._hello())
                if self.is_closed:
                    socket.abort()
                self._check_not_closed()
                assert self._side is not None, "open() comes first"
                self.link = Link(socket, wire, self._side)
                self._tasks.start(self.link.run(), f"connection to {self.url}")
            return self.link

    @property
    def is_used(self) -> bool:
        """Whether it is connected, or a call connects it."""
        return self._dialling.statistics().locked or (self.link is not None and self.link.is_open)

    def _check_not_closed(self) -> None:
        if self.is_closed:
            raise PeerUnreachable(f"the connection to {self.url} was closed; connect() makes another one")

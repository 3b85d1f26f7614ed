"""Peer: another agent, in another process or of another maker, over one connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, overload

import anyio

from vivavoce.agents.peers.line import Line
from vivavoce.agents.peers.messages import is_model, named, packed, unpacked
from vivavoce.agents.peers.wire import Call, Outcome, encode
from vivavoce.pipelines.core.checks import check_number, shown
from vivavoce.pipelines.core.errors import ConfigurationError, PeerRejected, PeerTimeout
from vivavoce.pipelines.core.trace_context import trace_headers

if TYPE_CHECKING:
    from pydantic import BaseModel

M = TypeVar("M", bound="BaseModel")

SEND_LIMIT = 10.0
"""Seconds for the acknowledgement of a message."""


class Peer:
    """Another agent. `session.peers.connect()` returns one, and handlers get the one that has sent the message.

    Messages are texts and objects of pydantic models, which travel as JSON; a model is known by its name. A message is
    sent once: a call that fails is not repeated, and the next one connects again, if this side has connected.
    """

    def __init__(self, line: Line) -> None:
        self._line = line

    def __repr__(self) -> str:
        return f"Peer({self.id!r}, url={self.url!r})"

    @property
    def id(self) -> str:
        """The id of its agent, as it says; "" before the first connection."""
        return "" if self._line.link is None else self._line.link.wire.other.id

    @property
    def url(self) -> str:
        """The address that was connected to, without a query; "" if the peer has connected itself."""
        return self._line.url

    async def send(self, message: BaseModel | str) -> None:
        """Send a message, and return when the other side has taken it.

        Raises:
            ConfigurationError: It is no message, or longer than 1 MiB as JSON; nothing was sent.
            PeerRejected: The other side does not take such a message.
            PeerUnreachable: There is no connection, or it was lost meanwhile.
            PeerTimeout: The other side has not acknowledged it within 10 s.
        """
        await self._call(message, SEND_LIMIT, wants_answer=False)

    @overload
    async def request(self, message: BaseModel | str, *, timeout: float = 10.0) -> Any: ...  # noqa: ASYNC109 - the other side is told
    @overload
    async def request(
        self,
        message: BaseModel | str,
        *,
        answer: type[M],
        timeout: float = 10.0,  # noqa: ASYNC109 - the other side is told
    ) -> M: ...
    async def request(
        self,
        message: BaseModel | str,
        *,
        answer: type[BaseModel] | None = None,
        timeout: float = 10.0,  # noqa: ASYNC109 - the other side is told
    ) -> Any:
        """Send a message and return the answer: the result of the other side's handler.

        Args:
            answer: The model of the answer. Without it, a text is returned as a str, an object of a model as its JSON
                data, and None if the handler has returned nothing.
            timeout: Seconds for all of it; then the other side's handler is cancelled.
        Raises:
            ConfigurationError, PeerRejected, PeerUnreachable: As for `send()`; PeerRejected too if the handler failed,
                or the answer is of another model.
            PeerTimeout: There is no answer within `timeout`.
        """
        if answer is not None and not is_model(answer):
            raise ConfigurationError(f"answer must be the class of a pydantic model, or None, got {shown(answer)}")
        check_number("timeout", timeout, above=0, unit="s")
        outcome = await self._call(message, timeout, wants_answer=True)
        if answer is None:
            return outcome.content
        if outcome.model != answer.__name__:
            got = outcome.model or ("nothing" if outcome.content is None else "a text")
            raise PeerRejected(f"needed an answer of the model {answer.__name__}, got {got}")
        return unpacked(answer, outcome.content)

    async def aclose(self) -> None:
        """Close the connection; calls that wait fail."""
        await self._line.aclose()

    async def _call(self, message: object, limit: float, *, wants_answer: bool) -> Outcome:
        model, content = packed(message)
        traceparent = trace_headers().get("traceparent", "")
        call = Call(wants_answer=wants_answer, model=model, content=content, traceparent=traceparent)
        encode(call)  # raises for a message that is too long, before there is a connection
        try:
            with anyio.fail_after(limit):
                link = await self._line.ready()
                if model not in (takes := link.wire.other.takes):
                    raise PeerRejected(f"the peer {self.id!r} takes {named(takes)}, got {named((model,))}")
                outcome = await link.ask(call)
        except TimeoutError:
            where = self.url or self.id
            raise PeerTimeout(f"no answer of the peer {where!r} within {limit:g} s") from None
        if outcome.status == "failed":
            raise PeerRejected(f"the peer {self.id!r} failed: {outcome.detail}")
        if outcome.status == "rejected":
            raise PeerRejected(f"the peer {self.id!r} refuses the message: {outcome.detail}")
        return outcome

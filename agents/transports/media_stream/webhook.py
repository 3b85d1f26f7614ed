"""Webhook: a vendor's question what to do with a call, and our answer, a media stream; a file for each vendor. No I/O.

The signature shows that the vendor asks. Others can repeat a request, and Twilio's signature has no time in it: each
request is therefore answered once, and the answer carries a token that admits one stream, once.
"""

from __future__ import annotations

import hmac
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl
from xml.sax.saxutils import quoteattr

from vivavoce.agents.transports.media_stream.wire import MediaWire
from vivavoce.pipelines.core.errors import RoomError

TOKEN = "token"
"""Parameter of the stream that admits it."""
FORGED = (
    "the signature is missing or is not {0}'s: the secret must be that of your account, and --public-url the address "
    "that {0} calls"
)


MOST_KEPT = 10_000
"""Requests that are remembered, so that none is answered twice."""


class WebhookError(RoomError):
    """A request that is not the vendor's, or not one for a call."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WebRequest:
    """A request, as the vendor sent it.

    Args:
        url: The public address that the vendor called, with its query.
        headers: By lower-case name.
    """

    method: str
    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(default=b"", repr=False)

    def form(self) -> list[tuple[str, str]]:
        """Return the fields of a body that is a form."""
        if not self.headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
            return []
        try:
            return parse_qsl(self.body.decode("utf-8"), keep_blank_values=True, max_num_fields=200)
        except ValueError as error:
            raise WebhookError("needed a form in UTF-8 with 200 fields at most, got another body") from error

    def query(self) -> list[tuple[str, str]]:
        """Return the fields of the query."""
        _, _, query = self.url.partition("?")
        try:
            return parse_qsl(query, keep_blank_values=True, max_num_fields=200)
        except ValueError as error:
            raise WebhookError("needed a query with 200 fields at most, got another one") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class IncomingCall:
    """A call that waits for our answer."""

    call_id: str
    number: str = field(default="", repr=False)
    called_number: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The body of our answer and its type."""

    content_type: str
    body: str = field(repr=False)


class Webhook(ABC):
    """A vendor's side of HTTP.

    Args:
        now: Returns the wall clock in seconds.
    """

    name: str

    def __init__(self, secret: str, now: Callable[[], float]) -> None:
        self._secret = secret
        self._now = now
        self._seen: dict[str, None] = {}

    @abstractmethod
    def check(self, request: WebRequest) -> None:
        """Check that the vendor sent the request, and that it did not come before.

        Raises:
            WebhookError: The vendor did not, or it came before.
        """

    def check_stream(self, request: WebRequest) -> None:
        """Check that the vendor opens the stream, if it signs that; the token admits it in any case.

        Raises:
            WebhookError: It does not.
        """

    @abstractmethod
    def call(self, request: WebRequest) -> IncomingCall:
        """Return the call that the request is about.

        Raises:
            WebhookError: It is about none.
        """

    @abstractmethod
    def answer(self, call: IncomingCall, stream_url: str, token: str) -> Answer:
        """Return the answer that connects the call to a stream at our address."""

    @abstractmethod
    def wire(self) -> MediaWire:
        """Return the wire of a new stream."""

    def _take_once(self, request_id: str) -> None:
        """Take a request that is the vendor's.

        Args:
            request_id: What no other request of the vendor has, such as its nonce.
        Raises:
            WebhookError: It came before.
        """
        if request_id in self._seen:
            raise WebhookError("the request came before; each one is answered once")
        self._seen[request_id] = None
        if len(self._seen) > MOST_KEPT:
            del self._seen[next(iter(self._seen))]

    def _forged(self) -> WebhookError:
        return WebhookError(FORGED.format(self.name.capitalize()))


def is_same(one: str, other: str) -> bool:
    """Return whether two signatures are the same, in a time that does not show where they differ."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode("utf-8", "replace"))


def xml(inner: str) -> Answer:
    """Return an answer in the XML that vendors share."""
    head = '<?xml version="1.0" encoding="UTF-8"?>'
    return Answer(content_type="text/xml", body=f"{head}<Response>{inner}</Response>")


def parameter(name: str, value: str) -> str:
    """Return a `<Parameter>` of a stream."""
    return f"<Parameter name={quoteattr(name)} value={quoteattr(value)}/>"

"""Client: one component's HTTP requests and websockets, from one pool of connections."""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit
from urllib.request import getproxies_environment, proxy_bypass

from vivavoce.pipelines.core.errors import ProviderError, ProviderTimeoutError
from vivavoce.pipelines.net.failures import Failures
from vivavoce.pipelines.net.keys import shown_url
from vivavoce.pipelines.net.one_loop import OneLoop
from vivavoce.pipelines.net.options import ConnectionOptions

if TYPE_CHECKING:
    import aiohttp

    from vivavoce.pipelines.net.websocket import WebSocket

BODY_LIMIT = 1.0
"""Seconds for the body of a refusal, but no more than a half of `connect_timeout`: the status is known already."""

MAX_BODY = 65_536
"""Bytes of it that are read."""

CLOSE_LIMIT = 0.5
"""Seconds for closing a websocket."""

HEARTBEAT = 30.0
"""Seconds without a message after which a websocket sends a ping; it waits half as long for the answer."""

MAX_MESSAGE = 16 * 1024 * 1024
"""Bytes of one message of a websocket."""

Query = Mapping[str, str | Sequence[str]] | Sequence[tuple[str, str]]
"""Parameters of a URL; a name may have several values."""


class Refused(Exception):  # noqa: N818 - an answer rather than an error
    """The server answered with a status that is no success; it holds no part of the request."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        super().__init__(status)
        self.status = status
        self.headers = headers
        self.body = body


class Disconnected(Exception):  # noqa: N818 - as above
    """The connection broke; `reason` is aiohttp's error, which would have aiohttp send the request again."""

    def __init__(self, reason: Exception) -> None:
        super().__init__()
        self.reason = reason


class Client:
    """The connections of one component, made with the first request, for one event loop.

    Args:
        name: The component's name for errors, such as `"deepgram.STT"`.
        base_url: Of the server; http(s) and ws(s) have the same meaning.
        headers: Sent with each request, such as the one with the key.
    """

    def __init__(
        self, name: str, base_url: str, *, headers: Mapping[str, str], options: ConnectionOptions | None = None
    ) -> None:
        importlib.import_module("aiohttp")  # 0.2 s, which would delay the first answer
        self.base_url = base_url
        self.options = options or ConnectionOptions()
        self._headers = {**headers, **self.options.extra_headers}
        self._sessions = OneLoop(name, self._session, _close, closes_lost=True)

    def __repr__(self) -> str:
        return f"Client({self.shown_url})"

    @property
    def shown_url(self) -> str:
        """The address without parts that may be secret."""
        return shown_url(self.base_url)

    @property
    def secrets(self) -> tuple[str, ...]:
        """Texts that no message may show: the headers' values, and each part of one, such as the key after `Bearer`."""
        parts = urlsplit(self.base_url)
        in_url = (parts.password or "", *(value for _, value in parse_qsl(parts.query)))
        return (*in_url, *(part for value in self._headers.values() for part in (value, *value.split()[1:])))

    def url(self, path: str = "", query: Query = ()) -> str:
        """Return the address of a path below the base URL, whose own query stays."""
        parts = urlsplit(self.base_url)
        scheme = {"ws": "http", "wss": "https"}.get(parts.scheme, parts.scheme)
        whole = "/".join(part for part in (parts.path.rstrip("/"), path.lstrip("/")) if part)
        given = query if not isinstance(query, Mapping) else list(query.items())
        asked = "&".join(part for part in (parts.query, urlencode(given, doseq=True)) if part)
        has_key = any(name.casefold() == "authorization" for name in self._headers)
        host = parts.netloc.rpartition("@")[2] if has_key else parts.netloc  # a request has one authorization
        return urlunsplit((scheme, host, whole, asked, ""))

    @asynccontextmanager
    async def request(
        self,
        path: str,
        failures: Failures,
        *,
        json: object = None,
        data: bytes | aiohttp.FormData | None = None,
        query: Query = (),
        headers: Mapping[str, str] | None = None,
    ) -> AsyncIterator[Response]:
        """Send a request, once, and give the answer, whose status is a success; leaving the block ends it.

        Args:
            json, data: The body of a POST; without either it is a GET.
        Raises:
            ProviderError: It cannot connect, or the server refuses or takes longer than `read_timeout`.
            ConfigurationError: It is closed, or belongs to another event loop.
        """
        sent: dict[str, Any] = {"json": json} if json is not None else {"data": data}
        response = await self._request(self.url(path, query), failures, sent, headers or {})
        async with response:
            yield Response(response, failures, self.options.read_timeout)

    async def websocket(
        self,
        path: str,
        query: Query,
        failures: Failures,
        *,
        headers: Mapping[str, str] | None = None,
        protocols: Sequence[str] = (),
    ) -> WebSocket:
        """Open a websocket.

        Raises:
            ProviderError: It cannot connect, or the server refuses.
            ConfigurationError: As for `request()`.
        """
        self._sessions.check_open()
        url, limit = self.url(path, query), self.options.connect_timeout
        session = self._session()  # of its own: the end of the component does not end the websocket
        try:
            async with asyncio.timeout(limit):
                websocket = await session.ws_connect(
                    _as_it_is(url),
                    headers={**self._headers, **(headers or {})},
                    protocols=protocols,
                    heartbeat=HEARTBEAT,
                    max_msg_size=MAX_MESSAGE,
                    proxy=proxy_of(url),
                    timeout=_close_limit(),
                )
            session.detach()
            return websocket  # type: ignore[return-value]  # the session's ws_response_class
        except TimeoutError:
            failure: ProviderError = ProviderTimeoutError(
                f"no connection within {limit} s", provider=failures.provider, retryable=True
            )
        except Refused as refused:
            failure = failures.status(refused.status, refused.headers, refused.body)
        except Disconnected as broken:
            failure = failures.lost(broken.reason)
        except _foreign() as error:
            failure = failures.lost(error)
        finally:
            await session.close()
        raise failure  # outside of the block: the foreign error, which may hold the key, is not even its context

    async def aclose(self) -> None:
        """Close the connections; requests that still run fail, websockets go on until they are closed.

        Raises:
            ConfigurationError: They belong to another event loop, which still runs.
        """
        await self._sessions.aclose()

    async def _request(
        self, url: str, failures: Failures, sent: dict[str, Any], headers: Mapping[str, str]
    ) -> aiohttp.ClientResponse:
        session = self._sessions.here()
        method = "GET" if sent.get("data", "") is None else "POST"
        try:
            return await session.request(
                method, _as_it_is(url), headers={**self._headers, **headers}, proxy=proxy_of(url), **sent
            )
        except Refused as refused:
            failure: ProviderError = failures.status(refused.status, refused.headers, refused.body)
        except Disconnected as broken:
            failure = failures.lost(broken.reason)
        except TimeoutError as error:
            failure = _too_slow(error, failures, self.options)
        except _foreign() as error:
            failure = failures.lost(error)
        raise failure

    def _session(self) -> aiohttp.ClientSession:
        import aiohttp

        from vivavoce.pipelines.net.websocket import WebSocket

        options = self.options
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(
                limit=0, keepalive_timeout=options.keepalive, resolver=aiohttp.ThreadedResolver()
            ),
            timeout=aiohttp.ClientTimeout(total=None, connect=options.connect_timeout, sock_read=options.read_timeout),
            cookie_jar=aiohttp.DummyCookieJar(),  # sessions that share a component share nothing else
            ws_response_class=WebSocket,
            middlewares=(self._once,),
        )

    async def _once(self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        """Send a request once; read the body of an answer that is no success, and raise it, also that of a redirect."""
        import aiohttp

        try:
            response = await handler(request)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
            raise Disconnected(error) from None
        if 200 <= response.status < 300 or (response.status == 101 and "Upgrade" in request.headers):
            return response
        body = b""
        try:
            async with asyncio.timeout(min(BODY_LIMIT, self.options.connect_timeout / 2)):
                async for data in response.content.iter_any():
                    body += data
                    if len(body) >= MAX_BODY:
                        break
        except (TimeoutError, OSError, aiohttp.ClientError):
            body += b""  # the part that has come
        finally:
            response.close()
        raise Refused(response.status, response.headers, body[:MAX_BODY])


class Response:
    """The answer to one request.

    Args:
        read_timeout: Seconds between two pieces, for the error's text.
    """

    def __init__(self, response: aiohttp.ClientResponse, failures: Failures, read_timeout: float) -> None:
        self._response = response
        self._read_timeout = read_timeout
        self.failures = failures

    @property
    def kind(self) -> str:
        """The content's type, such as `"text/event-stream"`."""
        return self._response.content_type.casefold()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Yield the body as it comes.

        Raises:
            ProviderError: It broke off, or nothing came for `read_timeout` seconds.
        """
        try:
            async for data in self._response.content.iter_any():
                yield data
            return
        except TimeoutError:
            limit, provider = self._read_timeout, self.failures.provider
            failure: ProviderError = ProviderTimeoutError(
                f"the server took too long: nothing for {limit} s", provider=provider
            )
        except _foreign() as error:
            failure = self.failures.lost(error)
        raise failure


def proxy_of(url: str) -> str | None:
    """Return the HTTP proxy that the environment names for a URL.

    aiohttp's own reading (`trust_env`) takes two threads for each request, reads the user's `.netrc`, and knows no
    proxy of HTTPS for a websocket.
    """
    proxies = getproxies_environment()
    parts = urlsplit(url)
    if not proxies or proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    return proxy if proxy.startswith("http") else None


def _as_it_is(url: str) -> Any:
    import yarl

    return yarl.URL(url, encoded=True)


def _close_limit() -> aiohttp.ClientWSTimeout:
    import aiohttp

    return aiohttp.ClientWSTimeout(ws_close=CLOSE_LIMIT)


def _foreign() -> tuple[type[Exception], ...]:
    import aiohttp

    return (aiohttp.ClientError, OSError, ValueError)


def _too_slow(error: TimeoutError, failures: Failures, options: ConnectionOptions) -> ProviderTimeoutError:
    import aiohttp

    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return ProviderTimeoutError(f"no connection within {options.connect_timeout} s", provider=failures.provider)
    text = f"the server took too long: nothing for {options.read_timeout} s"
    return ProviderTimeoutError(text, provider=failures.provider)


async def _close(session: aiohttp.ClientSession) -> None:
    await session.close()

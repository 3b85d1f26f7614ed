"""The development room server: its sockets, its HTTP handlers, and starting and ending them."""

from __future__ import annotations

import ipaddress
import logging

from aiohttp import web

from vivavoce.agents.dev_room.api import ApiDoor
from vivavoce.agents.dev_room.auth import Authority
from vivavoce.agents.dev_room.dispatch import Dispatcher
from vivavoce.agents.dev_room.hub import Hub
from vivavoce.agents.dev_room.ice import UdpMux
from vivavoce.agents.dev_room.options import MAX_REQUEST_LINE, RoomServerOptions
from vivavoce.agents.dev_room.peer import check_aiortc
from vivavoce.agents.dev_room.shared import Shared
from vivavoce.agents.dev_room.signalling import SignalDoor
from vivavoce.agents.dev_room.tasks import TaskSet
from vivavoce.agents.dev_room.worker_door import WorkerDoor
from vivavoce.agents.page.door import PageDoor, mint_with
from vivavoce.pipelines.core.errors import RoomError
from vivavoce.pipelines.core.ports import why_no_port

logger = logging.getLogger(__name__)


class RoomServer:
    """A LiveKit-compatible room server for one machine, for development and tests.

    `await start()`, then join `url` with any LiveKit client; `await aclose()` notifies everyone and leaves no task.
    """

    def __init__(self, options: RoomServerOptions | None = None) -> None:
        self.options = options or RoomServerOptions()
        self._tasks = TaskSet()
        self._hub: Hub | None = None
        self._runner: web.AppRunner | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """The address to give to clients and workers, for example `ws://127.0.0.1:7880`."""
        return f"ws://{self.options.address}:{self.port}"

    @property
    def port(self) -> int:
        """The port in use; known after `start()`."""
        if self._runner is None:
            raise RoomError("the room server has no port yet: call start() first")
        return self._port

    async def start(self) -> None:
        """Listen.

        Raises:
            RoomError: The port is taken, or the address is not this machine's.
            ConfigurationError: The installed aiortc does not fit.
        """
        if self._runner is not None:
            raise RoomError("the room server has been started already")
        check_aiortc()
        authority = Authority(self.options)
        dispatcher = Dispatcher(self.options, authority, self._tasks)
        try:
            mux = await UdpMux.open(self.options.address)
        except OSError as exc:
            raise RoomError(f"cannot listen on {self.options.host!r}: {exc.strerror or exc}") from exc
        hub = Hub(Shared(self.options, mux, self._tasks), dispatcher)
        app = web.Application()
        SignalDoor(hub, authority).add_routes(app.router)
        WorkerDoor(dispatcher, authority, self._tasks).add_routes(app.router)
        ApiDoor(hub, authority).add_routes(app.router)
        if ipaddress.ip_address(self.options.address).is_loopback:
            PageDoor(mint_with(self.options.api_key, self.options.api_secret)).add_routes(app.router)
        else:  # the page serves tokens, and only this machine may have them
            app.router.add_get("/", _home)
        # Join requests carry a whole SDP offer in the request line: aiohttp's 8 kB are too few.
        runner = web.AppRunner(
            app,
            access_log=None,
            handle_signals=False,
            shutdown_timeout=0.3,
            max_line_size=MAX_REQUEST_LINE,
            max_field_size=MAX_REQUEST_LINE,
        )
        await runner.setup()
        try:
            await web.TCPSite(runner, self.options.address, self.options.port).start()
        except OSError as exc:
            await runner.cleanup()
            await mux.aclose()
            raise RoomError(why_no_port(exc, self.options.host, self.options.port)) from exc
        self._port = runner.addresses[0][1]
        self._runner, self._hub = runner, hub
        logger.info("room server for development only, on %s", self.url)

    async def aclose(self) -> None:
        """Notify everyone that the server ends and close all connections; safe to repeat."""
        runner, hub, self._runner = self._runner, self._hub, None
        if runner is None or hub is None:
            return
        await hub.aclose()
        await runner.cleanup()
        await self._tasks.aclose()
        await hub.shared.mux.aclose()


async def _home(request: web.Request) -> web.Response:
    return web.Response(text="Vivavoce development room: join it with a LiveKit client.\n")

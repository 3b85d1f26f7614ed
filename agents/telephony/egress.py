"""Egress: the recording of a session's room by LiveKit's egress service, beside the recording of the session itself.

The server thinks for 20 s before it says that no egress service is there, and a service may begin an egress whose start
got no answer: that one is found by its room.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import anyio

from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.events import EgressChanged
from vivavoce.agents.states import EgressStatus
from vivavoce.agents.telephony.calls import Calls
from vivavoce.pipelines.core.checks import shown
from vivavoce.pipelines.core.errors import ConfigurationError, RoomError, SessionError, describe

if TYPE_CHECKING:
    from livekit import api

    from vivavoce.agents.server_access import Credentials

logger = logging.getLogger(__name__)

T = TypeVar("T")

REQUEST_LIMIT = 5.0
"""Seconds for the server to answer."""
ACTIVE_LIMIT = 30.0
"""Seconds until a recording that the server has accepted must run: its service starts a browser."""
LOOK_EVERY = 0.5
RUNNING: tuple[EgressStatus, ...] = ("starting", "active")


@dataclass(frozen=True, slots=True, kw_only=True)
class EgressRecording:
    """A recording by LiveKit's egress.

    Args:
        egress_id: For the server's API and its webhooks (`EG_…`).
        status: As the server last said.
        error: Why it has failed, in the server's words.
        files: Its files. They are complete when the server says so by the webhook `egress_ended`, after the stop.
    """

    egress_id: str
    status: EgressStatus
    error: str = ""
    files: tuple[str, ...] = field(default=(), repr=False)


class Egress:
    """The egress of one session."""

    def __init__(self, context: SessionContext, calls: Calls) -> None:
        self._context = context
        self._calls = calls
        self._where: Credentials | None = None
        self._is_begun = False
        self._lost: api.RoomCompositeEgressRequest | None = None
        self.recording: EgressRecording | None = None
        """The recording that was started last, as the server last told of it."""

    @property
    def may_run(self) -> bool:
        """Whether one was started and not stopped, or its start has got no answer."""
        return self._is_begun or self._lost is not None

    async def start(self, output: str | api.RoomCompositeEgressRequest) -> EgressRecording:
        """Start the recording, and wait until it runs; see `Telephony.start_egress`."""
        transport, self._where = self._calls.line()
        if self._is_begun:
            raise SessionError("an egress of this session runs already; stop it before the next one")
        request = _request(output, transport.room.name)
        self._is_begun, self._lost, self.recording = True, request, None
        try:
            self.recording = await self._begin(request)
            self._lost = None
            with anyio.move_on_after(ACTIVE_LIMIT):
                while self.recording.status == "starting":
                    await anyio.sleep(LOOK_EVERY)
                    self.recording = await self._look(self.recording)
            if self.recording.status != "active":
                raise RoomError(f"the egress did not start: {self.recording.error or self.recording.status}")
        except BaseException as error:
            with anyio.CancelScope(shield=True):  # its own limit is that of one request
                await self._stop_running()
            if isinstance(error, RoomError):
                self._note("failed", describe(error))
            raise
        self._note("started")
        return self.recording

    async def stop(self) -> EgressRecording:
        """Stop the recording; see `Telephony.stop_egress`."""
        if not self._is_begun or self.recording is None:
            raise SessionError("no egress of this session runs; start one before")
        self.recording = await self._stop(self.recording)
        self._is_begun = False
        self._note("stopping")
        return self.recording

    async def aclose(self) -> None:
        """Stop what may run, also an egress whose start has got no answer; a failure is in the log."""
        lost, self._lost = self._lost, None
        if lost is not None:
            with _or_logged():
                self.recording = await self._find(lost)
                self._is_begun = self.recording is not None
        await self._stop_running()

    async def _stop_running(self) -> None:
        is_begun, self._is_begun = self._is_begun, False
        if is_begun and self.recording is not None and self.recording.status in RUNNING:
            with _or_logged():
                await self._stop(self.recording)

    async def _stop(self, recording: EgressRecording) -> EgressRecording:
        from livekit import api

        request = api.StopEgressRequest(egress_id=recording.egress_id)
        return _of(await self._ask(lambda server: server.egress.stop_egress(request), "stopped"))

    async def _begin(self, request: api.RoomCompositeEgressRequest) -> EgressRecording:
        try:
            return _of(await self._ask(lambda server: server.egress.start_room_composite_egress(request), "started"))
        except _NoAnswer:
            with _or_logged():
                if (found := await self._find(request)) is not None:
                    return found
            raise
        except RoomError:
            self._lost = None
            raise

    async def _find(self, request: api.RoomCompositeEgressRequest) -> EgressRecording | None:
        """Return the egress of the room that this request has begun, if one runs."""
        from livekit import api

        listed = api.ListEgressRequest(room_name=request.room_name, active=True)
        answer = await self._ask(lambda server: server.egress.list_egress(listed), "found")
        files = [output.filepath for output in request.file_outputs]
        for info in answer.items:
            if [output.filepath for output in info.room_composite.file_outputs] == files:
                return _of(info)
        return None

    async def _look(self, recording: EgressRecording) -> EgressRecording:
        from livekit import api

        listed = api.ListEgressRequest(egress_id=recording.egress_id)
        answer = await self._ask(lambda server: server.egress.list_egress(listed), "found")
        return next((_of(info) for info in answer.items if info.egress_id == recording.egress_id), recording)

    async def _ask(self, ask: Callable[[api.LiveKitAPI], Awaitable[T]], done: str) -> T:
        """Make one request.

        Raises:
            RoomError: The server refused it; a `_NoAnswer` if it did not answer in time.
        """
        import aiohttp
        from livekit import api

        where = self._where
        assert where is not None, "start() sets it"
        try:
            with anyio.fail_after(REQUEST_LIMIT):
                async with api.LiveKitAPI(where.url, where.api_key, where.api_secret) as server:
                    return await ask(server)
        except api.TwirpError as error:
            raise RoomError(f"the egress could not be {done}: {error.code}: {error.message}") from error
        except TimeoutError:
            raise _NoAnswer(
                f"the egress could not be {done}: no answer within {REQUEST_LIMIT:g} s; look whether LiveKit's egress "
                "service runs beside the server"
            ) from None
        except (aiohttp.ClientError, OSError) as error:
            raise RoomError(f"the egress could not be {done}: {describe(error, quotes_foreign=True)}") from error

    def _note(self, status: str, reason: str = "") -> None:
        egress_id = "" if self.recording is None else self.recording.egress_id
        self._context.log.note(EgressChanged, status=status, egress_id=egress_id, reason=reason)


@contextmanager
def _or_logged() -> Iterator[None]:
    """Log that the server could not be asked, and go on."""
    try:
        yield
    except RoomError as error:
        logger.info("%s; it may run until its room ends", describe(error))


class _NoAnswer(RoomError):
    """The server did not answer in time: it may have done what it was asked for."""


def _request(output: object, room: str) -> api.RoomCompositeEgressRequest:
    from livekit import api

    request = api.RoomCompositeEgressRequest()
    if isinstance(output, str) and output.strip():
        request.audio_only = True
        request.audio_mixing = api.AudioMixing.DUAL_CHANNEL_AGENT
        request.file_outputs.append(api.EncodedFileOutput(file_type=api.EncodedFileType.OGG, filepath=output))
    elif isinstance(output, api.RoomCompositeEgressRequest):
        request.CopyFrom(output)
    else:
        raise ConfigurationError(
            "output must be the path of an Ogg file, such as 'calls/{room_name}-{time}.ogg', or a "
            f"livekit.api.RoomCompositeEgressRequest, got {shown(output)}"
        )
    if request.room_name not in ("", room):
        raise ConfigurationError(f"the egress is for the session's room {room!r}, got room_name={request.room_name!r}")
    request.room_name = room
    return request


def _of(info: Any) -> EgressRecording:
    from livekit import api

    name = api.EgressStatus.Name(info.status).removeprefix("EGRESS_").lower()
    status: EgressStatus = name  # type: ignore[assignment]  # the names of livekit-protocol 1.1
    files = tuple(result.filename for result in info.file_results)
    return EgressRecording(egress_id=info.egress_id, status=status, error=info.error, files=files)

"""ServerApi: the calls of LiveKit's server API that a worker makes: rooms, participants, dispatches."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

import anyio

from vivavoce.agents.server_access import Credentials, why_unreachable
from vivavoce.agents.worker.agent_token import AGENT_NAME
from vivavoce.agents.worker.protocol import HEALS, RESUMES
from vivavoce.agents.worker.room_facts import (
    DispatchedJob,
    DispatchFacts,
    NewDispatch,
    ParticipantFacts,
    RoomFacts,
)
from vivavoce.pipelines.core.errors import WorkerError

if TYPE_CHECKING:
    from livekit import api
    from livekit.protocol.agent_dispatch import AgentDispatch
    from livekit.protocol.models import ParticipantInfo

T = TypeVar("T")

CALL_LIMIT = 3.0
"""Seconds for one call."""


class ServerApi:
    """`async with ServerApi(account) as server:` holds a connection to the API.

    Every call raises a `WorkerError` if the server does not answer within 3 s, or refuses.
    """

    def __init__(self, account: Credentials) -> None:
        self._account = account
        self._open = AsyncExitStack()
        self._client: api.LiveKitAPI | None = None

    async def __aenter__(self) -> Self:
        from livekit import api

        client = api.LiveKitAPI(self._account.url, self._account.api_key, self._account.api_secret)
        self._client = await self._open.enter_async_context(client)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._open.aclose()

    async def rooms(self) -> tuple[RoomFacts, ...]:
        """Return the rooms that are open."""
        from livekit import api

        found = await self._answer("ListRooms", self._api.room.list_rooms(api.ListRoomsRequest()))
        rooms = () if found is None else found.rooms
        return tuple(RoomFacts(name=room.name, sid=room.sid, callers=room.num_participants) for room in rooms)

    async def participants(self, room: str) -> tuple[ParticipantFacts, ...] | None:
        """Return the participants of a room; None: it is not open."""
        from livekit import api

        request = api.ListParticipantsRequest(room=room)
        found = await self._answer("ListParticipants", self._api.room.list_participants(request))
        return None if found is None else tuple(_participant(one) for one in found.participants)

    async def dispatches(self, room: str) -> tuple[DispatchFacts, ...]:
        """Return the dispatches of a room, which must be open: else a server takes 3 s to refuse."""
        found = await self._answer("ListDispatch", self._api.agent_dispatch.list_dispatch(room))
        return () if found is None else tuple(_dispatch(one) for one in found)

    async def dispatch(self, wanted: NewDispatch) -> str:
        """Make a dispatch and return its id."""
        from livekit import api

        marks = {HEALS: wanted.heals, RESUMES: wanted.resumes}
        request = api.CreateAgentDispatchRequest(
            room=wanted.room,
            agent_name=wanted.agent_name,
            metadata=wanted.metadata,
            attributes={**wanted.attributes, **{name: value for name, value in marks.items() if value}},
        )
        made = await self._answer("CreateDispatch", self._api.agent_dispatch.create_dispatch(request))
        return "" if made is None else made.id

    async def delete_dispatch(self, room: str, dispatch_id: str) -> None:
        """Delete a dispatch; fine if it is gone."""
        await self._answer("DeleteDispatch", self._api.agent_dispatch.delete_dispatch(dispatch_id, room))

    async def remove(self, room: str, identity: str) -> None:
        """Remove a participant; fine if it is gone."""
        from livekit import api

        request = api.RoomParticipantIdentity(room=room, identity=identity)
        await self._answer("RemoveParticipant", self._api.room.remove_participant(request))

    @property
    def _api(self) -> api.LiveKitAPI:
        assert self._client is not None, "enter it first"
        return self._client

    async def _answer(self, what: str, call: Awaitable[T]) -> T | None:
        """Return the answer; None: the server does not have what the call is about."""
        from aiohttp import ClientError
        from livekit.api import TwirpError

        try:
            with anyio.fail_after(CALL_LIMIT):
                return await call
        except TwirpError as error:
            if error.code == "not_found":
                return None
            raise WorkerError(f"{self._account.url} refused {what}: {error.code}, {error.message}") from error
        except TimeoutError as error:
            raise WorkerError(f"{self._account.url} did not answer {what} within {CALL_LIMIT:g} s") from error
        except (ClientError, OSError) as error:
            raise WorkerError(f"{self._account.url} could not be asked for {what}: {why_unreachable(error)}") from error
        except Exception as error:  # noqa: BLE001 - whatever the SDK raises where the answer is none of LiveKit's
            raise WorkerError(
                f"{self._account.url} answered {what} with something else than a LiveKit server does "
                f"({type(error).__name__}): paths below /twirp must reach the server too"
            ) from error


def _participant(info: ParticipantInfo) -> ParticipantFacts:
    is_agent = info.kind == info.AGENT
    return ParticipantFacts(
        identity=info.identity,
        sid=info.sid,
        is_agent=is_agent,
        is_caller=info.kind in (info.STANDARD, info.SIP, info.CONNECTOR),  # as a session links them
        agent_name=info.attributes.get(AGENT_NAME) if is_agent else None,
    )


def _dispatch(dispatch: AgentDispatch) -> DispatchFacts:
    from livekit.protocol import agent

    jobs = [
        DispatchedJob(
            id=job.id,
            identity=job.state.participant_identity,
            is_over=job.state.status == agent.JS_SUCCESS,
            error=job.state.error if job.state.status == agent.JS_FAILED else "",
        )
        for job in dispatch.state.jobs
    ]
    return DispatchFacts(
        id=dispatch.id,
        agent_name=dispatch.agent_name,
        metadata=dispatch.metadata,
        attributes={name: value for name, value in dispatch.attributes.items() if name not in (HEALS, RESUMES)},
        heals=dispatch.attributes.get(HEALS, ""),
        resumes=dispatch.attributes.get(RESUMES, ""),
        jobs=tuple(jobs),
    )

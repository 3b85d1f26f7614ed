"""Calls of dead processes that have another agent meanwhile: a worker with a store of its own has healed them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from kit.lost_calls import Place, dead_owner, lost_calls
from kit.supervisor_bench import Bench
from vivavoce.agents.worker import rescue as rescue_module
from vivavoce.agents.worker.server_api import ServerApi


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with lost_calls(tmp_path) as place:
        await place.caller_joins()
        yield place


def full() -> Bench:
    """Return a worker without a free slot."""
    bench = Bench(max_jobs=1)
    bench.start_job("AJ_7")
    return bench


@pytest.mark.parametrize(
    ("identity", "sid"),
    [("agent-AD_1", ""), ("agent-AD_1", "PA_dead"), ("agent-AJ_1", "PA_dead")],
    ids=["healed, no sid", "healed", "an identity of the application's"],
)
async def test_a_call_that_another_agent_has_is_not_dispatched_again_and_keeps_that_agent(
    place: Place, identity: str, sid: str
) -> None:
    await place.agent_joins(identity)
    await place.calls.write(replace(place.call, sid=sid))

    assert await place.look() == ()
    async with ServerApi(place.account) as api:
        await place.rescue(api, status=full().supervisor.status).look()

    assert [name for name, _ in await place.present()] == ["caller", identity]
    assert await place.owners() == [place.call.owner]


async def test_the_dead_agent_is_known_by_its_sid_and_removed(place: Place) -> None:
    await place.agent_joins("agent-AJ_1")
    sid = dict(await place.present())["agent-AJ_1"]
    await place.calls.write(replace(place.call, sid=sid))

    (made,) = await place.look()

    assert made.resumes == "AJ_1"
    assert [name for name, _ in await place.present()] == ["caller"]


async def test_an_agent_that_comes_after_the_dead_one_s_removal_under_the_same_identity_is_left_alone(
    place: Place,
) -> None:
    await place.agent_joins("agent-AJ_1")
    await place.calls.write(place.call)
    async with ServerApi(place.account) as api:
        rescue = place.rescue(api, status=full().supervisor.status)
        await rescue.look()
        assert [name for name, _ in await place.present()] == ["caller"]
        await place.agent_joins("agent-AJ_1")

        await rescue.look()

    assert [name for name, _ in await place.present()] == ["caller", "agent-AJ_1"]


async def test_a_call_whose_next_process_dies_before_its_first_words_is_dispatched_again_at_once(place: Place) -> None:
    await place.agent_joins("agent-AD_1")
    await place.calls.write(replace(place.call, identity="agent-AD_1"))
    async with ServerApi(place.account) as api:
        rescue = place.rescue(api)
        await rescue.look()
        (claimed,) = await place.calls.read()
        owner = dead_owner("AJ_2")
        taken = await place.calls.claim("AJ_1", owner=claimed.owner, by=owner, at=claimed.written_at)
        assert taken is not None
        await place.agent_joins("agent-AD_1")  # of the next process, which dies at once

        await rescue.look()

    assert place.claimed == ["AJ_1", "AJ_1"]
    assert [name for name, _ in await place.present()] == ["caller"]


async def test_an_agent_with_an_identity_of_the_worker_s_option_has_the_call_too(place: Place) -> None:
    await place.agent_joins("host-AD_1-r")
    await place.calls.write(replace(place.call, identity="host-AJ_1-r"))
    async with ServerApi(place.account) as api:
        await place.rescue(api, identity="host-{job_id}-{room}").look()

    assert place.claimed == []


async def test_a_call_that_another_agent_has_had_for_a_while_is_forgotten(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rescue_module, "SERVED_AFTER", 0.0)
    await place.agent_joins("agent-AD_1")
    await place.calls.write(place.call)

    async with ServerApi(place.account) as api:
        rescue = place.rescue(api)
        await rescue.look()
        assert await place.owners() == [place.call.owner]
        await rescue.look()

    assert await place.owners() == []
    assert place.claimed == []
    assert [name for name, _ in await place.present()] == ["caller", "agent-AD_1"]


async def test_a_call_is_dispatched_again_when_the_other_agent_is_gone(place: Place) -> None:
    client = await place.clients.join(place.server, "agent-AD_1", agent=True)
    await client.next("join")
    await place.calls.write(place.call)
    async with ServerApi(place.account) as api:
        rescue = place.rescue(api)
        await rescue.look()
        assert place.claimed == []
        await api.remove("r", "agent-AD_1")

        await rescue.look()

    assert place.claimed == ["AJ_1"]


async def test_a_call_for_one_participant_is_another_agent_s_only_under_its_own_identity(place: Place) -> None:
    await place.agent_joins("agent-AD_1")  # the agent of another participant of the room, whose dispatch is the same
    await place.calls.write(replace(place.call, participant="caller"))

    (made,) = await place.look()

    assert made.resumes == "AJ_1"

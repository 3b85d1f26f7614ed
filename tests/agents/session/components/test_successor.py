"""Successor: the steps of one pipeline's way through a session, and the calls that it refuses."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from kit.memory import session_with
from vivavoce.agents.core.context import SessionContext
from vivavoce.agents.session.components.forms import Form
from vivavoce.agents.session.components.successor import CLOSE_LIMIT, PipelineChangeControl, Successor
from vivavoce.agents.testing import VirtualClock, run_virtual
from vivavoce.pipelines.core.errors import ProviderConnectionError

GONE = ProviderConnectionError("gone", provider="scripted")


class Parts(Form):
    """Components that take `closing` seconds to close."""

    def __init__(self, closing: float = 0.0) -> None:
        self.closing = closing
        self.log: list[str] = []

    async def open(self, limit: float) -> None:
        self.log.append("open")

    def take(self) -> None:
        self.log.append("take")

    async def aclose(self) -> None:
        await anyio.sleep(self.closing)
        self.log.append("closed")


@asynccontextmanager
async def context() -> AsyncIterator[SessionContext]:
    session = session_with()
    made = SessionContext(
        session,
        "call",
        VirtualClock(),
        agent=session.agent,
        capabilities=session.pipeline.capabilities,
        limit=5.0,
    )
    async with anyio.create_task_group() as group:
        made.open(group)
        yield made
        group.cancel_scope.cancel()


def wanted(made: SessionContext, control: PipelineChangeControl | None = None) -> Successor:
    pipeline = session_with().pipeline
    return Successor(made, pipeline, "pipeline_2", "change_1", control or PipelineChangeControl(pipeline, within=2.0))


def ready(made: SessionContext, form: Form | None = None) -> Successor:
    successor = wanted(made)
    successor.begin()
    successor.use(form or Parts())
    successor.opened()
    return successor


def virtually(test: Callable[[SessionContext], object]) -> None:
    async def main() -> None:
        async with context() as made:
            result = test(made)
            if hasattr(result, "__await__"):
                await result

    run_virtual(main())


def test_it_serves_with_the_components_that_it_opened_and_closes_those_when_it_is_left() -> None:
    async def test(made: SessionContext) -> None:
        form = Parts()
        successor = ready(made, form)
        successor.take_over(ready(made))
        assert (successor.state, form.log) == ("serving", ["take"])
        successor.leave(linger=3.0)
        await successor.not_in("leaving")
        assert (successor.state, form.log, anyio.current_time()) == ("closed", ["take", "closed"], 3.0)

    virtually(test)


def test_one_that_lingers_is_closed_at_once_if_it_has_to_hurry() -> None:
    async def test(made: SessionContext) -> None:
        successor = ready(made)
        successor.leave(linger=3.0)
        successor.hurry()
        await successor.not_in("leaving")
        assert anyio.current_time() == 0.0

    virtually(test)


def test_one_that_does_not_close_is_given_up_within_the_limit() -> None:
    async def test(made: SessionContext) -> None:
        successor = ready(made, Parts(closing=1000.0))
        successor.leave()
        await successor.not_in("leaving")
        assert (successor.state, anyio.current_time()) == ("closed", CLOSE_LIMIT)

    virtually(test)


def test_one_without_components_has_nothing_to_close() -> None:
    def test(made: SessionContext) -> None:
        successor = wanted(made)
        successor.drop()
        successor.leave()
        assert successor.state == "closed"

    virtually(test)


@pytest.mark.parametrize(
    ("reason", "lost", "state", "error"),
    [
        ("closed", None, "dropped", "None"),
        ("failed", None, "dropped", "None"),
        ("failed", GONE, "failed", "scripted: gone"),
        ("no_moment", None, "failed", "no moment came within 2 s without speech"),
    ],
)
def test_one_that_is_dropped_has_an_error_where_it_is_at_fault(
    reason: str, lost: Exception | None, state: str, error: str
) -> None:
    def test(made: SessionContext) -> None:
        form = Parts()
        successor = ready(made, form)
        form.failure = lost
        successor.drop(reason)
        assert (successor.state, str(successor.error)) == (state, error)

    virtually(test)


def test_one_that_serves_is_lost_and_serves_on_until_it_is_left() -> None:
    def test(made: SessionContext) -> None:
        successor = ready(made)
        successor.take_over(ready(made))
        successor.fail(GONE)
        successor.fail(OSError("cut"))
        assert (successor.state, str(successor.error)) == ("lost", "cut")
        successor.leave()
        assert successor.state == "leaving"

    virtually(test)


def test_a_change_that_is_released_goes_on_elsewhere_and_one_that_is_cancelled_ends() -> None:
    def test(made: SessionContext) -> None:
        released, cancelled = ready(made), ready(made)
        change = released.release()
        assert (released.state, released.scope.cancel_called, change.outcome) == ("dropped", True, None)
        cancelled.cancel()
        assert cancelled.control is not None
        assert cancelled.control.outcome == "cancelled"

    virtually(test)


def test_components_that_were_opened_early_serve_another_one_or_fail_it() -> None:
    def test(made: SessionContext) -> None:
        form = Parts()
        early, successor = ready(made, form), wanted(made)
        successor.begin()
        successor.use_early(early)
        assert (early.state, early.form, successor.form) == ("closed", None, form)
        broken, other = ready(made), wanted(made)
        broken.fail(GONE)
        other.begin()
        with pytest.raises(ProviderConnectionError, match="gone"):
            other.use_early(broken)
        assert other.form is not None  # which has to be closed

    virtually(test)


STEPS: dict[str, Callable[[Successor], object]] = {
    "begin": lambda one: one.begin(),
    "use": lambda one: one.use(Parts()),
    "opened": lambda one: one.opened(),
    "fail": lambda one: one.fail(GONE),
    "drop": lambda one: one.drop(),
    "leave": lambda one: one.leave(),
    "serve_first": lambda one: one.serve_first(),
}


@pytest.mark.parametrize(
    ("before", "refused"),
    [
        ([], ["use", "opened", "fail", "leave", "serve_first"]),
        (["begin"], ["begin", "leave"]),
        (["begin", "use", "opened"], ["begin", "use", "opened"]),
        (["begin", "use", "serve_first"], ["begin", "use", "opened", "drop", "serve_first"]),
        (["begin", "use", "fail"], ["begin", "use", "opened", "fail", "drop", "serve_first"]),
        (["drop"], ["begin", "use", "opened", "fail", "drop", "serve_first"]),
        (["begin", "use", "drop", "leave"], ["begin", "use", "opened", "fail", "drop", "leave", "serve_first"]),
        (["drop", "leave"], ["begin", "use", "opened", "fail", "drop", "leave", "serve_first"]),
    ],
)
def test_a_call_that_makes_no_sense_is_refused(before: list[str], refused: list[str]) -> None:
    def test(made: SessionContext) -> None:
        for name in refused:
            successor = wanted(made)
            for step in before:
                STEPS[step](successor)
            state = successor.state
            with pytest.raises(AssertionError, match="pipeline"):
                STEPS[name](successor)
            assert successor.state == state

    virtually(test)

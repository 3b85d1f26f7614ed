"""Members: the components of a fallback in order of preference, and their health.

A member that failed comes last for `retry_after` seconds, counted from its latest failure, that of a check included. A
check that succeeds ends that time at once. Checks run in `Members.tend()`, which a pipeline's connection runs; so no
check runs without a session, and none outlives it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import anyio

from vivavoce.pipelines.core.boundary import provider_errors
from vivavoce.pipelines.core.checks import check_instance, check_items, check_number, shown
from vivavoce.pipelines.core.clock import Clock, LoopClock
from vivavoce.pipelines.core.component import Component
from vivavoce.pipelines.core.errors import ConfigurationError, ProviderError, ProviderTimeoutError
from vivavoce.pipelines.core.incidents import FellBack, passed_over

logger = logging.getLogger(__name__)

C = TypeVar("C", bound=Component)

CHECK_LIMIT = 5.0
"""Seconds that one check of a member may take."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FallbackOptions:
    """How long a member that failed is left out, and how it comes back.

    Each option: docs/options.md.
    """

    retry_after: float = 60.0
    """Seconds for which a member that failed comes last, unless a check succeeds before."""
    check_every: float | None = 15.0
    """Seconds between two checks of a member that failed, while a session runs; None: no checks."""

    def __post_init__(self) -> None:
        check_number("retry_after", self.retry_after, at_least=0, unit="s")
        check_number("check_every", self.check_every, above=0, unit="s", or_none=True)


@dataclass(slots=True, eq=False)
class Member(Generic[C]):
    """One component of a fallback.

    Args:
        number: Its place in the order of preference, from 0.
        failed_at: The time of its latest failure; None if it works.
        is_slow: Whether it failed by an answer that came too late.
    """

    component: C
    number: int
    failed_at: float | None = None
    is_slow: bool = False
    is_being_checked: bool = False

    @property
    def name(self) -> str:
        """Provider and model."""
        return name_of(self.component)


def check_options(options: object, kind: type[FallbackOptions], port: type[Component], fallback: str) -> None:
    """Check the options of a fallback, which is the second argument.

    Raises:
        ConfigurationError: They are none; a second member, if the list of them was forgotten.
    """
    if isinstance(options, port):
        check_list((options,), fallback)
    check_instance("options", options, kind, or_none=True)


def check_list(others: Sequence[object], fallback: str) -> None:
    """Refuse arguments behind the list of the members of a fallback.

    Raises:
        ConfigurationError: There are some; further members, if the list of them was forgotten.
    """
    for other in others:
        raise ConfigurationError(
            f"need the members of {fallback} in one list, {fallback}([a, b]), got {shown(other)} as a second argument"
        )


def check_members(kind: str, components: object, port: type[Component]) -> tuple[Any, ...]:
    """Check the members of a fallback, and return them.

    Args:
        kind: The port's name, such as `"llm"`.
    Raises:
        ConfigurationError: There are not two, one is of another port, or one comes twice.
    """
    found = check_items(f"the members of a fallback ({kind})", components, port, remedy="call the classes")
    if len(found) < 2:
        raise ConfigurationError(f"a fallback needs two members or more, got {len(found)}; add another {kind}")
    for number, component in enumerate(found):
        first = next(place for place, other in enumerate(found) if other is component)
        if first != number:
            raise ConfigurationError(
                f"need members of a fallback ({kind}) that differ, got the same {name_of(component)} as number "
                f"{first + 1} and {number + 1}; it would fail both times, and is tried again without that: remove one"
            )
    return found


class Members(Generic[C]):
    """The members of one fallback, which sessions may share.

    Args:
        kind: The port's name, such as `"llm"`.
        check: One small request to a component, which raises if it does not work.
    Raises:
        ConfigurationError: As `check_members()`.
    """

    def __init__(
        self,
        kind: str,
        components: Sequence[C],
        port: type[Component],
        options: FallbackOptions,
        *,
        check: Callable[[C], Awaitable[None]],
        clock: Clock | None,
    ) -> None:
        found: tuple[C, ...] = check_members(kind, components, port)
        self.kind = kind
        self.clock = clock or LoopClock()
        self._all = tuple(Member(component, number) for number, component in enumerate(found))
        self._in_use = self._all[0]
        self._options = options
        self._check = check

    @staticmethod
    def of(component: Component) -> Members[Any] | None:
        """Return the members of a fallback; None for another component."""
        members = getattr(component, "_members", None)
        return members if isinstance(members, Members) else None

    @property
    def components(self) -> tuple[C, ...]:
        """All of them, in order of preference."""
        return tuple(member.component for member in self._all)

    @property
    def in_use(self) -> str:
        """Provider and model of the latest member that worked; at first that of the first one."""
        return self._in_use.name

    def line(self) -> Iterator[tuple[Member[C], Member[C] | None]]:
        """Yield each member and the next one, in the order of tries; members that failed lately come last."""
        order = self._order()
        yield from zip(order, [*order[1:], None], strict=True)

    def _order(self) -> list[Member[C]]:
        works = [member for member in self._all if self._may_work(member)]
        others = [member for member in self._all if member not in works]
        return [*works, *sorted(others, key=lambda member: member.failed_at or 0.0)]

    def _may_work(self, member: Member[C]) -> bool:
        return member.failed_at is None or self.clock.now() - member.failed_at >= self._options.retry_after

    def first_of(self, numbers: Collection[int]) -> Member[C] | None:
        """Return the first one of these in the order of tries."""
        return next((member for member in self._order() if member.number in numbers), None)

    def numbered(self, number: int) -> Member[C]:
        """Return the member of that place in the order of preference."""
        return self._all[number]

    def better_than(self, member: Member[C]) -> Member[C] | None:
        """Return the first member that works, by its checks or after `retry_after`, if that is another one."""
        works = next((one for one in self._all if self._may_work(one)), None)
        return None if works is member else works

    def failed(self, member: Member[C], error: ProviderError, successor: Member[C] | None) -> None:
        """Note a failure, and report it if a successor takes its place."""
        self.fails(member)
        if successor is not None:
            self.report(member, error, successor)

    def fails(self, member: Member[C], *, is_slow: bool = False) -> None:
        """Note a failure; `is_slow`: only time brings the member back, since a check shows no speed."""
        member.failed_at = self.clock.now()
        member.is_slow = is_slow

    @contextmanager
    def timing(self, member: Member[C], limit: float) -> Iterator[None]:
        """Around a wait for a member, which fails if the caller gives the wait up after `limit` seconds or more."""
        began_at = self.clock.now()
        try:
            yield
        except BaseException:
            if self.clock.now() - began_at >= limit:
                self.fails(member)
            raise

    def report(self, member: Member[C], error: ProviderError, successor: Member[C]) -> None:
        """Report a failure of which `successor` takes the place."""
        logger.warning("%s %s failed, %s takes its place: %s", self.kind, member.name, successor.name, error)
        component = member.component
        passed_over(FellBack(self.kind, component.provider, component.model, error, successor=successor.name))

    def works(self, member: Member[C]) -> None:
        """Note that a member works."""
        self.serves(member)
        self.is_back(member)

    def serves(self, member: Member[C]) -> None:
        """Note that a member is in use."""
        self._in_use = member

    def is_back(self, member: Member[C]) -> None:
        """Note that a member, which need not be in use, works."""
        if member.failed_at is not None:
            logger.info("%s %s works again", self.kind, member.name)
            member.failed_at = None

    async def tend(self) -> None:
        """Check members that failed, until cancelled. Several tasks may run it: a member gets one check at a time."""
        every = self._options.check_every
        while every is not None:
            await anyio.sleep(every)
            for member in self._all:
                if self._is_due(member, every):
                    await self._check_now(member)
        await anyio.sleep_forever()

    def _is_due(self, member: Member[C], every: float) -> bool:
        # Several sessions tend the members: half of the interval keeps their checks apart.
        failed_at = member.failed_at
        if failed_at is None or member.is_slow or member.is_being_checked:
            return False
        return self.clock.now() - failed_at >= every / 2

    async def _check_now(self, member: Member[C]) -> None:
        limit, provider = CHECK_LIMIT, member.component.provider
        failed_at, member.is_being_checked = member.failed_at, True
        try:
            with anyio.move_on_after(limit) as scope, provider_errors(provider):
                await self._check(member.component)
            if scope.cancelled_caught:
                raise ProviderTimeoutError(f"no answer to a check within {limit:g} s", provider=provider)
            if member.failed_at == failed_at:  # else it has failed again, in a session
                self.is_back(member)
        except ProviderError as error:
            member.failed_at = self.clock.now()
            logger.info("%s %s still fails: %s", self.kind, member.name, error)
        finally:
            member.is_being_checked = False


def name_of(component: Component) -> str:
    """Return provider and model of a component."""
    return "/".join(part for part in (component.provider, component.model) if part)


def final_error(errors: Sequence[ProviderError]) -> ProviderError:
    """Return the error of a request that all members failed: the last retryable one, else the last one."""
    return next((error for error in reversed(errors) if error.retryable), errors[-1])

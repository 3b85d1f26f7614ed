"""Expect: fluent assertions on messages, tool calls and handoffs, in order; a failure shows the actual conversation.

`harness.expect` continues where the last expectation ended. Each expectation returns the entry that it found. Further
expectations can be made on it, and the next ones too:

    harness.expect.next_message(role="user")
    harness.expect.tool_call("book", day="friday").returned("booked").next_message(contains="booked").answered_within(1)
    harness.expect.no_more()
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Self

from vivavoce.agents.agent import Agent
from vivavoce.agents.records import TurnRecord
from vivavoce.agents.testing.judging import JUDGE_LIMIT, Verdict, judge
from vivavoce.agents.testing.log import Call, ConversationLog, E, Entry, Failure, Message, Passed, of_kind
from vivavoce.agents.testing.moments import TOLERANCE, ExpectMoments
from vivavoce.pipelines.llm.base import LLM

__tracebackhide__ = True  # pytest shows the line of the test that failed, not ours


class Expect(ExpectMoments):
    """The expectations of a test. An expectation that fails does not advance.

    Args:
        log: The session's conversation; all expectations of a test share it.
    """

    def conversation(self) -> str:
        """Return all messages, calls and failures, a line each with its time, as failing expectations show it."""
        return self._log.told()

    # --- the next one, in order

    def next_message(
        self,
        text: str | None = None,
        *,
        role: str | None = None,
        contains: str | None = None,
        matches: str | None = None,
    ) -> ExpectMessage:
        """Expect a message next.

        Args:
            text: The whole text, exactly.
            role: "user", "assistant" or "system".
            contains: Words in it, in any case.
            matches: A regular expression found in it.
        """
        wanted = _shown("a message", text=text, role=role, contains=contains, matches=matches)
        return ExpectMessage(self._log, self._next(Message, wanted, _message_test(text, role, contains, matches)))

    def tool_call(self, name: str, /, **arguments: object) -> ExpectCall:
        """Expect a call of a tool next; `arguments` must be among its arguments.

        Calls made in parallel come in the order in which the model made them.
        """
        return ExpectCall(self._log, self._next(Call, f"a {_asked(name, arguments)}", _call_test(name, arguments)))

    def handoff(self, *, to: str | type[Agent], by: str | type[Agent] | None = None) -> ExpectHandoff:
        """Expect next that another agent takes the conversation over.

        Args:
            to, by: The new and the old agent, each by its id, or by its class, whatever its id is.
        """
        wanted = _shown("a handoff", to=_agent_name(to), by=_agent_name(by))
        return ExpectHandoff(
            self._log, self._next(Passed, wanted, lambda p: self._is_agent(p.new, to) and self._is_agent(p.old, by))
        )

    def failure(self, *, contains: str | None = None) -> Expect:
        """Expect next that a turn (an answer, a `say`, a `reply`) or the session failed with an error that contains
        these words.

        An unexpected failure makes other expectations fail, `no_more()` included.
        """
        wanted = _shown("a failure", contains=contains)
        self._next(Failure, wanted, lambda failure: _fits_text(failure.error, None, contains, None))
        return Expect(self._log)

    def skip(self, count: int = 1) -> Expect:
        """Skip this number of entries of any kind.

        Raises:
            AssertionError: There are fewer.
        """
        rest = self._log.rest()
        if len(rest) < count:
            raise self._failed(f"{count} more to skip", f"{len(rest)}")
        self._log.pass_by(*rest[:count])
        return Expect(self._log)

    def skip_all(self) -> Expect:
        """Skip all entries that have come."""
        self._log.pass_by(*self._log.rest())
        return Expect(self._log)

    def skip_user(self) -> Expect:
        """Skip all entries up to the user's last message, if there is one."""
        rest = self._log.rest()
        own = [place for place, entry in enumerate(rest) if isinstance(entry, Message) and entry.role == "user"]
        if own:
            self._log.pass_by(*rest[: own[-1] + 1])
        return Expect(self._log)

    def no_more(self) -> Expect:
        """Expect no further entry."""
        if rest := self._log.rest():
            raise self._failed("nothing more", f"{len(rest)} more, first {rest[0]}")
        return Expect(self._log)

    # --- anywhere in the rest; without advancing

    def contains_message(
        self,
        text: str | None = None,
        *,
        role: str | None = None,
        contains: str | None = None,
        matches: str | None = None,
    ) -> ExpectMessage:
        """Expect such a message anywhere in the rest; return the first."""
        wanted = _shown("a message", text=text, role=role, contains=contains, matches=matches)
        return ExpectMessage(self._log, self._any(Message, wanted, _message_test(text, role, contains, matches)))

    def contains_tool_call(self, name: str, /, **arguments: object) -> ExpectCall:
        """Expect such a call anywhere in the rest; return the first.

        After `user()` it may have begun earlier, if it ran then: a tool that awaits a task or an answer of the user.
        """
        fits = _call_test(name, arguments)
        earlier = self._log.earlier_calls()
        return ExpectCall(self._log, self._any(Call, f"a {_asked(name, arguments)}", fits, earlier))

    def contains_handoff(self, *, to: str | type[Agent]) -> ExpectHandoff:
        """Expect a handoff to that agent (its id, or its class) anywhere in the rest."""
        wanted = _shown("a handoff", to=_agent_name(to))
        return ExpectHandoff(self._log, self._any(Passed, wanted, lambda p: self._is_agent(p.new, to)))

    def no_tool_call(self, name: str | None = None, /, **arguments: object) -> Expect:
        """Expect that the rest holds no such call, or no call at all; a call that still runs counts."""
        fits = _call_test(name, arguments)
        calls = [call for call in of_kind(self._log.rest(), Call) if fits(call)]
        if calls:
            raise self._failed(f"no {_asked(name, arguments)}", str(calls[0]))
        return Expect(self._log)

    # --- for all of them

    def _is_agent(self, agent_id: str, wanted: str | type[Agent] | None) -> bool:
        """Whether the agent of that id is the one wanted, by its id or its class; None is any."""
        if not isinstance(wanted, type):
            return wanted in (None, agent_id)
        kinds = [type(agent) for agent in self._log.recording.agents if agent.id == agent_id]
        if not kinds:  # an agent of the call that this session continues: by the id that the class gives
            return agent_id == wanted.__name__
        return any(issubclass(kind, wanted) for kind in kinds)

    def _next(self, kind: type[E], wanted: str, fits: Callable[[E], bool]) -> E:
        rest = self._log.rest()
        if not rest:
            raise self._failed(wanted, "nothing more")
        if not isinstance(rest[0], kind) or not fits(rest[0]):
            raise self._failed(wanted, str(rest[0]))
        self._log.pass_by(rest[0])
        return rest[0]

    def _any(self, kind: type[E], wanted: str, fits: Callable[[E], bool], earlier: Sequence[E] = ()) -> E:
        for entry in [*of_kind(self._log.rest(), kind), *earlier]:
            if fits(entry):
                return entry
        raise self._failed(f"{wanted} in the rest", "none like it")


class ExpectEntry(Expect):
    """An entry that was found, with the expectations that fit any entry."""

    def __init__(self, log: ConversationLog, entry: Entry) -> None:
        super().__init__(log)
        self._entry = entry

    def at(self, seconds: float, *, tolerance: float = TOLERANCE) -> Self:
        """Expect it at that time from the session's start; words of the agent count at the time when they have been
        heard.
        """
        if abs(self._entry.at - seconds) > tolerance + 1e-9:
            raise self._failed(f"it at {seconds:g} s, ± {tolerance:g}", f"{self._entry} at {self._entry.at:g} s")
        return self

    def ended(self, outcome: str) -> Self:
        """Expect that its turn has that outcome ("completed", "interrupted", "failed" …)."""
        turn = self._log.turn_of(self._entry)
        if turn is None or turn.outcome != outcome:
            came = "its turn still runs" if turn is None else f"{turn.outcome} {turn.error}".rstrip()
            raise self._failed(f"the outcome {outcome!r} of the turn of {self._entry}", came)
        return self

    @property
    def turn(self) -> TurnRecord | None:
        """The record of its turn; None while that runs."""
        return self._log.turn_of(self._entry)


class ExpectMessage(ExpectEntry):
    """A message that was found."""

    def __init__(self, log: ConversationLog, message: Message) -> None:
        super().__init__(log, message)
        self.text = message.text
        """The message's text; for the agent, the heard text."""
        self._message = message

    def interrupted(self, is_interrupted: bool = True) -> Self:
        """Expect that it was cut off, or that it was not."""
        if self._message.interrupted != is_interrupted:
            wanted = "it cut short" if is_interrupted else "it said in full"
            raise self._failed(wanted, str(self._message))
        return self

    def answered_within(self, seconds: float) -> Self:
        """Expect at most this time from the end of the user's speech (or typing) to the first sound of the answer.

        It counts the turn that the message answers, tools and handoffs included.
        """
        turn = self._log.answered_turn(self._message)
        latency = None if turn is None else turn.e2e_latency
        if latency is None or latency > seconds + 1e-9:
            came = "no user turn that was answered audibly" if latency is None else f"{latency:.3f} s"
            raise self._failed(f"{self._message} within {seconds:g} s of the user's words", came)
        return self

    async def judge(self, llm: LLM, *, intent: str, instructions: str = "", limit: float = JUDGE_LIMIT) -> Verdict:
        """Have a model judge whether the message fulfils `intent`; the model gets the conversation up to it.

        Raises:
            AssertionError: The verdict is no; it says why.
            JudgeError: There is no verdict.
        """
        before: list[str] = []
        for entry in self._log.entries():
            if entry.id == self._message.id:
                break
            before.append(str(entry))
        verdict = await judge(
            llm,
            self._message.text,
            intent=intent,
            conversation="\n".join(before),
            instructions=instructions,
            limit=limit,
        )
        if not verdict:
            raise self._failed(f"{self._message} to fulfil {intent!r}", f"the judge says no: {verdict.reason}")
        return verdict


class ExpectCall(ExpectEntry):
    """A tool call that was found."""

    def __init__(self, log: ConversationLog, call: Call) -> None:
        super().__init__(log, call)
        self.arguments = call.arguments
        self._found = call

    @property
    def _call(self) -> Call:
        """The call as it is by now: perhaps it ran when it was found."""
        return next((call for call in of_kind(self._log.entries(), Call) if call.id == self._found.id), self._found)

    def returned(self, output: str | None = None, *, contains: str | None = None) -> Self:
        """Expect that it succeeded: with exactly this output, or with an output that contains these words."""
        call = self._call
        is_result = call.output is not None and not call.is_error
        if not is_result or not _fits_text(call.output or "", output, contains, None):
            raise self._failed(_shown(f"{call.name!r} to return", output=output, contains=contains), str(call))
        return self

    def failed(self, *, contains: str | None = None) -> Self:
        """Expect that it failed with an error that contains these words; the model received them."""
        call = self._call
        if not call.is_error or not _fits_text(call.output or "", None, contains, None):
            raise self._failed(_shown(f"{call.name!r} to fail", contains=contains), str(call))
        return self


class ExpectHandoff(ExpectEntry):
    """A handoff that was found."""


def _message_test(
    text: str | None, role: str | None, contains: str | None, matches: str | None
) -> Callable[[Message], bool]:
    return lambda message: role in (None, message.role) and _fits_text(message.text, text, contains, matches)


def _call_test(name: str | None, arguments: dict[str, object]) -> Callable[[Call], bool]:
    def fits(call: Call) -> bool:
        return name in (None, call.name) and all(
            key in call.arguments and call.arguments[key] == value for key, value in arguments.items()
        )

    return fits


def _fits_text(text: str, exact: str | None, contains: str | None, matches: str | None) -> bool:
    return (
        (exact is None or text == exact)
        and (contains is None or contains.casefold() in text.casefold())
        and (matches is None or re.search(matches, text) is not None)
    )


def _agent_name(agent: str | type[Agent] | None) -> str | None:
    return agent.__name__ if isinstance(agent, type) else agent


def _shown(what: str, **wanted: object) -> str:
    given = ", ".join(f"{name}={value!r}" for name, value in wanted.items() if value is not None)
    return f"{what} ({given})" if given else what


def _asked(name: str | None, arguments: dict[str, object]) -> str:
    given = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    return "tool call" if name is None else f"tool call {name}({given})"

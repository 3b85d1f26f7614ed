"""The one error tree.

VoiceError
├── ConfigurationError            a wrong option, argument or combination; mend the code
│   ├── CapabilityError           a component lacks a needed capability
│   └── GraphError                a conversation graph with faults, all of them named
├── ProviderError                 a speech, language or realtime provider failed
│   ├── ProviderConnectionError   could not connect, or the connection was lost   (retryable)
│   ├── ProviderTimeoutError      a configured limit ran out                      (not retryable)
│   ├── ProviderStatusError       it answered with an error status
│   ├── ProviderProtocolError     it sent something that its protocol does not allow
│   └── UnvoicedError             a voice sent no audio of a text, and no error
├── SessionError                  a call that the session cannot take now
│   ├── SessionNotStartedError
│   ├── SessionClosedError
│   └── TaskError                 an `AgentTask` ended without a result; it is a ToolError too
├── AudioFileError                an audio file is broken, or of a kind that nothing here reads
├── RoomError                     joining, publishing or media transport failed
│   ├── AvatarError               the avatar that plays the agent's audio is missing, lost or broken
│   └── PreConnectAudioError      the audio that a caller recorded before the agent came is missing or broken
├── WorkerError                   registration or job dispatch failed
├── TraceError                    a file that is no trace, or one that cannot be replayed
├── ReportError                   a file that is no session report
├── StoreError                    a store of session state refused a call, or the session's state is in use
│   ├── StoreUnavailable          the store could not be reached within the limit
│   ├── StoreTypeError            the value at a key is of another type than the call needs
│   └── StoreValueError           a value that is no JSON, or too long
├── PeerError                     another agent did not take a message, or gave no answer
│   ├── PeerUnreachable           no connection within the limit, or the connection was lost
│   ├── PeerTimeout               no answer within the limit
│   └── PeerRejected              it refused the connection or the message, or its handler failed
├── ToolServerError               an MCP server did not start, was lost, or offers a tool that cannot be used
└── ToolError                     raised by tool code: its text is meant for the model
"""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import Literal, overload


class VoiceError(Exception):
    """Base of every error that vivavoce raises on purpose."""


class ConfigurationError(VoiceError, ValueError):
    """An option, argument or combination that can never work."""


class CapabilityError(ConfigurationError):
    """A component lacks a capability that is needed.

    Args:
        provider: The component's name, for example `"espeak"`.
        capability: The needed capability, for example `"can_say"`.
        remedy: The remedy, as a full clause.
    """

    def __init__(self, provider: str, capability: str, remedy: str) -> None:
        super().__init__(f"{provider} lacks the capability {capability!r}: {remedy}")
        self.provider = provider
        self.capability = capability
        self.remedy = remedy


class GraphError(ConfigurationError):
    """A conversation graph has faults.

    Args:
        findings: Every fault, a sentence each.
    """

    def __init__(self, findings: Sequence[str]) -> None:
        super().__init__("the graph cannot be used:\n" + "\n".join(f"- {finding}" for finding in findings))
        self.findings = tuple(findings)


class ProviderError(VoiceError):
    """A provider failed, or the code of a component raised; then that exception is the cause.

    Args:
        message: The failure, without user content or secrets.
        provider: The component's name, for example `"openai"`.
        retryable: Whether the same request may succeed when sent again. Retry and fallback look at nothing else.
    """

    def __init__(self, message: str, *, provider: str, retryable: bool = False) -> None:
        super().__init__(message)
        self.provider = provider
        self.retryable = retryable

    def __str__(self) -> str:
        return f"{self.provider}: {super().__str__()}"


class ProviderConnectionError(ProviderError):
    """No connection to the provider, or a lost one."""

    def __init__(self, message: str, *, provider: str, retryable: bool = True) -> None:
        super().__init__(message, provider=provider, retryable=retryable)


class ProviderTimeoutError(ProviderError):
    """A configured limit ran out while waiting for the provider."""


class ProviderStatusError(ProviderError):
    """The provider answered with an error status.

    Args:
        status: The HTTP (or the provider's own numeric) status.
        retry_after: Seconds that the provider asks to wait before another try, or None.
    """

    def __init__(
        self, message: str, *, provider: str, status: int, retryable: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(message, provider=provider, retryable=retryable)
        self.status = status
        self.retry_after = retry_after


class ProviderProtocolError(ProviderError):
    """The provider sent something that its protocol does not allow."""


class UnvoicedError(ProviderError):
    """A voice has yielded no audio of a text, and no error: the caller has not heard it.

    Args:
        text: The text. It is content, and neither in the message nor in the repr.
        component: The part of the session that was to speak: "tts", or "llm" for a model that answers with speech.
        tries: How often the voice was asked before the text was given up; 0: the text is not given up.
    """

    def __init__(self, text: str, *, provider: str, component: str = "tts", tries: int = 0) -> None:
        voice = "voice" if component == "tts" else "model"
        asked = ", asked twice" if tries > 1 else ""
        unheard = "; the caller did not hear it" if tries else ""
        size = f"{len(text)} character{'s' if len(text) != 1 else ''}"
        super().__init__(f"the {voice} gave no audio for a text of {size}{asked}{unheard}", provider=provider)
        self.text = text
        self.component = component
        self.tries = tries


class SessionError(VoiceError):
    """A call that the session cannot take in its present state."""


class SessionNotStartedError(SessionError):
    """A call that needs a started session."""


class SessionClosedError(SessionError):
    """A call after the session closed; CLOSED is terminal."""


class StageError(SessionError):
    """An agent's own code in a stage of the pipeline raised, or did something that a stage must not; its cause says
    more.

    Args:
        component: The hook: "stt_stage", "llm_stage" or "tts_stage".
    """

    def __init__(self, message: str, *, component: str) -> None:
        super().__init__(f"{component}: {message}")
        self.component = component


class AudioFileError(VoiceError):
    """An audio file that cannot be read."""

    component = "audio"


class RoomError(VoiceError):
    """Joining a room, publishing to it or moving media failed."""


class AvatarError(RoomError):
    """The avatar that plays the agent's audio did not come, has left, or takes no audio.

    Args:
        identity: The avatar's.
        outcome: What became of the speech: the agent's own track plays it, or the session ends.
    """

    def __init__(self, message: str, *, identity: str, outcome: Literal["own_audio", "closed"]) -> None:
        super().__init__(message)
        self.identity = identity
        self.outcome = outcome


PreConnectOutcome = Literal[
    "missing", "late", "second", "other_track", "malformed", "unreadable", "too_long", "incomplete", "too_old"
]
"""What is the matter with the audio that a caller's client recorded before the agent came."""


class PreConnectAudioError(RoomError):
    """The audio that a caller's client recorded before the agent came is missing, in part or whole.

    Args:
        identity: The caller's.
        outcome: `missing` (announced, and not sent within the limit), `incomplete` (the sending broke off: the part
            that came is heard), `too_long` (its end is heard), or why none of it is heard: `late` (live audio was heard
            before it), `second` (of the same track), `other_track` (not of the microphone that is heard), `malformed`
            (its description or its data), `unreadable` (no decoder for its kind), `too_old`.
    """

    def __init__(self, message: str, *, identity: str, outcome: PreConnectOutcome) -> None:
        super().__init__(message)
        self.identity = identity
        self.outcome = outcome


class WorkerError(VoiceError):
    """Registering a worker or running a job failed."""


class TraceError(VoiceError):
    """A recorded conversation cannot be read or replayed."""


class ReportError(VoiceError):
    """A session report cannot be read."""


class StoreError(VoiceError):
    """A store of session state refused a call, or another process has the session."""


class StoreUnavailable(StoreError):  # noqa: N818 - the name of the interface that applications know
    """The store could not be reached within the limit. Whether a write was made is not known."""


class StoreTypeError(StoreError, TypeError):
    """The value at a key is of another type than the call needs."""


class StoreValueError(StoreError, ValueError):
    """A value that is no JSON, or too long."""


class PeerError(VoiceError):
    """Another agent did not take a message, or gave no answer."""


class PeerUnreachable(PeerError):  # noqa: N818 - the name of the interface that applications know
    """There is no connection to the other agent, or it was lost: whether the message was taken is not known."""


class PeerTimeout(PeerError):  # noqa: N818 - as above
    """The other agent gave no answer within the limit."""


class PeerRejected(PeerError):  # noqa: N818 - as above
    """The other agent refused the connection or the message, or its handler failed."""


class ToolServerError(VoiceError):
    """A server of tools did not start, was lost, or offers a tool that cannot be used.

    Args:
        message: The failure, without secrets.
        server: The server's name.
    """

    def __init__(self, message: str, *, server: str) -> None:
        super().__init__(message)
        self.server = server

    def __str__(self) -> str:
        return f"MCP server {self.server!r}: {super().__str__()}"


class ToolError(VoiceError):
    """Raised by tool code to report a failure to the model, which receives its text unchanged."""


class TaskError(SessionError, ToolError):
    """An `AgentTask` ended without a result. In a tool that does not catch it, the model receives its text.

    Args:
        task: The task's id.
        outcome: `declined`, `failed`, `out_of_time`, `out_of_turns`, `cancelled`, `replaced` or `closed`; the meanings:
            `vivavoce.agents.tasks.task`.
        reason: The reason for it; may hold the caller's words.
    """

    def __init__(self, task: str, outcome: str, reason: str = "") -> None:
        super().__init__(f"the task {task!r} ended without a result: {outcome}" + (f" ({reason})" if reason else ""))
        self.task = task
        self.outcome = outcome
        self.reason = reason


def describe(error: BaseException, *, quotes_foreign: bool = False) -> str:
    """Return a text of `error` without content: its kind, and its message only if it is ours (`is_tellable`).

    Of a group, its leaves are described.

    Args:
        quotes_foreign: Whether to add a foreign error's text too, where it cannot hold a conversation.
    """
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(describe(leaf, quotes_foreign=quotes_foreign) for leaf in error.exceptions)
    kind, text = type(error).__name__, whole_text(error) if quotes_foreign else text_of(error)
    return f"{kind}: {text}" if text and (quotes_foreign or is_tellable(error)) else kind


def whole_text(error: BaseException) -> str:
    """Return the text of `error`, and of the foreign error that caused a ProviderError; it may hold content."""
    text, cause = text_of(error), error.__cause__
    if not isinstance(error, ProviderError) or cause is None or isinstance(cause, VoiceError):
        return text
    return f"{text}: {text_of(cause)}" if text_of(cause) else text


def text_of(error: BaseException) -> str:
    """Return the text of `error`, whose class may be the application's; it never raises."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the application's own __str__, where another error is being reported
        return "(its str() raises)"


def is_tellable(error: BaseException) -> bool:
    """Whether the text of `error` holds no content.

    Foreign errors may quote the user's words, or a secret; the model receives the text of a `ToolError`.
    """
    return isinstance(error, VoiceError) and not isinstance(error, ToolError)


def located(error: BaseException) -> str:
    """Return `describe(error)` and the line that raised it: the last one in code that is neither ours nor installed.

    If the error has no such line, its causes are searched. For logs of exceptions of user code; the whole traceback,
    which may quote content, is logged at DEBUG.
    """
    first = first_error(error)
    frames = list(traceback.walk_tb(first.__traceback__))
    if not frames:
        return describe(error)
    frame, line = _own_place(first) or frames[-1]
    place = f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_name}"
    return f"{describe(error)} (at {place}; LOG_LEVEL=DEBUG shows all)"


def _own_place(error: BaseException) -> tuple[FrameType, int] | None:
    """Return the last line of `error`, or else of its cause, that is in the application's code."""
    cause: BaseException | None = error
    seen: list[BaseException] = []
    while cause is not None and cause not in seen:  # a group may be the cause of an error that is in it
        seen.append(cause)
        theirs = [place for place in traceback.walk_tb(cause.__traceback__) if not _is_library(place[0])]
        if theirs:
            return theirs[-1]
        cause = None if cause.__cause__ is None else first_error(cause.__cause__)
    return None


def own_traceback(error: BaseException) -> str:
    """Return the traceback of `error` as Python writes it, without the lines in our code and in installed code.

    For the author of the code that raised; it holds the error's text. If no line is the author's, all lines stay.
    """
    report = traceback.TracebackException.from_exception(error)
    _keep_own_lines(report, error)
    return "".join(report.format()).rstrip()


def _keep_own_lines(report: traceback.TracebackException, error: BaseException) -> None:
    own = [not _is_library(frame) for frame, _ in traceback.walk_tb(error.__traceback__)]
    if any(own) and len(own) == len(report.stack):
        report.stack = traceback.StackSummary.from_list(
            [line for line, is_own in zip(report.stack, own, strict=True) if is_own]
        )
    for part, raised in ((report.__cause__, error.__cause__), (report.__context__, error.__context__)):
        if part is not None and raised is not None:
            _keep_own_lines(part, raised)
    leaves = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    for part, raised in zip(report.exceptions or (), leaves, strict=False):
        _keep_own_lines(part, raised)


def _is_library(frame: FrameType) -> bool:
    path = frame.f_code.co_filename
    is_ours = frame.f_globals.get("__name__", "").startswith("vivavoce.")
    return is_ours or "site-packages" in path or path.startswith((_STANDARD_LIBRARY, "<"))


_STANDARD_LIBRARY = os.path.dirname(os.__file__) + os.sep


@overload
def first_error(error: Exception) -> Exception: ...
@overload
def first_error(error: BaseException) -> BaseException: ...
def first_error(error: BaseException) -> BaseException:
    """Return the first plain exception inside nested groups; any other error unchanged."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


_OF_TESTS = ("_pytest.", "vivavoce.pipelines.testing.")


def ends_test(error: BaseException) -> bool:
    """Return whether an error ends a test, alone or in a group: no boundary may contain it.

    Such are `pytest.fail()`, and limits that a signal raises in the code that runs: that of pytest-timeout, and
    `LoopHeldError`.
    """
    if isinstance(error, BaseExceptionGroup):
        return any(map(ends_test, error.exceptions))
    return not isinstance(error, Exception) and any(kind.__module__.startswith(_OF_TESTS) for kind in type(error).mro())


def contained(error: BaseException, what: str, kind: type[Exception] = SessionError) -> Exception:
    """Return the error of foreign code as an exception: itself, or a new one of that kind that names the code.

    Args:
        what: The code.
    Raises:
        BaseException: `error`, if it ends a test.
    """
    if isinstance(error, Exception):
        return error
    if ends_test(error):
        raise error
    made = kind(f"{what} ended with {type(first_error(error)).__name__}").with_traceback(error.__traceback__)
    made.__cause__ = error
    return made

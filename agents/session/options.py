"""SessionOptions: everything that may be set about a session besides its agent and its pipeline. Times in seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from vivavoce.agents.audio.recording.options import RecordingOptions
from vivavoce.agents.budget.options import BudgetOptions
from vivavoce.agents.core.session_files import report_file
from vivavoce.agents.dialogues.options import DialogueOptions
from vivavoce.agents.extension.extension import Extension
from vivavoce.agents.extension.keys import check_extensions
from vivavoce.agents.graphs.options import GraphOptions
from vivavoce.agents.guard.content_guard import ContentGuard
from vivavoce.agents.knowledge.options import KnowledgeOptions
from vivavoce.agents.memory.options import MemoryOptions, UnusedMemory
from vivavoce.agents.memory.stores.store import CALLS
from vivavoce.agents.peers.options import PeerOptions
from vivavoce.agents.speech.limits import SpeechLimits
from vivavoce.agents.telemetry.options import TelemetryOptions
from vivavoce.agents.telemetry.telemetry import Telemetry
from vivavoce.agents.telephony.options import TelephonyOptions
from vivavoce.agents.turn.options import EndpointingOptions, InterruptionOptions
from vivavoce.pipelines.core.checks import (
    check_flag,
    check_instance,
    check_items,
    check_name,
    check_number,
    check_text,
    check_whole,
    shown,
)
from vivavoce.pipelines.core.clock import Clock, LoopClock
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.old_names import old_arguments
from vivavoce.pipelines.llm.context_window import ContextPolicy

_PARTS = {"endpointing": EndpointingOptions, "interruption": InterruptionOptions, "speech": SpeechLimits}
_EXTENSIONS: dict[str, type[Extension]] = {
    "memory": MemoryOptions,
    "budget": BudgetOptions,
    "graph": GraphOptions,
    "dialogues": DialogueOptions,
    "knowledge": KnowledgeOptions,
    "peers": PeerOptions,
    "telephony": TelephonyOptions,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchOptions:
    """Telemetry, recording, trace and report of a session; part of its options."""

    telemetry: TelemetryOptions | Telemetry | None = None
    """Where traces and metrics go. A `Telemetry` is shared, and its maker closes it; None: the worker's in its
    jobs, else where the standard `OTEL_EXPORTER_OTLP_ENDPOINT` says, else nowhere."""
    capture_content: bool = False
    """Whether turn records, reports, logs and traces may hold content: spoken and generated words, instructions,
    arguments and results of tools."""
    recording: RecordingOptions | None = None
    """Record the call, and its format; None: only on `session.recording.start()`."""
    trace_path: str | Path | None = None
    """Path of a trace of the turn machine and of the conversation graph, for `vivavoce replay`; it holds the user's
    words. None: `VIVAVOCE_TRACE`; "": none. Names of the files: `vivavoce.agents.core.session_files`."""
    report_path: str | Path | None = None
    """Path of a session's report, written when it has closed: a folder, or a name in .json or .html (the page). None:
    `VIVAVOCE_REPORT`; "": none. Names of the files: `vivavoce.agents.core.session_files`."""

    def __post_init__(self) -> None:
        if self.telemetry is not None and not isinstance(self.telemetry, TelemetryOptions | Telemetry):
            raise ConfigurationError(
                f"telemetry must be TelemetryOptions(…) or Telemetry(…), got {shown(self.telemetry)}"
            )
        check_flag("capture_content", self.capture_content)
        for name in ("trace_path", "report_path"):
            given = getattr(self, name)
            if given is not None and not isinstance(given, str | Path):
                raise ConfigurationError(f"{name} must be a str, a Path or None, got {shown(given)}")
        report_file(self.report_path, "session")


@old_arguments(
    dialogue="SessionOptions(graph=GraphOptions(…), dialogues=DialogueOptions(…))",
    history_sink="SessionOptions(memory=MemoryOptions(store=…))",
)
@dataclass(frozen=True, slots=True, kw_only=True)
class SessionOptions(WatchOptions):
    """The behaviour of a session.

    Each option: docs/options.md.
    """

    endpointing: EndpointingOptions = field(default_factory=EndpointingOptions)
    """When a pause ends the user's turn."""
    interruption: InterruptionOptions = field(default_factory=InterruptionOptions)
    """When the user's speech takes the floor from the agent."""
    speech: SpeechLimits = field(default_factory=SpeechLimits)
    """How long an answer waits for its providers and hooks."""
    key_terms: Sequence[str] = ()
    """Names, products and other rare words that the caller may say; recognisers with the capability `takes_key_terms`
    expect them, beside the terms of their own options. For others, a warning is logged."""
    preemptive: bool = True
    """Begin to answer words that are probably all before the turn is over: on stable words, or at the eager end of a
    recogniser that judges turns. At most three a turn, used if nothing differs. Mode `manual`: finals in a silence."""
    preemptive_tts: bool = False
    """Let the voice speak such an answer ahead too, unheard."""
    tool_timeout: float = 30.0
    """Seconds for a call of a tool without a timeout of its own; then it has failed, and the model gets that result."""
    away_after: float | None = 15.0
    """Seconds of silence after which the user counts as away; None: never."""
    callback_timeout: float = 10.0
    """Seconds for one run of an async event handler, and of `on_wake_up`, where only time without speech counts."""
    start_step: float = 15.0
    """Seconds for each step of start, except `on_enter`."""
    close_timeout: float = 5.0
    """Seconds for all steps of close together."""
    max_errors: int = 3
    """Turns that fail in a row until the session closes with reason `error`."""
    apology: str = field(default="", repr=False)
    """The agent's words before that close, or before the close when no recogniser or model is left, within
    `close_timeout`, unless the voice has failed too; "" for nothing."""
    guard: ContentGuard | None = None
    """Judges each sentence of the agent before it is spoken, and each turn of the caller before the model gets it."""
    context_window: ContextPolicy | None = None
    """Chooses the part of the conversation for each model step, for example `ContextWindow(max_items=40)`; None: all of
    it. Any function of a `ChatContext` will do; running calls and the message that is answered are always sent."""
    memory: MemoryOptions | None = None
    """Where `session.memory` and the conversation are kept, for how long, and whose they are; None: in this process,
    and only if it is used."""
    budget: BudgetOptions | None = None
    """Limits for cost, accuracy and latency of the call, and their effects. None: there are none, and none can be set
    during the call; `BudgetOptions()` begins without limits."""
    graph: GraphOptions | None = None
    """The conversation graph that the call follows; None: no graph."""
    dialogues: DialogueOptions | None = None
    """The dialogues of the session's agent with other agents; None: no dialogue."""
    knowledge: KnowledgeOptions | None = None
    """The documents from which the call's questions are answered; None: none."""
    peers: PeerOptions | None = None
    """Messages to and from agents in other processes; None: no peers."""
    telephony: TelephonyOptions | None = None
    """The telephone of the call (`session.telephony`): keys, calls and transfers; None: there is none."""
    extensions: Sequence[Extension] = ()
    """Extensions of the application, one of each `key`; `session.extension(Kind)` has what each of them offers."""
    clock: Clock = field(default_factory=LoopClock, repr=False, compare=False)
    """Time; virtual in tests."""

    def __post_init__(self) -> None:
        WatchOptions.__post_init__(self)
        for name, kind in _PARTS.items():
            check_instance(name, getattr(self, name), kind)
        for name, kind in {**_EXTENSIONS, "guard": ContentGuard, "recording": RecordingOptions}.items():
            check_instance(name, getattr(self, name), kind, or_none=True)
        check_extensions(self.extensions, tuple(_EXTENSIONS.values()))
        if self.context_window is not None and not callable(self.context_window):
            raise ConfigurationError(
                "context_window must be ContextWindow(…) or a function of a ChatContext, got "
                f"{shown(self.context_window)}"
            )
        terms = check_items("key_terms", self.key_terms, str, remedy="such as ['Vivavoce', 'Dr. Öztürk']")
        if not all(map(str.strip, terms)):
            raise ConfigurationError(f"key_terms need words, got {shown(terms)}; leave empty ones out")
        object.__setattr__(self, "key_terms", terms)
        for name in ("preemptive", "preemptive_tts"):
            check_flag(name, getattr(self, name))
        for name in ("tool_timeout", "callback_timeout", "start_step", "close_timeout"):
            check_number(name, getattr(self, name), above=0, unit="s")
        check_number("away_after", self.away_after, above=0, unit="s", or_none=True)
        check_whole("max_errors", self.max_errors, at_least=1)
        check_text("apology", self.apology)
        if isinstance(self.clock, type) or not hasattr(self.clock, "now"):
            raise ConfigurationError(f"clock must be a Clock, got {shown(self.clock)}; for example LoopClock()")


def checked_options(options: SessionOptions | None, session_id: str | None) -> SessionOptions:
    """Return the options of a session, after a check of the options and the id that it is given.

    Raises:
        ConfigurationError: `options` are none, or `session_id` is no name, or the one of running calls.
    """
    check_instance("options", options, SessionOptions, or_none=True)
    check_name("id", session_id)
    if session_id == CALLS:
        raise ConfigurationError(f"need another id, got {CALLS!r}: running calls are kept under it")
    return options or SessionOptions()


def extensions_of(options: SessionOptions) -> list[Extension]:
    """Return the extensions of a session, in their order."""
    own = (
        options.memory or UnusedMemory(),
        options.budget,
        options.graph,
        options.dialogues,
        options.knowledge,
        options.peers,
        options.telephony,
    )
    return [*(one for one in own if one is not None), *options.extensions]

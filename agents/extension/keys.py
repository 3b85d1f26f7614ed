"""The keys of extensions, which name them beside the parts of a session itself."""

from __future__ import annotations

from collections.abc import Sequence

from vivavoce.agents.extension.extension import Extension
from vivavoce.pipelines.core.checks import check_items, shown
from vivavoce.pipelines.core.errors import ConfigurationError

SOURCES = (
    "llm tts stt vad denoise turn_detector realtime_model text tool handler hook policy room avatar turn checkpoint "
    "flow guard mcp recording background context context_window observer stt_stage on_wake_up "
    "on_empty_reply on_stream form"
)
"""The sources of `error` events which are no extensions."""
STEPS = (
    "mcp,connect,prepare,pipeline,room audio,take over,on_enter,input,wake-up,speech,tools,apology,on_exit,"
    "conversation_flow.cleanup,background audio,agent cleanup,handlers,history,recording,leave room,decision loop"
)
"""The steps of the start and the close."""
STAGES = (
    "vad_silence server_vad_silence server_end_of_turn transcript_wait end_of_turn_decision endpointing_wait hook "
    "guard retrieval queue model_first_token server_first_output flow_first_text first_sentence tts_first_byte handoff "
    "tools playout unattributed"
)
"""The stages of a turn."""
RESERVED = frozenset((*SOURCES.split(), *STEPS.split(","), *STAGES.split()))
BUILT_IN = frozenset(("memory", "budget", "graph", "dialogues", "knowledge", "peers", "telephony"))
"""The keys of the extensions with options of their own in `SessionOptions`."""


def check_extensions(extensions: Sequence[Extension], built_in: Sequence[type[Extension]]) -> None:
    """Check the extensions of an application.

    Args:
        built_in: The extensions with options of their own, which may be given among the others too.
    Raises:
        ConfigurationError: One is of another kind, or its key is no text, or that of a part of the session.
    """
    check_items("extensions", extensions, Extension)
    for extension in extensions:
        name, key = type(extension).__name__, getattr(extension, "key", None)
        if not isinstance(key, str) or not key.strip():
            raise ConfigurationError(f'{name}.key must be a text, got {shown(key)}; for example key = "orders"')
        owner = next((kind for kind in built_in if kind.key == key), None)
        if key in RESERVED or (owner is not None and not isinstance(extension, owner)):
            raise ConfigurationError(
                f"{name}.key must be a name of its own, got {key!r}, which is a part of each session; choose another "
                "one, such as the name of your application's part"
            )

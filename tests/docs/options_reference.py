"""docs/options.md, made from the options classes: `make reference` writes it, a test fails if it is out of date.

The docstring below an option in the source explains it.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

from vivavoce.pipelines.core.field_docs import POINTER, fields_in_source

TARGET = Path(__file__).parents[2] / "docs" / "options.md"

HEADER = """# Options

Every options class of vivavoce: each option with its type, its default and its meaning. All are keyword arguments, all
times are seconds, and a wrong value is refused at once. Made from the source by `make reference`.
"""

CHAPTERS: dict[str, tuple[str, ...]] = {
    "A session": (
        "vivavoce.agents.SessionOptions",
        "vivavoce.agents.EndpointingOptions",
        "vivavoce.agents.InterruptionOptions",
        "vivavoce.agents.WakeUp",
        "vivavoce.agents.SpeechLimits",
        "vivavoce.agents.RecordingOptions",
        "vivavoce.agents.telemetry.TelemetryOptions",
        "vivavoce.agents.RoomOptions",
        "vivavoce.agents.VideoInputOptions",
        "vivavoce.agents.transports.FileInputOptions",
        "vivavoce.agents.transports.AvatarOptions",
        "vivavoce.agents.MemoryOptions",
        "vivavoce.agents.budget.BudgetOptions",
        "vivavoce.agents.budget.Price",
        "vivavoce.agents.graphs.GraphOptions",
        "vivavoce.agents.dialogues.DialogueOptions",
        "vivavoce.agents.knowledge.KnowledgeOptions",
        "vivavoce.agents.peers.PeerOptions",
        "vivavoce.agents.telephony.TelephonyOptions",
        "vivavoce.agents.telephony.KeyEntry",
        "vivavoce.agents.telephony.MachineDetection",
        "vivavoce.agents.ContextWindow",
        "vivavoce.agents.tasks.TaskOptions",
        "vivavoce.agents.ContentGuard",
    ),
    "A worker": (
        "vivavoce.agents.WorkerOptions",
        "vivavoce.agents.ProcessExecution",
        "vivavoce.agents.TaskExecution",
        "vivavoce.agents.CrashSafety",
    ),
    "Pipelines": (
        "vivavoce.pipelines.CascadingOptions",
        "vivavoce.pipelines.RealtimeOptions",
        "vivavoce.pipelines.FallbackSTTOptions",
        "vivavoce.pipelines.FallbackLLMOptions",
        "vivavoce.pipelines.FallbackTTSOptions",
        "vivavoce.pipelines.tts.sentences.SentenceOptions",
        "vivavoce.pipelines.vad.base.VADOptions",
        "vivavoce.pipelines.core.retry.RetryOptions",
    ),
    "Plugins": (
        "vivavoce.plugins.openai.LLMOptions",
        "vivavoce.plugins.openai.STTOptions",
        "vivavoce.plugins.openai.TTSOptions",
        "vivavoce.plugins.openai.RealtimeOptions",
        "vivavoce.plugins.openai.ConnectionOptions",
        "vivavoce.plugins.anthropic.LLMOptions",
        "vivavoce.plugins.deepgram.STTOptions",
        "vivavoce.plugins.deepgram.FluxOptions",
        "vivavoce.plugins.deepgram.TTSOptions",
        "vivavoce.plugins.deepgram.FluxTTSOptions",
        "vivavoce.plugins.deepgram.ConnectionOptions",
        "vivavoce.plugins.assemblyai.STTOptions",
        "vivavoce.plugins.assemblyai.ConnectionOptions",
        "vivavoce.plugins.google.LLMOptions",
        "vivavoce.plugins.google.RealtimeOptions",
        "vivavoce.plugins.cartesia.STTOptions",
        "vivavoce.plugins.cartesia.TTSOptions",
        "vivavoce.plugins.cartesia.ConnectionOptions",
        "vivavoce.plugins.azure.STTOptions",
        "vivavoce.plugins.azure.TTSOptions",
        "vivavoce.plugins.azure.ConnectionOptions",
        "vivavoce.plugins.elevenlabs.STTOptions",
        "vivavoce.plugins.elevenlabs.TTSOptions",
        "vivavoce.plugins.elevenlabs.ConnectionOptions",
        "vivavoce.plugins.moonshine.STTOptions",
        "vivavoce.plugins.faster_whisper.STTOptions",
        "vivavoce.plugins.pocketsphinx.STTOptions",
        "vivavoce.plugins.espeak.TTSOptions",
        "vivavoce.plugins.apm.DenoiseOptions",
    ),
}


@dataclasses.dataclass(frozen=True)
class Option:
    """One option, in the words of the source."""

    name: str
    type: str
    default: str
    text: str


def load(path: str) -> type:
    """Return the class of a public name."""
    module, _, name = path.rpartition(".")
    found = getattr(import_module(module), name)
    assert isinstance(found, type)
    return found


def options_of(cls: type) -> Iterator[Option]:
    """Yield the options of a class, its own before those it inherits."""
    statements = fields_in_source(cls)
    fields = dataclasses.fields(cls)
    for field in sorted(fields, key=lambda each: each.name not in cls.__annotations__):
        if field.init:
            statement, text = statements[field.name]
            yield Option(field.name, ast.unparse(statement.annotation), _default(field, statement.value), text)


def _default(field: dataclasses.Field[object], written: ast.expr | None) -> str:
    """Return a number or a named text by value, a made default by its expression; "" if there is none."""
    if isinstance(field.default, str | int | float | None):
        return repr(field.default)
    if isinstance(written, ast.Call) and getattr(written.func, "id", "") == "field":
        given = {keyword.arg: keyword.value for keyword in written.keywords}
        factory = given.get("default_factory")
        if factory is not None:
            made = factory.body if isinstance(factory, ast.Lambda) else ast.Call(factory, [], [])
            return "{}" if ast.unparse(made) == "dict()" else ast.unparse(made)
        written = given.get("default")
    return "" if written is None else ast.unparse(written)


def render() -> str:
    """Return the whole reference."""
    index = [
        f"- {chapter}: " + ", ".join(f"[{_title(path)}](#{_anchor(path)})" for path in paths)
        for chapter, paths in CHAPTERS.items()
    ]
    parts = [HEADER, "\n".join(index) + "\n"]
    for chapter, paths in CHAPTERS.items():
        parts.append(f"## {chapter}\n")
        parts += [_section(path) for path in paths]
    return "\n".join(parts)


def _section(path: str) -> str:
    cls = load(path)
    module, _, name = path.rpartition(".")
    about = inspect.cleandoc((cls.__doc__ or "").partition(POINTER)[0]).rstrip()
    rows = [("option", "type", "default", "meaning"), ("---",) * 4]
    for each in options_of(cls):
        default = code(each.default) if each.default else "needed"
        rows.append((code(each.name), code(each.type), default, cell(each.text)))
    table = "\n".join(f"| {' | '.join(row)} |" for row in rows)
    return f"### {_title(path)}\n\n`from {module} import {name}`\n\n{about}\n\n{table}\n"


def _title(path: str) -> str:
    """Return the class's name, with its plugin's where several have one of that name."""
    parts = path.split(".")
    return f"{parts[-2]}.{parts[-1]}" if parts[1] == "plugins" else parts[-1]


def _anchor(path: str) -> str:
    return re.sub(r"[^\w-]", "", _title(path).lower())


def code(text: str) -> str:
    return f"`{cell(text)}`"


def cell(text: str) -> str:
    return text.replace("|", r"\|")


if __name__ == "__main__":
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(render(), encoding="utf-8")
    print(f"wrote {TARGET}")

"""docs/providers.md, made from the plugins' facts: `make reference` writes it, a test fails if it is out of date."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from docs.events_reference import explained
from docs.options_reference import cell, code

from vivavoce.agents.cli.catalogue.abilities import words_of
from vivavoce.agents.cli.catalogue.providers import Listed, capabilities_of, find_plugins
from vivavoce.agents.cli.catalogue.view import KINDS, parts_of
from vivavoce.pipelines.about import Kind, Part
from vivavoce.pipelines.core.model_files import FOLDER_VARIABLE
from vivavoce.pipelines.denoise.base import DenoiseCapabilities
from vivavoce.pipelines.llm.base import LLMCapabilities
from vivavoce.pipelines.realtime_model.base import RealtimeCapabilities
from vivavoce.pipelines.stt.base import STTCapabilities
from vivavoce.pipelines.tts.base import TTSCapabilities
from vivavoce.pipelines.turn_detector.base import TurnDetectorCapabilities
from vivavoce.pipelines.vad.base import VADCapabilities

TARGET = Path(__file__).parents[2] / "docs" / "providers.md"

HEADER = """# Providers

The plugins of vivavoce, and what each can do. `vivavoce plugins` shows the same for your machine: what is installed,
and which keys are set. `vivavoce doctor` asks each vendor whose key is set whether the key works. Tests without a key
use a *twin*, a server on loopback that speaks the vendor's protocol: [twins](twins.md). All options:
[options](options.md). A provider of your own: [CONTRIBUTING](../CONTRIBUTING.md#adding-a-plugin). Made from the source
by `make reference`.

```sh
pip install 'vivavoce[deepgram,anthropic,cartesia,silero,room]'    # from a checkout: '/path/to/vivavoce[…]'
```

```python
from vivavoce.pipelines import CascadingPipeline
from vivavoce.plugins import anthropic, cartesia, deepgram, silero

pipeline = CascadingPipeline(vad=silero.VAD(), stt=deepgram.STT(), llm=anthropic.LLM(), tts=cartesia.TTS())
```

A key comes from the argument `api_key`, else from the environment, or from a file `.env` of the folder where you run
`vivavoce`. A key of the environment goes to the vendor's hosts, Anthropic's and Google's also to the server in
`ANTHROPIC_BASE_URL`, `GOOGLE_GEMINI_BASE_URL` or `GOOGLE_VERTEX_BASE_URL`, and nowhere else: with a `base_url` of
another host give `api_key` too. `room` is for `vivavoce dev`.
"""

CAPABILITIES: Mapping[Kind, type] = {
    "stt": STTCapabilities,
    "llm": LLMCapabilities,
    "tts": TTSCapabilities,
    "realtime": RealtimeCapabilities,
    "vad": VADCapabilities,
    "turn_detector": TurnDetectorCapabilities,
    "denoise": DenoiseCapabilities,
}


def render() -> str:
    """Return the whole page."""
    listed, unreadable = find_plugins()
    assert not unreadable, unreadable
    blocks = [HEADER]
    for kind, title in KINDS.items():
        blocks.append(f"## {title}\n\n{_of_kind(kind, list(parts_of(listed, kind)))}")
    blocks.append("## Keys and extras\n\n" + _keys(listed))
    lists = [block for each in listed if (block := _lists(each))]
    blocks.append(
        "## Models, languages and voices\n\nThose that the plugins know. The vendors may have others, and decide.\n"
    )
    return "\n".join([*blocks, *lists])


def _of_kind(kind: Kind, parts: list[tuple[Listed, Part]]) -> str:
    found = {part.expression: capabilities_of(each.provider, part) for each, part in parts}
    names = [name for name in _flags(kind) if any(able.get(name) for able in found.values())]
    rows: list[tuple[str, ...]] = [("component", *map(words_of, names), "note")]
    for each, part in parts:
        marks = tuple(_mark(found[part.expression], name) for name in names)
        rows.append((code(part.expression), *marks, cell(" ".join(filter(None, (part.note, each.provider.note))))))
    meaning = explained(CAPABILITIES[kind]) if kind in CAPABILITIES else {}
    legend = [f"- *{words_of(name)}* (`{name}`): {meaning[name]}\n" for name in names]
    return _table(rows) + ("\n" + "".join(legend) if legend else "")


def _flags(kind: Kind) -> list[str]:
    """Return the capabilities of a kind that are true or false."""
    cls: Any = CAPABILITIES.get(kind)
    return [field.name for field in dataclasses.fields(cls) if field.type in (bool, "bool")] if cls else []


def _mark(capabilities: Mapping[str, Any], name: str) -> str:
    return "?" if not capabilities else "✓" if capabilities.get(name) else ""


def _keys(listed: Iterable[Listed]) -> str:
    rows: list[tuple[str, ...]] = [("provider", "install", "variables", "a key", "without a key")]
    for each in listed:
        provider = each.provider
        title = f"[{provider.title}]({provider.docs})" if provider.docs else provider.title
        install = f"vivavoce[{each.extra}]" if each.extra else "vivavoce"
        variables = " or ".join(map(code, provider.keys)) + "".join(f", {code(name)}" for name in provider.settings)
        key = f"<{provider.get_key}>" if provider.get_key else ""
        twin = f"[{code(each.twin)}](twins.md)" if each.twin else ""
        rows.append((title, code(install), variables or "none", key, twin))
    return _table(rows)


def _lists(each: Listed) -> str:
    lines = [line for part in each.provider.parts for line in _of_part(part)]
    return f"### {each.provider.title}\n\n" + "".join(f"- {line}\n" for line in lines) if lines else ""


def _of_part(part: Part) -> Iterator[str]:
    for what, values in (("models", part.models), ("languages", part.languages), ("voices", part.voices)):
        names = ", ".join(map(code, values))
        if names:
            yield f"{code(part.expression)}, {what}: {names}"


def _table(rows: list[tuple[str, ...]]) -> str:
    head, *body = rows
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ("---",) * len(head), *body))


if __name__ == "__main__":
    os.environ[FOLDER_VARIABLE] = os.devnull  # the page is the same on each machine
    TARGET.write_text(render(), encoding="utf-8")
    print(f"wrote {TARGET}")

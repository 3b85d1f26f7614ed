"""The catalogue as people and as programs read it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from vivavoce.agents.cli.catalogue.abilities import abilities
from vivavoce.agents.cli.catalogue.providers import Listed, Unreadable, capabilities_of
from vivavoce.pipelines.about import Kind, Part

KINDS: Mapping[Kind, str] = {
    "stt": "Recognisers",
    "llm": "Language models",
    "tts": "Voices",
    "realtime": "Speech to speech",
    "vad": "Voice activity",
    "turn_detector": "Turn detectors",
    "denoise": "Denoisers",
    "text_filter": "Text filters",
    "embedder": "Embedders",
}

CODE_WIDTH = 36
"""Characters of the code in a line."""

READY, NO_KEY, ABSENT = (("✓", "green"), ("○", "yellow"), ("–", "dim"))


def parts_of(listed: Sequence[Listed], kind: Kind) -> Iterator[tuple[Listed, Part]]:
    """Yield the parts of a kind, by provider."""
    return ((each, part) for each in listed for part in each.provider.parts if part.kind == kind)


def as_page(listed: Sequence[Listed], unreadable: Sequence[Unreadable], environment: Mapping[str, str]) -> Group:
    """Return the catalogue for people: the parts by kind, the keys, and the command that installs the rest."""
    blocks: list[Table | Text] = []
    longest = max((len(part.expression) for each in listed for part in each.provider.parts), default=0)
    width = min(longest, CODE_WIDTH)
    for kind, title in KINDS.items():
        rows = list(parts_of(listed, kind))
        if rows:
            blocks += [Text(f"{title} ({kind})", "bold"), _parts(rows, environment, width), Text()]
    blocks += _keys(listed, environment)
    extras = sorted({each.extra for each in listed if each.missing})
    if extras:
        command = f"  pip install 'vivavoce[{','.join(extras)}]'"
        whole = Text(command, no_wrap=True, overflow="ignore")  # a terminal's own break is not copied
        blocks += [Text("Install the rest", "bold"), whole, Text()]
    for plugin in unreadable:
        blocks.append(Text(f"✗ vivavoce.plugins.{plugin.plugin}: {plugin.reason}", "bold red"))
    blocks.append(Text("✓ ready   ○ needs a key   – not installed      vivavoce doctor tries the keys", "dim"))
    return Group(*blocks)


def _parts(rows: Sequence[tuple[Listed, Part]], environment: Mapping[str, str], width: int) -> Table:
    table = _grid()
    table.columns[1].width = width
    for each, part in rows:
        mark, style = ABSENT if each.missing else NO_KEY if each.unset(environment) else READY
        able = ", ".join(abilities(capabilities_of(each.provider, part))) or part.note
        able = able or ("known when it is installed" if each.missing else "")
        shade = "dim" if each.missing else ""
        table.add_row(Text(mark, style), Text(part.expression, shade), Text(able, shade))
    return table


def _keys(listed: Sequence[Listed], environment: Mapping[str, str]) -> list[Table | Text]:
    table = _grid()
    for each in listed:
        found = each.set_key(environment)
        if found is not None:
            table.add_row(Text("✓", "green"), Text(found), Text(f"set, for {each.provider.title}"))
        for name in each.unset(environment):
            get = each.provider.get_key if name in each.provider.keys else f"for {each.provider.title}"
            table.add_row(Text("–", "dim"), Text(name), Text(get, "dim"))
    return [Text("Keys, in the environment or in .env", "bold"), table, Text()] if table.rows else []


def _grid() -> Table:
    table = Table.grid(padding=(0, 1))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    return table


def as_json(
    listed: Sequence[Listed], unreadable: Sequence[Unreadable], environment: Mapping[str, str]
) -> dict[str, Any]:
    """Return the catalogue as plain data, without the value of any variable."""
    return {
        "providers": [_provider(each, environment) for each in listed],
        "unreadable": [{"plugin": plugin.plugin, "reason": plugin.reason} for plugin in unreadable],
    }


def _provider(each: Listed, environment: Mapping[str, str]) -> dict[str, Any]:
    provider = each.provider
    return {
        "name": provider.name,
        "title": provider.title,
        "docs": provider.docs,
        "plugin": f"vivavoce.plugins.{each.plugin}",
        "extra": each.extra,
        "missing": list(each.missing),
        "install": each.install,
        "keys": list(provider.keys),
        "settings": list(provider.settings),
        "unset": each.unset(environment),
        "get_key": provider.get_key,
        "twin": each.twin,
        "note": provider.note,
        "parts": [_part(each, part) for part in provider.parts],
    }


def _part(each: Listed, part: Part) -> dict[str, Any]:
    capabilities = capabilities_of(each.provider, part)
    return {
        "kind": part.kind,
        "code": part.expression,
        "capabilities": {
            name: sorted(value) if isinstance(value, frozenset) else value for name, value in capabilities.items()
        },
        "models": list(part.models),
        "languages": list(part.languages),
        "voices": list(part.voices),
        "note": part.note,
    }

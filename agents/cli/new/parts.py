"""Chosen: the recogniser, model and voice of a new project, chosen by name from the facts of the plugins."""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from vivavoce.agents.cli.catalogue.providers import NO_KEY, Listed
from vivavoce.agents.cli.offline import OFFLINE
from vivavoce.pipelines.about import Kind, Part, Provider
from vivavoce.pipelines.core.errors import ConfigurationError

PLACEHOLDER = re.compile(r'(\w+)="…"')
"""In a part's arguments: a model or a voice that it needs, and that its user alone can know."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """A part of the project.

    Args:
        given: What its placeholders stand for, in their order; or, without placeholders, its model. Empty: its own.
    """

    listed: Listed
    part: Part
    given: tuple[str, ...] = ()

    @property
    def code(self) -> str:
        """The code that makes it, such as `deepgram.STT()`."""
        given = [json.dumps(one, ensure_ascii=False) for one in self.given]
        if not given:
            return self.part.expression
        if self.placeholders:
            left = iter(given)
            return PLACEHOLDER.sub(lambda found: f"{found[1]}={next(left)}", self.part.expression)
        arguments = ", ".join(filter(None, (self.part.arguments, f"model={given[0]}")))
        return f"{self.part.package}.{self.part.make.__qualname__}({arguments})"

    @property
    def placeholders(self) -> list[str]:
        """The arguments that only its user can give, such as `model`."""
        return PLACEHOLDER.findall(self.part.arguments)

    @property
    def names(self) -> list[str]:
        """The names that its code uses, beside that of its plugin."""
        found = {node.id for node in ast.walk(ast.parse(self.code)) if isinstance(node, ast.Name)}
        return sorted(found - {self.part.package})


def choose(listed: Sequence[Listed], kind: Kind, wanted: str | None) -> Chosen:
    """Return the part that is wanted.

    Args:
        wanted: `provider`, or `plugin.Class` for another class than the first one of its kind; `=model` or
            `=model,voice` may follow. None: an offline part.
    Raises:
        ConfigurationError: There is none, or its model is missing, or it takes none.
    """
    if wanted is None:
        return _offline(listed, kind)
    name, equals, given = wanted.partition("=")
    for each in listed:
        for part in each.provider.parts:
            title = f"{part.package}.{part.make.__qualname__}"
            if part.kind == kind and name in (each.provider.name, title):
                return _checked(Chosen(each, part, tuple(given.split(",")) if equals else ()), kind, name)
    known = ", ".join(each.provider.name for each in listed if any(part.kind == kind for part in each.provider.parts))
    other = next((each.provider for each in listed if each.provider.name == name), None)
    what = f"{other.title} has none" if other is not None else f"got {name!r}"
    raise ConfigurationError(
        f"--{kind} needs a provider of this kind, {what}; there are: {known} (`vivavoce plugins` shows them)"
    )


def voice_activity(listed: Sequence[Listed]) -> Chosen:
    """Return the part that tells when the caller speaks."""
    return _offline(listed, "vad")


def check_together(chosen: Sequence[Chosen]) -> None:
    """Check that a pipeline takes the parts together. One whose packages are not installed yet is not tried.

    Raises:
        ConfigurationError: It does not.
    """
    from vivavoce.pipelines.cascading import CascadingPipeline

    made: dict[str, Any] = {}
    for one in chosen:
        component = _sample(one.listed.provider, one.part)
        if component is None:
            return
        made[one.part.kind] = component
    try:
        CascadingPipeline(**made)
    except ConfigurationError as error:
        codes = ", ".join(one.code for one in chosen)
        raise ConfigurationError(f"these parts do not go together: {codes}: {error}; choose others") from error


def _sample(provider: Provider, part: Part) -> object:
    key = {"api_key": NO_KEY} if provider.keys else {}
    try:
        return part.make(**part.sample, **key)
    except (ConfigurationError, TypeError):  # its packages, or the file that it needs, are not here
        return None


def _offline(listed: Sequence[Listed], kind: Kind) -> Chosen:
    found = {each.provider.name: each for each in listed}
    there = [found[name] for name in OFFLINE[kind] if name in found]
    if not there:
        raise ConfigurationError(f"no offline plugin of the kind {kind!r} is there; name a provider: --{kind} NAME")
    each = next((one for one in there if not one.missing), there[0])
    return Chosen(each, next(part for part in each.provider.parts if part.kind == kind))


def _checked(chosen: Chosen, kind: Kind, name: str) -> Chosen:
    """Return it, if what was given is what it needs."""
    needed, given, provider = chosen.placeholders, chosen.given, chosen.listed.provider
    if needed and (len(given) != len(needed) or not all(given)):
        wanted = ",".join(map(str.upper, needed))
        where = f"; {provider.title} lists them: {provider.docs}" if provider.docs else ""
        raise ConfigurationError(
            f"{name} needs its {' and '.join(needed)}, got {','.join(given)!r}: --{kind} {name}={wanted}{where}"
        )
    if (
        given
        and not needed
        and (not given[0] or len(given) > 1 or "model" not in inspect.signature(chosen.part.make).parameters)
    ):
        code = chosen.part.expression
        raise ConfigurationError(f"{code} takes no such name, got {','.join(given)!r}: write --{kind} {name}")
    return chosen

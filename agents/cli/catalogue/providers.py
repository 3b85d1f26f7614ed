"""Listed: each plugin's facts (`about.py`), with those of this machine: packages, capabilities, keys."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from vivavoce.agents.cli import extras
from vivavoce.pipelines import about
from vivavoce.pipelines.about import Part, Provider
from vivavoce.pipelines.core.errors import ConfigurationError

NAMESPACE = "vivavoce.plugins"
NO_KEY = "none"
"""The key with which a component is made to read its capabilities; it never connects."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A provider as it is on this machine.

    Args:
        plugin: The folder of its plugin.
        extra: The extra of vivavoce for it, which may need no package; "" without one.
        missing: Packages of the extra that are not installed.
        twin: The module with its server on loopback; "" without one.
    """

    provider: Provider
    plugin: str
    extra: str = ""
    missing: tuple[str, ...] = ()
    twin: str = ""

    @property
    def install(self) -> str:
        """The command that installs what is missing; "" if nothing is."""
        return f"pip install 'vivavoce[{self.extra}]'" if self.missing else ""

    def set_key(self, environment: Mapping[str, str]) -> str | None:
        """Return the variable that has its key; None: none is set."""
        return next((name for name in self.provider.keys if environment.get(name, "").strip()), None)

    def unset(self, environment: Mapping[str, str]) -> list[str]:
        """Return the variables that are still to be set; of several spellings of a key, the recommended one."""
        keys = self.provider.keys[:1] if self.set_key(environment) is None else ()
        return [*keys, *(name for name in self.provider.settings if not environment.get(name, "").strip())]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A plugin whose facts cannot be read."""

    plugin: str
    reason: str


def find_plugins() -> tuple[list[Listed], list[Unreadable]]:
    """Return the providers of all plugins that are there, by name, also of other distributions."""
    listed: list[Listed] = []
    unreadable: list[Unreadable] = []
    packages, named = extras.needs(), extras.names()
    for plugin in plugin_names(_folders()):
        module = f"{NAMESPACE}.{plugin}.about"
        try:
            providers: Iterable[Provider] = import_module(module).PROVIDERS
        except ModuleNotFoundError as error:
            reason = "it has no about.py" if error.name == module else f"about.py needs {error.name}"
            unreadable.append(Unreadable(plugin, reason))
        except Exception as error:  # noqa: BLE001 - a third party's module, which may fail in any way
            unreadable.append(Unreadable(plugin, f"about.py fails: {type(error).__name__}: {error}"))
        else:
            extra = plugin.replace("_", "-")
            missing = tuple(name for name in packages.get(extra, ()) if extras.installed_version(name) is None)
            twin = f"{NAMESPACE}.{plugin}.twin"
            twin = twin if find_spec(twin) is not None else ""
            listed += (Listed(one, plugin, extra if extra in named else "", missing, twin) for one in providers)
    return sorted(listed, key=lambda each: each.provider.name), unreadable


def plugin_names(folders: Iterable[Path]) -> list[str]:
    """Return the names of the packages in these folders."""
    found = {path.parent.name for folder in folders for path in folder.glob("*/__init__.py")}
    return sorted(name for name in found if name.isidentifier())


def _folders() -> Iterator[Path]:
    """Yield the folders in which plugins lie: ours, which stands beside `pipelines`, and those of other distributions.

    The path of the namespace package does not name ours if vivavoce is installed in editable mode.
    """
    yield Path(about.__file__).parents[1] / "plugins"
    for entry in sys.path:
        yield Path(entry, *NAMESPACE.split("."))


def capabilities_of(provider: Provider, part: Part) -> dict[str, Any]:
    """Return the capabilities of a component, by name; empty if it has none, or cannot be made here."""
    key = {"api_key": NO_KEY} if provider.keys else {}
    try:
        component = part.make(**part.sample, **key)
    except (ConfigurationError, TypeError):  # its packages, or the file that it needs, are not here
        return {}
    capabilities = getattr(component, "capabilities", None)
    if not dataclasses.is_dataclass(capabilities) or isinstance(capabilities, type):
        return {}
    return {field.name: getattr(capabilities, field.name) for field in dataclasses.fields(capabilities)}

"""Project: the files of a new agent, filled in and written whole or not at all."""

from __future__ import annotations

import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from string import Template

from vivavoce.agents.cli.new.parts import Chosen
from vivavoce.pipelines.core.errors import ConfigurationError
from vivavoce.pipelines.core.ids import new_id

TEMPLATE = Path(__file__).parent / "template"
FILES = {
    "pyproject.toml": "pyproject.toml",
    "agent.py": "agent.py",
    "test_agent.py": "test_agent.py",
    "call.toml": "call.toml",
    ".env.example": "env.example",
    ".gitignore": "gitignore",
    "Dockerfile": "Dockerfile",
    ".dockerignore": "dockerignore",
    "AGENTS.md": "AGENTS.md",
}
"""The files of a project, each with the name of its template."""
LEGAL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?")
"""A name of a distribution (PEP 508)."""
NEEDED = frozenset({"vivavoce", "mypy", "pytest"})
"""Distributions that a project needs, beside those that vivavoce needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Project:
    """A new project.

    Args:
        name: Name of the distribution and of its folder.
        vad: Tells when the caller speaks.
        version: Version of vivavoce that it needs at least; "": any.
    """

    name: str
    vad: Chosen
    stt: Chosen
    llm: Chosen
    tts: Chosen
    version: str = ""

    @property
    def parts(self) -> tuple[Chosen, ...]:
        """Its parts in the order of a turn."""
        return self.vad, self.stt, self.llm, self.tts

    def files(self) -> dict[str, str]:
        """Return the text of each file, by its path in the project.

        Raises:
            ConfigurationError: A part needs a name that only its users can define.
        """
        values = self._values()
        return {path: _filled(TEMPLATE / f"{name}.tmpl", values) for path, name in FILES.items()}

    def keys(self) -> list[str]:
        """Return the variables of the keys and settings that it cannot do without, each once."""
        return list(dict.fromkeys(name for one in self.parts for name in variables(one)))

    def _values(self) -> dict[str, str]:
        names = sorted({name for one in self.parts for name in one.names})
        extras = sorted({one.listed.extra for one in self.parts} - {""})
        version = f">={self.version}" if self.version else ""
        return {
            "name": self.name,
            "requirement": f"vivavoce[{','.join(extras)}]{version}",
            "plugins": ", ".join(sorted({one.part.package for one in self.parts})),
            "definitions": "".join(f"\n{_definition(name, self.parts)}" for name in names),
            "vad": self.vad.code,
            "stt": self.stt.code,
            "llm": self.llm.code,
            "tts": self.tts.code,
            "env": "".join(dict.fromkeys(map(_env, self.parts))),
        }


def variables(chosen: Chosen) -> tuple[str, ...]:
    """Return the variables of a part's key, in its recommended spelling, and of its settings."""
    provider = chosen.listed.provider
    return (*provider.keys[:1], *provider.settings)


def check_name(name: str) -> None:
    """Check the name of a new project.

    Raises:
        ConfigurationError: It cannot be one, or is taken in the working directory.
    """
    if not LEGAL.fullmatch(name):
        raise ConfigurationError(
            f"needed a name of at most 100 letters, digits, '-', '_' and '.', with a letter or digit at both ends, "
            f"got {name!r}; the project's folder is made in the working directory"
        )
    if (package := _normal(name)) in NEEDED | _needed_by_vivavoce():
        raise ConfigurationError(f"the project needs the package {package!r} and cannot have its name; take another")


def write(files: Mapping[str, str], folder: Path) -> None:
    """Write the files into a folder, which appears with all of them or not at all.

    Raises:
        ConfigurationError: The folder is there already, or cannot be written.
    """
    if folder.is_symlink() or folder.exists():
        raise ConfigurationError(f"{str(folder)!r} is there already; take another name, or remove it")
    unfinished = folder.with_name(f".{new_id('new')}")
    try:
        unfinished.mkdir()
        for path, text in files.items():
            (unfinished / path).write_text(text, encoding="utf-8")
        unfinished.rename(folder)
    except OSError as error:
        raise ConfigurationError(f"cannot write the project {str(folder)!r}: {error.strerror}") from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)  # it is gone if all went well


def _normal(name: str) -> str:
    """Return the name as indexes compare it (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()


def _needed_by_vivavoce() -> set[str]:
    """Return the distributions that vivavoce and its extras need; none, if it runs from sources."""
    try:
        needed = metadata.requires("vivavoce") or ()
    except metadata.PackageNotFoundError:
        return set()
    return {_normal(found[0]) for found in map(LEGAL.match, needed) if found}


def _filled(file: Path, values: Mapping[str, str]) -> str:
    return Template(file.read_text(encoding="utf-8")).substitute(values)


def _env(chosen: Chosen) -> str:
    provider, names = chosen.listed.provider, variables(chosen)
    if not names:
        return ""
    lines = [f"# {provider.title}: {provider.get_key}", *([f"# {provider.note}"] if provider.note else ())]
    return "\n" + "".join(f"{line}\n" for line in (*lines, *(f"{name}=" for name in names)))


def _definition(name: str, parts: Sequence[Chosen]) -> str:
    file = TEMPLATE / "names" / f"{name}.tmpl"
    if not file.is_file():
        code = next(one.code for one in parts if name in one.names)
        raise ConfigurationError(
            f"{code} needs {name}, which only you can write; choose another part, and add it later"
        )
    return file.read_text(encoding="utf-8")

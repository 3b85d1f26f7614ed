"""The exact versions that we install, `.ci/constraints.txt`, fit what `pyproject.toml` allows."""

from __future__ import annotations

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from kit.suite.lock import CONSTRAINTS, WITHOUT_DEPENDENCIES, project

OURS = "vivavoce"
PYTHONS = ("3.11.0", "3.11.9", "3.12.0", "3.13.0", "3.14.0")
REMEDY = "make lock"


def wanted() -> list[Requirement]:
    """Return every requirement of the core, of each extra, of the build system and of the group `models`."""
    said = project()
    extras = said["project"]["optional-dependencies"].values()
    lines = [*said["project"]["dependencies"], *(line for extra in extras for line in extra)]
    lines += [*said["build-system"]["requires"], *said["dependency-groups"][WITHOUT_DEPENDENCIES]]
    requirements = [Requirement(line) for line in lines]
    return [requirement for requirement in requirements if requirement.name != OURS]


def pins() -> list[Requirement]:
    """Return the lines of the constraints file."""
    lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
    return [Requirement(line) for line in lines if not line.startswith("#")]


def unfit(requirement: Requirement, pinned: list[Requirement], python: str) -> str:
    """Return why this requirement has no version that fits on this Python; "": it has one."""
    name = canonicalize_name(requirement.name)
    here = {"python_full_version": python, "python_version": python.rpartition(".")[0]}
    versions = [
        str(pin.specifier).removeprefix("==")
        for pin in pinned
        if canonicalize_name(pin.name) == name and (pin.marker is None or pin.marker.evaluate(here))
    ]
    if len(versions) != 1:
        return f"{name} has {len(versions)} versions on Python {python}; say: {REMEDY}"
    if not requirement.specifier.contains(versions[0], prereleases=True):
        return f"{name} {versions[0]} is not {requirement.specifier}; say: {REMEDY}"
    return ""


@pytest.mark.parametrize("python", PYTHONS)
def test_every_requirement_has_one_exact_version_that_it_allows(python: str) -> None:
    assert SpecifierSet(project()["project"]["requires-python"]).contains(python)
    assert [why for requirement in wanted() if (why := unfit(requirement, pins(), python))] == []


def test_the_file_says_exact_versions_only_and_names_no_index() -> None:
    assert [str(pin) for pin in pins() if pin.url or not str(pin.specifier).startswith("==")] == []
    assert "://" not in CONSTRAINTS.read_text(encoding="utf-8")


def test_the_versions_bring_no_torch() -> None:
    names = {canonicalize_name(pin.name) for pin in pins()}
    assert "silero-vad" in names
    assert sorted(names & {"torch", "torchaudio"}) == []


def test_the_build_system_is_pinned() -> None:
    assert "setuptools" in {canonicalize_name(pin.name) for pin in pins()}


@pytest.mark.parametrize(
    ("pinned", "says"),
    [
        ([], "numpy has 0 versions on Python 3.12.0"),
        (["numpy==1.26.0", "numpy==2.4.6"], "numpy has 2 versions on Python 3.12.0"),
        (["numpy==2.4.6 ; python_full_version < '3.12'"], "numpy has 0 versions on Python 3.12.0"),
        (["NumPy==1.25.2"], "numpy 1.25.2 is not >=1.26"),
        (["numpy==2.4.6 ; python_full_version < '3.12'", "numpy==2.5.5 ; python_full_version >= '3.12'"], ""),
    ],
)
def test_a_file_that_does_not_fit_is_found(pinned: list[str], says: str) -> None:
    found = unfit(Requirement("numpy>=1.26"), [Requirement(line) for line in pinned], "3.12.0")
    assert found == (f"{says}; say: {REMEDY}" if says else "")

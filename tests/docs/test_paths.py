"""Every path that a document names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = [*sorted((ROOT / "docs").glob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
TOP = r"(?:agents|pipelines|plugins|tests|examples|docs)"


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_named_exists(document: Path) -> None:
    named = re.findall(rf"`({TOP}/[\w./]*)`", document.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_the_architecture_names_every_folder_of_the_agents() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    folders = [path.parent.name for path in (ROOT / "agents").glob("*/__init__.py")]
    assert [name for name in sorted(folders) if f"`agents/{name}/`" not in text] == []


def test_the_architecture_names_the_folders_beside_the_agents() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    assert [name for name in ("pipelines", "plugins", "examples", "tests") if f"`{name}/`" not in text] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_to_a_file_exists(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", document.read_text(encoding="utf-8"))
    files = [link for link in links if "://" not in link]
    assert [link for link in files if not (document.parent / link).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_link_to_a_heading_exists(document: Path) -> None:
    links = re.findall(r"\]\(([^)#\s:]*\.md)?#([^)]+)\)", document.read_text(encoding="utf-8"))
    missing = [(file, anchor) for file, anchor in links if anchor not in anchors(document.parent / (file or document))]
    assert missing == []


def anchors(page: Path) -> set[str]:
    """Return the anchors that GitHub makes of a page's headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.+)$", text, flags=re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_each_of_the_eight_questions_is_answered_by_six_files_at_most() -> None:
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| ([^|]+\?) \| (.*) \|$", text.partition("## Eight questions")[2], flags=re.M)
    files = {question: set(re.findall(rf"`({TOP}/[\w./]*\.py)`", answer)) for question, answer in rows}
    assert len(files) == 8
    assert {question: len(named) for question, named in files.items() if not 1 <= len(named) <= 6} == {}


def test_the_architecture_is_short() -> None:
    assert len((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").splitlines()) <= 150

"""No modules import each other in a circle, not even for types."""

from __future__ import annotations

from pathlib import Path

from house_rules import imports
from house_rules.tree import PRODUCT, ROOT, python


def _cycles(sources: dict[str, str]) -> list[list[str]]:
    return imports.cycles(imports.graph({Path(path): source for path, source in sources.items()}))


def test_modules_do_not_import_each_other_in_a_circle() -> None:
    found = imports.cycles(imports.graph({path: (ROOT / path).read_text() for path in python(*PRODUCT)}))
    assert not found, "\n" + "\n".join(", ".join(group) for group in found)


def test_a_circle_is_found_through_other_modules_and_types() -> None:
    assert _cycles(
        {
            "agents/a.py": "from vivavoce.agents import b",
            "agents/b.py": "def f():\n    from vivavoce.agents.c import C",
            "agents/c.py": "if TYPE_CHECKING:\n    from vivavoce.agents.a import A",
            "agents/d.py": "import vivavoce.agents.a",
        }
    ) == [["vivavoce.agents.a", "vivavoce.agents.b", "vivavoce.agents.c"]]


def test_a_package_and_the_named_import_make_no_circle() -> None:
    assert not _cycles(
        {
            "agents/session_type.py": "if TYPE_CHECKING:\n    from vivavoce.agents.session.session import AgentSession",
            "agents/session/__init__.py": "",
            "agents/session/session.py": "from vivavoce.agents.session_type import Session",
        }
    )

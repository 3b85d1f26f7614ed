"""examples/history_as_json_lines.py in writing: the file has the items of the history, which can be read back."""

from __future__ import annotations

import json
import runpy
from pathlib import Path
from typing import Any

import anyio

from vivavoce.agents import ChatContext
from vivavoce.pipelines.llm.chat_json import HISTORY_VERSION

EXAMPLE: dict[str, Any] = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "history_as_json_lines.py"))


def test_each_item_of_the_history_is_a_line_of_the_session_s_file(tmp_path: Path) -> None:
    anyio.run(EXAMPLE["main"], tmp_path)

    (path,) = tmp_path.iterdir()
    items = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    history = ChatContext.from_json({"version": HISTORY_VERSION, "items": items})
    assert [(message.role, message.content) for message in history.messages()] == [
        ("user", "on friday"),
        ("assistant", "We will see you on friday. Is there anything else?"),
    ]

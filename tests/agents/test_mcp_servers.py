"""MCP servers as values: their visible fields, and refusals at construction; the SDK is not loaded for it."""

from __future__ import annotations

import importlib.util
from typing import Any

import pytest

from vivavoce.agents import Agent, MCPServerHTTP, MCPServerStdio
from vivavoce.pipelines.core.errors import ConfigurationError

WEBSOCKET: Any = "websocket"


def test_no_secret_shows_in_a_server_or_its_label() -> None:
    child = MCPServerStdio("server", ["--key", "s3cret"], env={"KEY": "s3cret"})
    web = MCPServerHTTP("https://me:s3cret@example.test:8443/s3cret?key=s3cret", headers={"Authorization": "s3cret"})
    assert [child.label, web.label] == ["server", "example.test:8443"]
    assert "s3cret" not in f"{child!r} {web!r} {child.label} {web.label}"


def test_a_name_of_its_own_is_the_label() -> None:
    assert MCPServerStdio("/usr/bin/python3", name="books").label == "books"
    assert MCPServerStdio("/usr/bin/python3").label == "python3"
    assert MCPServerHTTP("http://127.0.0.1:1/mcp", name="books").label == "books"


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: MCPServerStdio(""), "command needs a program"),
        (lambda: MCPServerStdio("uvx", "mcp-files --root"), "args needs a list"),
        (lambda: MCPServerStdio("uvx", allowed_tools="read"), "allowed_tools needs names, got the text 'read'"),
        (lambda: MCPServerStdio("uvx", start_timeout=0), "need start_timeout > 0"),
        (lambda: MCPServerStdio("uvx", call_timeout=-1.0), "need call_timeout > 0"),
        (lambda: MCPServerHTTP("books.test/mcp"), "url needs an http:// or https://"),
        (lambda: MCPServerHTTP("http://books.test/mcp", transport=WEBSOCKET), "got 'websocket'"),
        (lambda: Agent("Help.", mcp_servers=[WEBSOCKET]), "need mcp_servers as a list of MCPServer, got a str among"),
    ],
)
def test_a_mistake_shows_when_the_server_or_the_agent_is_made(make: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        make()


def test_without_the_extra_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"vivavoce\[mcp\]"):
        MCPServerStdio("server")

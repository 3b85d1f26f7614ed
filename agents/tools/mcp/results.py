"""Answers of an MCP server as text for the model: results, protocol errors, reasons why a server is not there."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from vivavoce.pipelines.core.errors import ToolError, describe

if TYPE_CHECKING:
    from mcp.types import CallToolResult


def result_text(result: CallToolResult) -> str:
    """Return a result's text: its text blocks, else its structured content as JSON; other content is named.

    Raises:
        ToolError: The server says that the call failed; with its text, which is meant for the model.
    """
    from pydantic_core import to_json

    parts = [_block_text(block) for block in result.content]
    if result.structured_content is not None and not any(block.type == "text" for block in result.content):
        parts.insert(0, to_json(result.structured_content).decode())
    text = "\n".join(parts)
    if result.is_error:
        raise ToolError(text or "The tool failed.")
    return text


def _block_text(block: Any) -> str:
    if block.type == "text":
        return str(block.text)
    if block.type in ("image", "audio"):
        # An output is text; it names the other content, so that the model does not make it up.
        return f"[{block.type}, {block.mime_type}, {len(base64.b64decode(block.data))} bytes, not shown]"
    if block.type == "resource_link":
        return f"[resource {block.name}: {block.uri}]"
    resource = block.resource
    text = getattr(resource, "text", None)
    return str(text) if text is not None else f"[resource {resource.uri}, {resource.mime_type or 'unknown type'}]"


def reason(error: BaseException) -> str:
    """Return the reason of a failed connection without foreign texts, which may hold a URL with a secret in it."""
    from mcp import MCPError

    if isinstance(error, MCPError):
        return f"it answered: {error.message}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    status = getattr(getattr(error, "response", None), "status_code", None)
    return describe(error) if status is None else f"HTTP status {status}"

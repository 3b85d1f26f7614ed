"""An MCP server in one file, for `tools_and_mcp.py`: it knows the shelf of each book."""

from mcp.server.mcpserver import MCPServer

SHELVES = {"emma": 3, "persuasion": 4}

library = MCPServer("library")


@library.tool()
def shelf_of(title: str) -> int:
    "Tell the number of the shelf where a book is."
    return SHELVES[title.lower()]


@library.tool()
def throw_away(title: str) -> str:
    "Not for callers: the agent does not allow it."
    return f"{title} is gone"


if __name__ == "__main__":
    library.run()

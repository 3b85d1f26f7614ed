"""Tools of MCP servers: one connection per server and session, and the agent's tools made of the servers' tools.

`agents.mcp_servers` says what a server is; `connection` holds one, `results` turns a call's result into text, and
`servers` opens and closes those of an agent. Decisions:

* A connection lives in one task of the session's group, as the SDK's context managers must. Calls come from the tools'
  tasks, so that a cancelled call ends at once and the server receives the cancellation.
* A call that was under way when its server went is an error output, not sent again: it may have had its effect. The
  next call connects anew, once, within `start_timeout`.
* The tools are listed once, at the start: a model whose tools change meanwhile calls tools that are not there.
* Arguments are checked by the server, which knows its schema; here they must be a JSON object.
"""

"""The pipelines of a session: the one in use, and the change to another one."""

"""Start and close of a session, in the one task that owns its task group."""

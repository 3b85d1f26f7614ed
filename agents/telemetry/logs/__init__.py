"""Log records of a session."""

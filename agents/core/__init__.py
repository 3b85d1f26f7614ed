"""The base of all other parts of a session: its context, its inbox, its log, its events, its hooks."""

"""The parts that every other part of a session stands on: its inbox, its log, its events, its hooks."""

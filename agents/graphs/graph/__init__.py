"""The description of a conversation graph: states, transitions, intents, and their checks."""

"""The agent's speech: handles, the step loop of a reply, playout, and what of it was heard."""

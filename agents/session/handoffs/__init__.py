"""Who has the conversation: handoffs, the agents of a session and their hooks, tasks."""

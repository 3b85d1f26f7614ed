"""The machine that follows a conversation graph: pure, like `vivavoce.agents.turn`."""

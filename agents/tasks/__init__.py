"""Tasks: sub-dialogues with a typed result. `task` has `AgentTask`; the ready ones are in `ready`."""

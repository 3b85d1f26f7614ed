"""The agent's speech: the step loop of a reply, its voice, preemptive answers and conversation flows."""

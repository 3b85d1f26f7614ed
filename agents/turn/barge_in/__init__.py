"""Interruptions: when speech of the user pauses, resumes or cuts the agent."""

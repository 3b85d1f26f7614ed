"""Dialogues: two agents exchange messages in an order that is checked."""

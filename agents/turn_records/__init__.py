"""The record of one turn: its stages, its interruptions and figures over many turns."""

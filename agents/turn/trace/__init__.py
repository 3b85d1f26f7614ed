"""The recorded steps of a turn machine, and their replay."""

"""A call in a process of its own, which tells what was imported while it went on."""

"""Azure Speech."""

"""The parts of `vivavoce serve`: `server` answers webhooks and sockets, `calls` runs a job for each call."""

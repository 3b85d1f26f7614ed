"""WireError: what the wires and their codings refuse."""

from vivavoce.pipelines.core.errors import RoomError


class WireError(RoomError):
    """A message that is not as its vendor describes it."""

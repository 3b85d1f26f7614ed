"""TranscriptFeed: what the room is shown of both sides, and under which segment."""

from __future__ import annotations

from vivavoce.agents.rooms.local import LocalTransport
from vivavoce.agents.session.transcripts import TranscriptFeed
from vivavoce.agents.speech.playout import Utterance
from vivavoce.pipelines.testing import VirtualClock

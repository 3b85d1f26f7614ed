"""AssemblyAI's streaming recognisers; no package but vivavoce is needed.

    assemblyai.STT()                                     # Universal-3.6 Pro; ASSEMBLYAI_API_KEY
    assemblyai.STT(languages=("en", "es"), region="eu")
    assemblyai.STT("universal-streaming-english")        # word by word
    assemblyai.STT(options=assemblyai.STTOptions(decides_turns=False))    # VAD and turn detector decide
    assemblyai.STT(base_url="https://assemblyai.example.com", api_key=None)    # a server of your own

`vivavoce.plugins.assemblyai.twin` is a server on loopback for tests without a key.

Decisions:

* The service's ends of turns are taken, unless `decides_turns` says otherwise. Its models judge them by sound and by
  words, with what they know of both before any message, and a detector behind them would add its wait to theirs: no
  final comes before the end of the turn by default. The vendor recommends the same for LiveKit
  (https://www.assemblyai.com/docs/voice-agents/livekit-u3-rt-pro).
* A turn that something else ends (`commit_turn()`, a limit) is ended by `ForceEndpoint`; so is each end of speech where
  the service does not decide turns.
* A final has the formatted words. The Universal-Streaming models end a turn first and format it then: the end counts
  as an eager one, so that the wait for the formatted words costs the answer nothing.
* The stream is open when the service says `Begin`: it checks key and settings behind the handshake.
* Audio travels in messages of 50 ms, the shortest that the service takes. A flush leaves less than that for the next
  message.
* A lost connection is opened again: the audio of the open turn is sent again, words that come twice are dropped by
  their times, and the times go on. Between turns only the newest seconds are kept, since the service takes audio
  little faster than it is spoken.
* Each close says `Terminate`: a session without it is billed until it expires.
* The environment's key goes to hosts of assemblyai.com only.
"""

from vivavoce.pipelines.net.options import ConnectionOptions
from vivavoce.plugins.assemblyai.options import STTOptions
from vivavoce.plugins.assemblyai.stt import DEFAULT_STT_MODEL, STT

__all__ = ["DEFAULT_STT_MODEL", "STT", "ConnectionOptions", "STTOptions"]

"""The helper process: espeak-ng behind stdin and stdout. It holds the only code that loads the GPL library.

Run as `python -m vivavoce.plugins.espeak.helper SETTINGS`, SETTINGS being JSON. It ends when stdin does, so it never
outlives its parent.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from vivavoce.plugins.espeak import wire

# speak_lib.h of espeak-ng 1.52
AUDIO_OUTPUT_SYNCHRONOUS = 2
DONT_EXIT = 0x8000
CHARACTER_POSITION = 1
UTF8 = 1
RATE, VOLUME, PITCH = 1, 2, 3
EVENT_LIST_END, EVENT_WORD, EVENT_END = 0, 1, 5
BUFFER_MILLISECONDS = 20
READ_SIZE = 1 << 16
STDIN = 0


class Event(ctypes.Structure):
    """`espeak_EVENT`."""

    _fields_ = (
        ("type", ctypes.c_int),
        ("unique_identifier", ctypes.c_uint),
        ("text_position", ctypes.c_int),
        ("length", ctypes.c_int),
        ("audio_position", ctypes.c_int),
        ("sample", ctypes.c_int),
        ("user_data", ctypes.c_void_p),
        ("id", ctypes.c_char * 8),
    )


SynthCallback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_short), ctypes.c_int, ctypes.POINTER(Event))


class Parent:
    """The other end of the pipes."""

    def __init__(self, output: int) -> None:
        self._output = output
        self._decoder = wire.FrameDecoder()
        self._requests: deque[wire.Header] = deque()
        self._cancelled: set[int] = set()
        self.is_gone = False

    def next_request(self) -> wire.Header | None:
        """Wait for the next text to speak; None when the parent is gone."""
        while not self._requests and not self.is_gone:
            self._read()
        return None if self.is_gone else self._requests.popleft()

    def is_cancelled(self, request: int) -> bool:
        """Return whether to stop, after reading the messages that came meanwhile."""
        while not self.is_gone and select.select([STDIN], [], [], 0)[0]:
            self._read()
        return self.is_gone or request in self._cancelled

    def send(self, header: wire.Header, payload: bytes = b"") -> None:
        """Write one frame, waiting while the pipe is full."""
        view = memoryview(wire.encode(header, payload))
        try:
            while view:
                view = view[os.write(self._output, view) :]
        except BrokenPipeError:
            self.is_gone = True

    def end(self, request: int) -> None:
        """Report the end of `request`."""
        self._cancelled.discard(request)
        self.send({"op": "end", "id": request})

    def _read(self) -> None:
        data = os.read(STDIN, READ_SIZE)
        if not data:
            self.is_gone = True
            return
        for header, _ in self._decoder.feed(data):
            if header["op"] == "speak":
                self._requests.append(header)
            elif any(request["id"] == header["id"] for request in self._requests):
                self._requests = deque(one for one in self._requests if one["id"] != header["id"])
                self.end(header["id"])
            else:
                self._cancelled.add(header["id"])


class Voice:
    """espeak-ng with one voice loaded.

    Raises:
        RuntimeError: The library refuses a setting; the text has its reason.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._library = ctypes.CDLL(settings["library"])
        rate = self._library.espeak_Initialize(
            AUDIO_OUTPUT_SYNCHRONOUS, BUFFER_MILLISECONDS, settings["data"].encode(), DONT_EXIT
        )
        if rate != settings["sample_rate"]:
            raise RuntimeError(f"needed audio of {settings['sample_rate']} Hz, espeak_Initialize answered {rate}")
        if self._library.espeak_SetVoiceByName(settings["voice"].encode()) != 0:
            raise RuntimeError(f"espeak-ng has no voice {settings['voice']!r}")
        for name, parameter in (("rate", RATE), ("volume", VOLUME), ("pitch", PITCH)):
            self._library.espeak_SetParameter(parameter, settings[name], 0)

    def speak(self, text: str, take: Callable[[bytes, list[list[int]]], bool]) -> None:
        """Synthesize `text`, handing each piece of PCM and its events to `take` until that returns False."""

        def on_audio(samples: Any, count: int, events: Any) -> int:
            if not samples:  # the very end
                return 0
            found = []
            index = 0
            while events[index].type != EVENT_LIST_END:
                event = events[index]
                if event.type in (EVENT_WORD, EVENT_END):
                    found.append([event.type, event.text_position, event.sample])
                index += 1
            return 0 if take(ctypes.string_at(samples, 2 * count), found) else 1

        callback = SynthCallback(on_audio)
        self._library.espeak_SetSynthCallback(callback)
        data = text.encode("utf-8", "replace")
        self._library.espeak_Synth(data, len(data) + 1, 0, CHARACTER_POSITION, 0, UTF8, None, None)


def main() -> None:
    """Serve requests until the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C; it closes stdin
    output = os.dup(1)
    os.dup2(2, 1)  # text that the library prints must not get between the frames
    parent = Parent(output)
    try:
        voice = Voice(json.loads(sys.argv[1]))
    except (OSError, RuntimeError) as error:
        parent.send({"op": "refused", "message": str(error)})
        return
    parent.send({"op": "ready"})
    while (request := parent.next_request()) is not None:
        serve(parent, voice, request["id"], request["text"])


def serve(parent: Parent, voice: Voice, request: int, text: str) -> None:
    """Speak one text."""

    def take(pcm: bytes, events: list[list[int]]) -> bool:
        if parent.is_cancelled(request):
            return False
        parent.send({"op": "audio", "id": request, "events": events}, pcm)
        return not parent.is_gone

    voice.speak(text, take)
    parent.end(request)


if __name__ == "__main__":
    main()

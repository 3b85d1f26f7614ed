"""The three servers of the measurement, on one port: each message says its number, and its time of sending is kept.

The messages are Deepgram's, Anthropic's and Cartesia's, fixed beforehand, so that the server takes little of the CPU.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import WSMsgType, web

INTERIM_EVERY = 16_000
"""Bytes of audio between two results: 0.5 s at 16 kHz."""

INTERIMS = 5
"""Before each final."""

DELTAS, DELTA_EVERY = 20, 0.01
"""Pieces of an answer, and seconds between two."""

CHUNKS, CHUNK_EVERY, CHUNK = 10, 0.02, 2400
"""Pieces of a speech, seconds between two, and samples of one: 0.1 s at 24 kHz."""


INFO = {"name": "n", "version": "1", "arch": "a"}


class Server:
    """Sends numbered messages."""

    def __init__(self) -> None:
        self.sent: dict[int, float] = {}
        """The monotonic time at which each numbered message was given to the socket."""
        self.firsts: set[int] = set()
        """The numbers of messages that begin an answer or a speech."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[str]:
        """Serve on loopback; give the address."""
        app = web.Application()
        app.router.add_get("/v1/listen", self._listen)
        app.router.add_post("/v1/messages", self._answer)
        app.router.add_get("/tts/websocket", self._speak)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.5, handler_cancellation=True)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    def _number(self, is_first: bool = False) -> int:
        number = len(self.sent) + 1
        self.sent[number] = time.monotonic()
        if is_first:
            self.firsts.add(number)
        return number

    async def _listen(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(compress=False, timeout=0.5)
        await socket.prepare(request)
        heard = results = 0
        async for frame in socket:
            if frame.type is not WSMsgType.BINARY:
                if frame.type is WSMsgType.TEXT and json.loads(frame.data).get("type") == "CloseStream":
                    break
                continue
            heard += len(frame.data)
            while heard >= (results + 1) * INTERIM_EVERY:
                results += 1
                await socket.send_str(json.dumps(self._result(results)))
        await socket.close()
        return socket

    def _result(self, results: int) -> dict[str, Any]:
        is_final = results % (INTERIMS + 1) == 0
        end = results * INTERIM_EVERY / 32_000
        number = self._number(is_final)
        word = {"word": str(number), "punctuated_word": str(number), "start": end - 0.3, "end": end - 0.1}
        best = {"transcript": str(number), "confidence": 0.9, "words": [{**word, "confidence": 0.9}]}
        return {
            "type": "Results",
            "channel_index": [0, 1],
            "start": end - 0.5,
            "duration": 0.5,
            "is_final": is_final,
            "speech_final": is_final,
            "from_finalize": False,
            "channel": {"alternatives": [best]},
            "metadata": {
                "request_id": "r",
                "model_uuid": "m",
                "model_info": {"name": "n", "version": "1", "arch": "a"},
            },
        }

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        await request.read()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)

        async def send(kind: str, **fields: Any) -> None:
            text = json.dumps({"type": kind, **fields})
            await response.write(f"event: {kind}\ndata: {text}\n\n".encode())

        usage = {"input_tokens": 10, "output_tokens": 1}
        message = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-4-5", "content": []}
        await send("message_start", message={**message, "stop_reason": None, "stop_sequence": None, "usage": usage})
        await send("content_block_start", index=0, content_block={"type": "text", "text": ""})
        for place in range(DELTAS):
            await asyncio.sleep(DELTA_EVERY)
            delta = {"type": "text_delta", "text": f"{self._number(place == 0)} "}
            await send("content_block_delta", index=0, delta=delta)
        await send("content_block_stop", index=0)
        await send("message_delta", delta={"stop_reason": "end_turn", "stop_sequence": None}, usage=usage)
        await send("message_stop")
        return response

    async def _speak(self, request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse(compress=False, timeout=0.5)
        await socket.prepare(request)
        async with asyncio.TaskGroup() as speeches:
            async for frame in socket:
                told = json.loads(frame.data)
                if not told.get("continue", True):
                    speeches.create_task(self._speech(socket, told["context_id"]))
        return socket

    async def _speech(self, socket: web.WebSocketResponse, context: str) -> None:
        common = {"context_id": context, "done": False, "status_code": 206}
        words = {"words": ["Hello"], "start": [0.0], "end": [0.5]}
        await socket.send_str(json.dumps({"type": "timestamps", "word_timestamps": words, **common}))
        for place in range(CHUNKS):
            await asyncio.sleep(CHUNK_EVERY)
            number = self._number(place == 0)
            data = base64.b64encode(number.to_bytes(2, "little") * CHUNK).decode()
            await socket.send_str(json.dumps({"type": "chunk", "data": data, "step_time": 1.0, **common}))
        await socket.send_str(json.dumps({"type": "done", "context_id": context, "done": True, "status_code": 200}))

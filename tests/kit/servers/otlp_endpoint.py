"""An OTLP endpoint over HTTP on loopback that takes everything and keeps the bytes as they came."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class OtlpEndpoint:
    """Its address, and its requests: (path, body) of each, oldest first."""

    url: str
    received: list[tuple[str, bytes]] = field(default_factory=list)


@contextmanager
def otlp_endpoint() -> Iterator[OtlpEndpoint]:
    """Run one; when it has been left, nothing more is received."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            endpoint.received.append((self.path, self.rfile.read(int(self.headers.get("content-length", 0)))))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    endpoint = OtlpEndpoint(f"http://127.0.0.1:{server.server_address[1]}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield endpoint
    finally:
        server.shutdown()
        server.server_close()
        thread.join(60)

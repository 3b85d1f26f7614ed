"""The way in for one's own programs: a request with the key, answered with the stream's address and its token."""

from __future__ import annotations

import json

from vivavoce.agents.transports.media_stream.raw.wire import RawWire
from vivavoce.agents.transports.media_stream.webhook import (
    TOKEN,
    Answer,
    IncomingCall,
    Webhook,
    WebhookError,
    WebRequest,
    is_same,
)
from vivavoce.agents.transports.media_stream.wire import MediaWire
from vivavoce.pipelines.core.ids import new_id


class RawWebhook(Webhook):
    """Checks `Authorization: Bearer KEY`. The numbers and the parameters are in the stream's own start."""

    name = "raw"

    def check(self, request: WebRequest) -> None:
        if not is_same(request.headers.get("authorization", ""), f"Bearer {self._secret}"):
            raise WebhookError(
                "needed the header Authorization: Bearer KEY, with the key in VIVAVOCE_STREAM_KEY, got another one"
            )

    def call(self, request: WebRequest) -> IncomingCall:
        return IncomingCall(call_id=new_id("call"))

    def answer(self, call: IncomingCall, stream_url: str, token: str) -> Answer:
        return Answer(content_type="application/json", body=json.dumps({"url": stream_url, TOKEN: token}))

    def wire(self) -> MediaWire:
        return RawWire()

"""The network under providers: HTTP requests, websockets, warm connections, and their failures, on aiohttp.

    client = Client("deepgram.STT", base_url, headers={"Authorization": f"Token {key}"}, options=options)
    failures = Failures(provider="deepgram", redact=Redaction(client.secrets), statuses={…}, remedies={…})
    socket = await open_socket(client, "v1/listen", query, failures, on_message=…, on_lost=…, component="stt")
    async with client.request("v1/messages", failures, json=body) as response:
        async for event in sse(response):
            …

Decisions:

* One stack for all providers: one pool, one policy of limits, one table of errors. aiohttp is a dependency of the core,
  so that a plugin needs no package; it loads when a component is made, not when a module here is imported.
* Each await has a limit: connecting, each send, the close, the pause between two pieces of an answer. A websocket sends
  pings, so that a peer that is gone without a word is noticed.
* Errors hold facts only: a status, a close code, the system's reason, a server's text after `Redaction`. They are
  raised outside of the `except` block of the library's exception, which holds the request's headers and with them the
  key: it is neither the cause nor the context of ours.
* A redirect is an error. It would carry the key to another host.
* `retryable` is honest: whether the same request may succeed when it is sent again. A server's own word
  (`x-should-retry`, `retry-after`) is kept.
* Nothing here knows audio frames, sessions or ports: it carries texts and bytes.
"""

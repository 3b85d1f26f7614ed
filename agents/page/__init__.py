"""The browser page: a LiveKit client in plain JavaScript, and the small web server that serves it with a token.

Decisions:

* The page speaks LiveKit's own signalling, so it works with the embedded room and any LiveKit server alike, without a
  second protocol. `static/` is served unchanged: no library, no build step, nothing from other hosts.
* The key's secret stays with the server: the page requests a token from `POST connection` each time it joins.
* Tokens go only to a browser on this machine. The Host must be a loopback one (a name that somebody points at 127.0.0.1
  is refused), and the Origin must be the page's own, so no other site can fetch a token through the user's browser.
* Each call is a room of its own, named by the server, since an agent is dispatched to a room once. `?room=NAME` in the
  address selects a room. A reload within seconds returns to the same call.
"""

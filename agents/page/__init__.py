"""The browser page: a LiveKit client in plain JavaScript, and the small web server that hands it out with a token.

Decisions:

* The page speaks LiveKit's own signalling, so the embedded room and any LiveKit server are one and the same to it, and
  there is no second protocol. `static/` is served as it is: no library, no build step, nothing from other hosts.
* The key's secret stays with the server: the page asks `POST connection` for a token each time it joins.
* Tokens go to this machine's browser only: the Host must be a loopback one (a name that somebody points at 127.0.0.1 is
  refused) and the Origin the page's own, so that no other site can fetch one through the user's browser.
* Each call is a room of its own, named by the server, since an agent is dispatched to a room once; `?room=NAME` in the
  address asks for a certain one. A reload within seconds goes back into the same call.
"""

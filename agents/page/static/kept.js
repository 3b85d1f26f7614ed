// Kept: the call of this tab a moment ago, so that a reload returns to it.

const KEPT = 'vivavoce.call';                            // in sessionStorage
const KEPT_FOR = 8_000;                                  // ms: agents wait about ten seconds for a caller to come back

/** Remember a call that is being left. */
export function keep({ room, identity }) {
  sessionStorage.setItem(KEPT, JSON.stringify({ room, identity, until: Date.now() + KEPT_FOR }));
}

/** Return `{ room, identity }` of the call that this tab was in a moment ago, once; else `{}`. */
export function kept() {
  const call = JSON.parse(sessionStorage.getItem(KEPT) ?? '{}');
  sessionStorage.removeItem(KEPT);
  return call.until > Date.now() ? call : {};
}

// Signalling: one websocket to a LiveKit server (`/rtc/v1`), its first message, its pings, and the reason of a refusal.

import { decode, encode } from './codec.js';
import { DisconnectReason } from './schema.js';

const SDK_JS = 1;
const PROTOCOL = 17;                                     // at 18 servers expect data channels with fixed ids
const ANSWER_LIMIT = 10_000;                             // ms

/** The action that a server requests from a removed participant: LeaveRequest.action. */
export const LeaveAction = { DISCONNECT: 0, RESUME: 1, RECONNECT: 2 };

/**
 * Something that ends or prevents a call; `code` is a key of words.js.
 * @param action The server's LeaveAction, if it sent one.
 */
export class CallError extends Error {
  constructor(code, detail = '', { action, isFinal = false } = {}) {
    super(detail ? `${code}: ${detail}` : code);
    this.code = code;
    this.detail = detail;
    this.action = action;
    this.isFinal = isFinal;                              // trying again would not help
  }
}

// With its padding: LiveKit's server refuses a join request without.
const base64url = (bytes) => btoa(String.fromCharCode(...bytes)).replaceAll('+', '-').replaceAll('/', '_');

/** Reject with a CallError when `promise` takes longer than `ms`. */
export function within(promise, ms, code) {
  let timer;
  const late = new Promise((_, reject) => { timer = setTimeout(() => reject(new CallError(code, `${ms} ms`)), ms); });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

export class Signalling {
  #socket = null;
  #pings = null;
  #lastPong = 0;

  /**
   * @param url ws:// or wss:// of the server.
   * @param token The access token; refreshed ones replace it.
   * @param on `{ message(response), lost(why) }`: each message after the first, and the end of a socket that had one.
   */
  constructor(url, token, on) {
    this.url = url.replace(/\/+$/, '');
    this.token = token;
    this.on = on;
    this.roundTrip = null;                               // ms
  }

  /** Open the websocket, again if there was one, and return its first message: a join or reconnect response. */
  async open(request = {}) {
    this.close();
    const query = this.#query(request);
    const socket = this.#socket = new WebSocket(`${this.url}/rtc/v1?${query}`);
    socket.binaryType = 'arraybuffer';
    const first = new Promise((resolve, reject) => {
      let isOpen = false;
      socket.onmessage = ({ data }) => {
        if (socket !== this.#socket) return;
        const message = this.#read(data);
        if (isOpen) this.#take(message);
        else if (message.join || message.reconnect) {
          isOpen = true;
          resolve(message);
        } else if (message.leave) {
          const { reason = 0, action = LeaveAction.DISCONNECT } = message.leave;
          reject(new CallError('refused', DisconnectReason[reason], { action, isFinal: action === LeaveAction.DISCONNECT }));
          this.close();
        }
      };
      socket.onclose = async ({ code }) => {
        if (socket !== this.#socket) return;
        this.close();
        if (isOpen) this.on.lost(`websocket closed (${code})`);
        else reject(await this.#whyRefused(query));
      };
    });
    try {
      return await within(first, ANSWER_LIMIT, 'no-answer');
    } catch (error) {
      if (socket === this.#socket) this.close();
      throw error;
    }
  }

  #query(request) {
    const inner = encode('JoinRequest', {
      client_info: { sdk: SDK_JS, version: '2.16.0', protocol: PROTOCOL, os: navigator.platform, browser: 'vivavoce-page' },
      connection_settings: { auto_subscribe: true },
      ...request,
    });
    const wrapped = encode('WrappedJoinRequest', { join_request: inner });
    return new URLSearchParams({ access_token: this.token, join_request: base64url(wrapped) });
  }

  /** Ping every `interval` s; the socket is lost when no pong came for `timeout` s. */
  keepAlive(interval = 5, timeout = 15) {
    clearInterval(this.#pings);
    this.#lastPong = performance.now();
    this.#pings = setInterval(() => {
      if (performance.now() - this.#lastPong > timeout * 1000) {
        this.close();
        this.on.lost('no pong');
      } else this.send({ ping_req: { timestamp: Date.now(), rtt: Math.round(this.roundTrip ?? 0) } });
    }, interval * 1000);
    this.send({ ping_req: { timestamp: Date.now(), rtt: 0 } });
  }

  /** Send a SignalRequest; without an open socket it is dropped, since a resume sends the state again. */
  send(request) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(encode('SignalRequest', request));
  }

  close() {
    clearInterval(this.#pings);
    const socket = this.#socket;
    this.#socket = null;
    socket?.close();
  }

  #read(data) {
    try {
      return decode('SignalResponse', new Uint8Array(data));
    } catch (error) {
      console.warn('a signalling message cannot be read', error);
      return {};
    }
  }

  #take(message) {
    if (message.pong_resp) {
      this.#lastPong = performance.now();
      this.roundTrip = Date.now() - (message.pong_resp.last_ping_timestamp ?? Date.now());
    } else if (message.refresh_token) this.token = message.refresh_token;
    else this.on.message(message);
  }

  /** A browser hides why an upgrade was refused, so ask again without one. Its text may hold the token: unread. */
  async #whyRefused(query) {
    try {
      const answer = await fetch(`${this.url.replace(/^ws/, 'http')}/rtc/v1/validate?${query}`, { signal: AbortSignal.timeout(ANSWER_LIMIT) });
      if (answer.status === 401 || answer.status === 403) return new CallError('refused-token', `${answer.status}`, { isFinal: true });
      return new CallError('refused', `${answer.status}`, { isFinal: answer.status < 500 });  // a proxy in front of a starting server answers 502, 503
    } catch {
      return new CallError('unreachable');
    }
  }
}

// Data: the data channels: streams of text and of bytes both ways, and remote procedure calls to the agent.

import { decode, encode } from './codec.js';

const CHUNK = 15_000;                                    // bytes, as LiveKit's other clients cut
const MAX_STREAM = 1_000_000;                            // characters kept of one text
const MAX_BYTES = 16_000_000;                            // of one byte stream
const MAX_OPEN_STREAMS = 256;
const ACK_LIMIT = 7_000, ANSWER_LIMIT = 10_000;          // ms
const NO_METHOD = 1400;
const toUtf8 = new TextEncoder();

const newId = () => (crypto.randomUUID ? crypto.randomUUID() : Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, '0')).join(''));

/** A failed remote call; `code` is LiveKit's, 1400 if the agent has no such method. */
export class RpcError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }

  get isUnsupported() {
    return this.code === NO_METHOD;
  }
}

/** Yield `bytes` in pieces of at most CHUNK, never cut inside a character. */
export function* chunks(bytes) {
  for (let start = 0; start < bytes.length;) {
    let end = Math.min(start + CHUNK, bytes.length);
    while (end < bytes.length && (bytes[end] & 0xc0) === 0x80) end--;
    yield bytes.subarray(start, end);
    start = end;
  }
}

export class DataLink {
  #sequence = 0;
  #received = new Map();                                 // participant sid -> last sequence
  #streams = new Map();
  #calls = new Map();

  /**
   * @param send Takes the bytes of a reliable packet; throws if nothing can be sent.
   * @param onText Called with `{ id, topic, from, text, attributes, isDone }` at the start, each piece and the end of a text.
   * @param onBytes Called with `{ id, topic, from, attributes, bytes }` when a byte stream has come whole.
   */
  constructor(send, onText, onBytes) {
    this.sendBytes = send;
    this.onText = onText;
    this.onBytes = onBytes;
  }

  /** The last packet read of each sender, for a resume. */
  get received() {
    return [...this.#received].map(([publisher_sid, last_seq]) => ({ publisher_sid, last_seq }));
  }

  #send(value, to) {
    this.sendBytes(encode('DataPacket', { ...value, destination_identities: to, sequence: ++this.#sequence }));
  }

  /** Send a text stream to these identities (to all if there are none). */
  sendText(text, topic, to = []) {
    const stream_id = newId();
    const bytes = toUtf8.encode(text);
    this.#send({ stream_header: { stream_id, timestamp: Date.now(), topic, mime_type: 'text/plain', total_length: bytes.length, text_header: {} } }, to);
    let chunk_index = 0;
    for (const content of chunks(bytes)) this.#send({ stream_chunk: { stream_id, chunk_index: chunk_index++, content } }, to);
    this.#send({ stream_trailer: { stream_id } }, to);
  }

  /**
   * Send bytes as a stream to these identities; throws if they cannot be sent whole.
   * @param file `{ name, type, bytes, attributes }`.
   * @param ready Returns a promise, which is awaited before each piece.
   * @param began Called with the stream's id.
   */
  async sendFile({ name, type, bytes, attributes = {} }, topic, to, ready, began) {
    const stream_id = newId();
    this.#send({ stream_header: { stream_id, timestamp: Date.now(), topic, mime_type: type, total_length: bytes.length, attributes, byte_header: { name } } }, to);
    began(stream_id);
    for (let start = 0, chunk_index = 0; start < bytes.length; start += CHUNK, chunk_index++) {
      await ready();
      this.#send({ stream_chunk: { stream_id, chunk_index, content: bytes.subarray(start, start + CHUNK) } }, to);
    }
    this.#send({ stream_trailer: { stream_id } }, to);
  }

  /** Call `method` of the participant `identity` and return its answer. Throws RpcError. */
  call(identity, method, payload = '') {
    const id = newId();
    return new Promise((resolve, reject) => {
      const late = (code, text, ms) => setTimeout(() => settle(() => reject(new RpcError(code, text))), ms);
      const timers = [late(1501, 'the agent did not react', ACK_LIMIT), late(1502, 'the agent did not answer', ANSWER_LIMIT)];
      const settle = (how) => {
        timers.forEach(clearTimeout);
        this.#calls.delete(id);
        how();
      };
      this.#calls.set(id, { ack: () => clearTimeout(timers[0]), resolve: (text) => settle(() => resolve(text)), reject: (error) => settle(() => reject(error)) });
      try {
        this.#send({ rpc_request: { id, method, payload, response_timeout_ms: ANSWER_LIMIT, version: 1 } }, [identity]);
      } catch (error) {
        settle(() => reject(error));
      }
    });
  }

  /** Read one packet. A packet that cannot be read is dropped. */
  take(bytes) {
    let packet;
    try {
      packet = decode('DataPacket', bytes);
    } catch (error) {
      console.warn('a data packet cannot be read', error);
      return;
    }
    if (packet.sequence && packet.participant_sid) {     // a resume may bring a packet twice
      if (packet.sequence <= (this.#received.get(packet.participant_sid) ?? 0)) return;
      this.#received.set(packet.participant_sid, packet.sequence);
    }
    const from = packet.participant_identity ?? '';
    if (packet.stream_header) this.#begin(packet.stream_header, from);
    else if (packet.stream_chunk) this.#extend(packet.stream_chunk);
    else if (packet.stream_trailer) this.#end(packet.stream_trailer);
    else if (packet.rpc_request) this.#refuse(packet.rpc_request, from);
    else if (packet.rpc_ack) this.#calls.get(packet.rpc_ack.request_id)?.ack();
    else if (packet.rpc_response) this.#answered(packet.rpc_response);
  }

  #begin(header, from) {
    if (!header.stream_id) return;
    if (this.#streams.size >= MAX_OPEN_STREAMS) this.#streams.delete(this.#streams.keys().next().value);
    if (header.byte_header) {
      if ((header.total_length ?? 0) > MAX_BYTES) return;
      this.#streams.set(header.stream_id, { header, from, pieces: [], length: 0 });
      if (header.inline_content) {
        this.#extend({ stream_id: header.stream_id, content: header.inline_content });
        this.#end({ stream_id: header.stream_id });
      }
      return;
    }
    const stream = { id: header.stream_id, topic: header.topic ?? '', from, text: '', attributes: { ...header.attributes }, isDone: false };
    this.#streams.set(stream.id, { stream, decoder: new TextDecoder() });
    if (header.inline_content) {
      this.#extend({ stream_id: stream.id, content: header.inline_content });
      this.#end({ stream_id: stream.id });
    } else this.onText(stream);
  }

  #extend({ stream_id: id, content }) {
    const open = this.#streams.get(id);
    if (open?.pieces && content) {
      open.pieces.push(content);
      open.length += content.length;
      if (open.length > MAX_BYTES) this.#streams.delete(id);
      return;
    }
    if (!open || !content || open.stream.text.length > MAX_STREAM) return;
    open.stream.text += open.decoder.decode(content, { stream: true });
    this.onText(open.stream);
  }

  #end({ stream_id: id, attributes }) {
    const open = this.#streams.get(id);
    if (!open) return;
    this.#streams.delete(id);
    if (open.pieces) {
      const { header, from, pieces, length } = open;
      if (header.total_length && header.total_length !== length) return;
      const bytes = new Uint8Array(length);
      let at = 0;
      for (const piece of pieces) {
        bytes.set(piece, at);
        at += piece.length;
      }
      this.onBytes({ id, topic: header.topic ?? '', from, attributes: { ...header.attributes, ...attributes }, bytes });
      return;
    }
    Object.assign(open.stream.attributes, attributes);
    open.stream.isDone = true;
    this.onText(open.stream);
  }

  /** The page offers no methods; the caller gets an error at once instead of waiting for its limit. */
  #refuse({ id }, from) {
    this.#send({ rpc_ack: { request_id: id } }, [from]);
    this.#send({ rpc_response: { request_id: id, error: { code: NO_METHOD, message: 'Method not supported at destination' } } }, [from]);
  }

  #answered({ request_id: id, error, payload }) {
    const call = this.#calls.get(id);
    if (!call) return;
    if (error) call.reject(new RpcError(error.code ?? 0, error.message ?? ''));
    else call.resolve(payload ?? '');
  }

  /** Nothing more comes: reject all calls that wait for an answer. */
  close() {
    for (const call of [...this.#calls.values()]) call.reject(new RpcError(1503, 'the call is over'));
    this.#streams.clear();
  }
}

// The protobuf codec: plain objects ↔ bytes, for the messages that schema.js lists.
//
// proto3 as LiveKit uses it: defaults are left out and absent when read, maps are text to text, 64-bit integers are
// Numbers (exact up to 2^53), unknown fields and fields of another wire type are skipped, as the specification requires.

import { SCHEMA } from './schema.js';

const VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5;
const MAX_DEPTH = 32;
const toUtf8 = new TextEncoder();
const fromUtf8 = new TextDecoder();
const MAP_ENTRY = [{ name: 'key', number: 1, type: 'string', repeated: false }, { name: 'value', number: 2, type: 'string', repeated: false }];

function describe([name, [number, type]]) {
  return { name, number, type: type.replace('*', ''), repeated: type.startsWith('*') };
}
const FIELDS = new Map(Object.entries(SCHEMA).map(([message, fields]) => [message, Object.entries(fields).map(describe)]));
FIELDS.set('map entry', MAP_ENTRY);
const BY_NAME = new Map([...FIELDS].map(([message, fields]) => [message, new Map(fields.map((field) => [field.name, field]))]));
const BY_NUMBER = new Map([...FIELDS].map(([message, fields]) => [message, new Map(fields.map((field) => [field.number, field]))]));

class Writer {
  constructor() {
    this.bytes = [];
  }

  varint(value) {
    if (value < 0) {
      let rest = BigInt.asUintN(64, BigInt(value));
      for (; rest > 127n; rest >>= 7n) this.bytes.push(Number(rest & 127n) | 128);
      this.bytes.push(Number(rest));
      return;
    }
    for (; value > 127; value = Math.floor(value / 128)) this.bytes.push((value % 128) | 128);
    this.bytes.push(value);
  }

  key(number, wire) {
    this.varint(number * 8 + wire);
  }

  delimited(number, bytes) {
    this.key(number, BYTES);
    this.varint(bytes.length);
    for (const byte of bytes) this.bytes.push(byte);
  }

  fixed(number, wire, size, write) {
    this.key(number, wire);
    const view = new DataView(new ArrayBuffer(size));
    write(view);
    for (let i = 0; i < size; i++) this.bytes.push(view.getUint8(i));
  }

  field({ number, type }, value) {
    if (type === 'string') this.delimited(number, toUtf8.encode(value));
    else if (type === 'bytes') this.delimited(number, value);
    else if (type === 'int' || type === 'bool') {
      this.key(number, VARINT);
      this.varint(Number(value));
    } else if (type === 'float') this.fixed(number, FIXED32, 4, (view) => view.setFloat32(0, value, true));
    else if (type === 'double') this.fixed(number, FIXED64, 8, (view) => view.setFloat64(0, value, true));
    else if (type === 'map') for (const [key, text] of Object.entries(value)) this.delimited(number, encode('map entry', { key, value: text }));
    else this.delimited(number, encode(type, value));
  }
}

/** Return the bytes of `object`, a message of type `message`. Throws on a name that the message does not have. */
export function encode(message, object) {
  const writer = new Writer();
  for (const [name, value] of Object.entries(object)) {
    const field = BY_NAME.get(message).get(name);
    if (!field) throw new Error(`${message} has no field ${name}`);
    if (value === undefined || value === null) continue;
    if (field.repeated) for (const item of value) writer.field(field, item);
    else writer.field(field, value);
  }
  return new Uint8Array(writer.bytes);
}

class Reader {
  constructor(bytes) {
    this.bytes = bytes;
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.position = 0;
  }

  get atEnd() {
    return this.position >= this.bytes.length;
  }

  take(length) {
    const start = this.position;
    if (length > this.bytes.length - start) throw new Error('the message is cut off');
    this.position += length;
    return start;
  }

  varint() {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      const byte = this.bytes[this.take(1)];
      value |= BigInt(byte & 127) << shift;
      if (byte < 128) return Number(BigInt.asIntN(64, value));
    }
    throw new Error('a number is longer than ten bytes');
  }

  delimited() {
    const length = this.varint();
    if (length < 0) throw new Error('the message is cut off');
    const start = this.take(length);
    return this.bytes.subarray(start, start + length);
  }

  raw(wire) {
    if (wire === VARINT) return this.varint();
    if (wire === FIXED64) return this.view.getFloat64(this.take(8), true);
    if (wire === BYTES) return this.delimited();
    if (wire === FIXED32) return this.view.getFloat32(this.take(4), true);
    throw new Error(`wire type ${wire} is not known`);
  }
}

const WIRE = { int: VARINT, bool: VARINT, float: FIXED32, double: FIXED64 };

function convert(type, raw, depth) {
  if (type === 'bool') return raw !== 0;
  if (type === 'string') return fromUtf8.decode(raw);
  if (type === 'bytes') return raw.slice();
  if (type in WIRE) return raw;
  return decode(type, raw, depth + 1);
}

/** Return the message of type `message` in `bytes` as a plain object; fields with their default value are absent. */
export function decode(message, bytes, depth = 0) {
  if (depth > MAX_DEPTH) throw new Error('the message is nested too deeply');
  const reader = new Reader(bytes);
  const fields = BY_NUMBER.get(message);
  const out = {};
  while (!reader.atEnd) {
    const key = reader.varint();
    const raw = reader.raw(key & 7);
    const field = fields.get(Math.floor(key / 8));
    if (!field) continue;
    if ((key & 7) !== (WIRE[field.type] ?? BYTES)) {
      if (field.repeated && (key & 7) === BYTES) unpack(out, field, raw);
      continue;
    }
    if (field.type === 'map') {
      const entry = decode('map entry', raw, depth + 1);
      // No prototype: a key may be called `__proto__`.
      (out[field.name] ??= Object.create(null))[entry.key ?? ''] = entry.value ?? '';
    } else if (field.repeated) (out[field.name] ??= []).push(convert(field.type, raw, depth));
    else out[field.name] = convert(field.type, raw, depth);
  }
  return out;
}

function unpack(out, field, raw) {
  const reader = new Reader(raw);
  const list = (out[field.name] ??= []);
  while (!reader.atEnd) list.push(convert(field.type, reader.raw(WIRE[field.type]), 0));
}

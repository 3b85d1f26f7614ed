// Replies: the rich replies of a call: takes the agent's parts from the room, sends the caller's answers and files.

import { Parts, size } from './parts.js';

const TOPIC = 'vivavoce.parts';

export class Replies {
  #limits = null;                                        // of files, `{ max_bytes, media_types }`; null: none are taken
  #answers = 0;

  /** @param room Returns the room of the call, or null. */
  constructor(captions, view, room) {
    this.captions = captions;
    this.view = view;
    this.room = room;
    this.parts = new Parts(captions, {
      answer: (answer, shown) => this.#answer(answer, shown),
      status: (text) => view.status(text),
      uploads: (limits) => this.#takesFiles(limits),
    });
  }

  /** A new call begins. */
  clear() {
    this.parts.clear();
    this.#takesFiles(null);
  }

  /** Take a text stream, if the agent has sent a part with it. */
  take(room, { topic, from, text, isDone }) {
    if (topic === TOPIC && isDone && from === room.agent?.identity) this.parts.take(text, room.agent.name || 'Agent');
  }

  /** Take a byte stream, if it is the agent's. */
  takeBytes(room, { topic, from, attributes, bytes }) {
    if (topic === TOPIC && from === room.agent?.identity) this.parts.takeBytes(attributes.part, bytes);
  }

  #takesFiles(limits) {
    this.#limits = limits;
    this.view.takesFiles(limits);
  }

  /** Send an answer to a part; `shown` is the caller's choice in words. Return whether it was sent. */
  #answer(answer, shown = '') {
    try {
      this.room().sendAnswer(answer);
    } catch (error) {
      console.info('not sent', error);
      this.view.alert('That was not sent: the connection is interrupted. Try again in a moment.');
      return false;
    }
    if (shown) this.captions.message(`answer ${this.#answers++}`, 'user', 'You', shown);
    return true;
  }

  /** Send files to the agent, one after another. */
  async sendFiles(files) {
    for (const file of files) {
      const room = this.room();
      if (!room || !this.#limits) return;
      if (file.size > this.#limits.max_bytes) {
        this.#tell(`${file.name} was not sent: it has ${size(file.size)}, and at most ${size(this.#limits.max_bytes)} are taken.`);
        continue;
      }
      try {
        const bytes = new Uint8Array(await file.arrayBuffer());
        await room.sendFile({ name: file.name, type: file.type || 'application/octet-stream', bytes }, (id) => this.parts.uploading(id, file.name));
      } catch (error) {
        console.info('file not sent', error);
        this.#tell(`${file.name} was not sent: the connection is interrupted.`);
      }
    }
  }

  #tell(text) {
    this.captions.note(text);
    this.view.status(text);
  }
}

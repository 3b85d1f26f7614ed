// Captions: the conversation as a list of entries: spoken words of both sides, typed texts, tool calls.
//
// Names and texts come from outside, so they only ever become text nodes.

const SEGMENT = 'lk.segment_id', FINAL = 'lk.transcription_final', SPEAKERS = 'vivavoce.speakers';
const MAX_ENTRIES = 500;
const NEAR_END = 80;                                     // pixels
const SLACK = 50;                                        // ms by which words may reach the page later than a turn record
const LATEST = 3_000;                                    // ms by which a turn record may be late; one that is later begins another session

/** Return an element with that text, which is never read as HTML. */
export function element(tag, className, text = '') {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}

/** Return a tool's arguments as `day: friday, people: 4`; text that is no JSON object stays unchanged. */
export function briefly(json) {
  let value;
  try {
    value = JSON.parse(json);
  } catch {
    return json;
  }
  if (value === null || typeof value !== 'object' || Array.isArray(value)) return json;
  return Object.entries(value).map(([name, item]) => `${name}: ${typeof item === 'string' ? item : JSON.stringify(item)}`).join(', ');
}

export class Captions {
  #entries = new Map();                                  // key -> <li>
  #speakers = new Set();                                 // the voices that a recogniser has told apart
  #started = -Infinity;                                  // when the agent's session began, by the page's clock

  /** @param list The <ol>; its parent scrolls. */
  constructor(list) {
    this.list = list;
    this.frame = list.parentElement;
    this.isAtEnd = true;                                 // until the reader scrolls up
    this.frame.addEventListener('scroll', () => {
      const { clientHeight, scrollHeight, scrollTop } = this.frame;
      if (clientHeight) this.isAtEnd = scrollHeight - scrollTop - clientHeight < NEAR_END;
    });
    new ResizeObserver(() => this.follow()).observe(this.frame);
  }

  /** Keep the end in sight, unless the reader has scrolled up. */
  follow() {
    if (this.isAtEnd) this.frame.scrollTop = this.frame.scrollHeight;
  }

  clear() {
    this.#entries.clear();
    this.#speakers.clear();
    this.isAtEnd = true;
    this.list.replaceChildren();
  }

  /**
   * Show a text stream of topic lk.transcription. A newer stream of the same segment replaces the older one.
   * @param side 'user' or 'agent'; `name` is the speaker shown.
   * @returns the entry's text if it has just become final, else ''.
   */
  transcription(stream, side, name) {
    const key = `${side} ${stream.attributes[SEGMENT] ?? stream.id}`;
    const isFinal = stream.isDone && stream.attributes[FINAL] !== 'false';
    const text = stream.text.trim();
    if (!text) {
      if (stream.isDone) this.#drop(key);
      return '';
    }
    const wasFinal = this.#entries.get(key)?.dataset.final === 'true';
    this.#write(key, side, name + this.#voices(stream.attributes[SPEAKERS]), text, isFinal);
    return isFinal && !wasFinal ? text : '';
  }

  /** Return the speakers of a transcript behind a name, as soon as there are two in the call. */
  #voices(speakers = '') {
    for (const speaker of speakers.split(', ')) if (speaker) this.#speakers.add(speaker);
    return speakers && this.#speakers.size > 1 ? ` · speaker ${speakers}` : '';
  }

  /** Show a message that was typed, by the caller or by the agent. */
  message(key, side, name, text, isFinal = true) {
    if (text.trim()) this.#write(`message ${key}`, side, name, text, isFinal).classList.add('typed');
  }

  /**
   * Show the tools of a turn at the place of their calls: a record comes at the turn's end, after later words of the caller.
   * @param record A turn record; its times are seconds from the session's start.
   */
  tools({ tools, heard_text: heard, ended_at: endedAt }) {
    const started = this.#startOf(endedAt);
    for (const { name, arguments: given, output, is_error: isError, seconds, started_at: startedAt } of tools) {
      const entry = element('li', isError ? 'tool failed' : 'tool');
      const call = element('code', 'call', `${name}(${briefly(given ?? '')})`);
      const result = element('span', 'result', output ?? '');
      entry.append(element('span', 'kind', isError ? 'Tool failed' : 'Tool'), call, result, element('span', 'took', `${((seconds ?? 0) * 1000).toFixed(0)} ms`));
      entry.began = started + 1000 * Math.min(startedAt ?? endedAt ?? 0, endedAt ?? 0);
      this.list.insertBefore(entry, this.#next(entry.began, 1000 * (seconds ?? 0), String(heard ?? '').trim()));
    }
    this.#trim();
  }

  /** Return when the session began. Its records may be late, but never early: the least late one so far tells it. */
  #startOf(endedAt = 0) {
    const started = performance.now() - 1000 * endedAt;
    if (endedAt === 0) return started;                   // a record without times
    if (started < this.#started || started > this.#started + LATEST) this.#started = started;
    return this.#started;
  }

  /** Return the first entry that came after a call; words of the agent before the call may sound after it. */
  #next(calledAt, took, heard) {
    for (const entry of this.list.children) {
      if (entry.began <= calledAt + SLACK) continue;
      if (!entry.classList.contains('agent')) return entry;
      const words = entry.querySelector('.words').textContent;
      const isPreamble = words.length < heard.length && heard.startsWith(words);
      if (!isPreamble && entry.began > calledAt + took) return entry;
    }
    return null;
  }

  /** Mark the agent's answer that was cut off after these words. */
  cutOff(heard) {
    const answer = this.#answer(heard);
    if (answer && !answer.querySelector('.cut')) answer.append(element('span', 'cut', 'cut off here'));
    this.follow();
  }

  /** The newest answer of exactly these words. */
  #answer(heard) {
    const words = String(heard).trim();
    const answers = [...this.list.querySelectorAll('.agent')].reverse();
    return words ? answers.find((entry) => entry.querySelector('.words').textContent === words) : undefined;
  }

  /** Open entries get no more text and stay unchanged. */
  settle() {
    for (const entry of this.#entries.values()) entry.dataset.final = 'true';
    this.#entries.clear();
  }

  /** Show a message about the call itself. */
  note(text) {
    this.#append(element('li', 'note', text));
  }

  /** Put an entry at the end, or in the place of an older one. */
  place(entry, before) {
    if (before?.parentElement === this.list) {
      entry.began = before.began;
      before.replaceWith(entry);
      this.follow();
    } else this.#append(entry);
  }

  #append(entry) {
    entry.began = performance.now();
    this.list.append(entry);
    this.#trim();
  }

  #write(key, side, name, text, isFinal) {
    let entry = this.#entries.get(key);
    if (!entry) {
      entry = element('li', `said ${side}`);
      entry.append(element('span', 'who', name), element('p', 'words'), element('span', 'interim', side === 'user' ? 'interim: still listening' : 'interim: still speaking'));
      this.#entries.set(key, entry);
      this.#append(entry);
    }
    entry.querySelector('.who').textContent = name;
    entry.querySelector('.words').textContent = text;
    entry.dataset.final = String(isFinal);
    this.follow();
    return entry;
  }

  #drop(key) {
    this.#entries.get(key)?.remove();
    this.#entries.delete(key);
  }

  #trim() {
    while (this.list.childElementCount > MAX_ENTRIES) {
      const [first] = this.list.children;
      for (const [key, entry] of this.#entries) if (entry === first) this.#entries.delete(key);
      first.remove();
    }
    this.follow();
  }
}

// Turns: the parts of the silence before each answer, from the agent's turn records.

const STAGES = {
  vad_silence: 'VAD silence',
  transcript_wait: 'Transcript',
  end_of_turn_decision: 'Turn decision',
  endpointing_wait: 'Endpointing',
  hook: 'Your hook',
  retrieval: 'Search',
  model_first_token: 'First token',
  flow_first_text: 'First text of flow',
  first_sentence: 'First sentence',
  tts_first_byte: 'First audio',
  tools: 'Tools',
  handoff: 'Handoff',
  queue: 'Queue',
  playout: 'Playout',
  unattributed: 'Session',
};
const OWNERS = { config: 'Settings', provider: 'Provider', network: 'Network', user_code: 'Your code', runtime: 'Runtime' };
const KINDS = { say: 'Said by the code', reply: 'Reply asked for by the code', turn: 'Answer' };
const MAX_TURNS = 100;

function element(tag, className, text = '') {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}
const seconds = (value) => `${value.toFixed(2)} s`;
const milliseconds = (value) => `${Math.round(value * 1000)} ms`;
const isNumber = (value) => typeof value === 'number' && Number.isFinite(value);

/** Return the middle one of some numbers; of two middle ones their mean. */
export function median(values) {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

/** Read a turn record; null if it is none. */
export function parseRecord(json) {
  let record;
  try {
    record = JSON.parse(json);
  } catch {
    return null;
  }
  if (record === null || typeof record !== 'object' || typeof record.turn_id !== 'string') return null;
  const stages = (Array.isArray(record.stages) ? record.stages : []).filter((stage) => stage && isNumber(stage.seconds));
  return { ...record, stages, tools: Array.isArray(record.tools) ? record.tools : [], e2e_latency: isNumber(record.e2e_latency) ? record.e2e_latency : null };
}

function waterfall(stages) {
  const total = stages.reduce((sum, stage) => sum + stage.seconds, 0) || 1;
  const table = element('table', 'waterfall');
  table.setAttribute('aria-label', 'Where the time went, in order');
  const body = table.createTBody();
  let start = 0;
  for (const { name, owner, seconds: length } of stages) {
    const row = body.insertRow();
    const head = element('th', '', STAGES[name] ?? String(name));
    head.scope = 'row';
    head.title = OWNERS[owner] ?? String(owner);
    const bar = element('span', 'bar');
    bar.dataset.owner = owner in OWNERS ? owner : 'runtime';
    bar.style.marginInlineStart = `${(start / total) * 100}%`;
    bar.style.width = `${(length / total) * 100}%`;
    const track = element('td', 'track');
    track.append(bar);
    row.append(head, track, element('td', 'time', milliseconds(length)));
    start += length;
  }
  return table;
}

export class Turns {
  #latencies = [];
  #count = 0;

  /** @param parts `{ list, summary, empty, legend }`: elements. */
  constructor(parts) {
    this.parts = parts;
    for (const [owner, name] of Object.entries(OWNERS)) {
      const item = element('li', '', name);
      item.dataset.owner = owner;
      item.hidden = true;
      parts.legend.append(item);
    }
    this.clear();
  }

  clear() {
    this.#latencies = [];
    this.#count = 0;
    this.parts.list.replaceChildren();
    this.#summarise();
  }

  /** Show a record, the newest one on top and open. */
  add(record) {
    this.#count += 1;
    if (record.e2e_latency !== null) this.#latencies.push(record.e2e_latency);
    const owners = new Set(record.stages.map(({ owner }) => owner));
    for (const item of this.parts.legend.children) item.hidden &&= !owners.has(item.dataset.owner);
    for (const open of this.parts.list.querySelectorAll('details[open]')) open.open = false;
    const item = element('li', 'turn');
    const details = document.createElement('details');
    details.open = true;
    details.append(this.#headline(record), ...this.#facts(record));
    item.append(details);
    this.parts.list.prepend(item);
    while (this.parts.list.childElementCount > MAX_TURNS) this.parts.list.lastElementChild.remove();
    this.#summarise();
  }

  #headline(record) {
    const line = document.createElement('summary');
    const what = record.user_text ? `“${record.user_text}”` : (KINDS[record.kind] ?? KINDS.turn);
    line.append(element('span', 'number', String(this.#count)), element('span', 'what', what));
    if (record.outcome && record.outcome !== 'completed') line.append(element('span', `outcome ${record.outcome === 'interrupted' ? 'cut' : 'bad'}`, String(record.outcome)));
    line.append(element('span', 'latency', record.e2e_latency === null ? '–' : seconds(record.e2e_latency)));
    return line;
  }

  #facts(record) {
    const facts = [];
    if (record.stages.length) facts.push(waterfall(record.stages));
    else facts.push(element('p', 'quiet', record.e2e_latency === null ? 'Nobody waited for this one: it does not answer a turn of yours.' : 'The agent sent no stages.'));
    for (const tool of record.tools) {
      const line = element('p', tool.is_error ? 'used failed' : 'used');
      line.append(element('code', '', String(tool.name)), ` ${tool.is_error ? 'failed after' : 'took'} ${milliseconds(isNumber(tool.seconds) ? tool.seconds : 0)}`);
      facts.push(line);
    }
    if (record.error) facts.push(element('p', 'used failed', String(record.error)));
    return facts;
  }

  #summarise() {
    const { summary, empty, legend } = this.parts;
    empty.hidden = this.#count > 0;
    legend.hidden = this.#latencies.length === 0;
    summary.textContent = this.#latencies.length ? `Median ${seconds(median(this.#latencies))} over ${this.#latencies.length} ${this.#latencies.length === 1 ? 'answer' : 'answers'}` : '';
  }
}

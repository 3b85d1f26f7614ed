// Parts: rich replies of the agent in the conversation: texts, pictures, files, choices and forms, and their answers.
//
// Everything in them comes from outside: it only ever becomes text nodes, checked links and blobs of known types.

import { element } from './captions.js';
import { SchemaForm } from './forms.js';
import { markdown } from './markdown.js';

const PICTURES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);
const UPLOADS = {
  received: 'was sent.',
  not_wanted: 'was not sent: the agent takes no files now.',
  too_large: 'was not sent: it is too large.',
  too_many: 'was not sent: there were too many files.',
  wrong_type: 'was not sent: the agent does not take files of that type.',
  incomplete: 'did not arrive whole. Try again.',
};

/** Return a number of bytes for people. */
export function size(bytes) {
  if (bytes < 1000) return `${bytes} bytes`;
  return bytes < 1e6 ? `${(bytes / 1000).toFixed(0)} kB` : `${(bytes / 1e6).toFixed(1)} MB`;
}

export class Parts {
  #shown = new Map();                                    // id -> { message, entry, url, showBytes, answered, again }
  #uploads = new Map();                                  // id of a transfer -> name of the file
  #name = 'Agent';

  /**
   * @param captions Where parts stand in the conversation.
   * @param actions `answer(answer)` sends an answer, false if it cannot; `status(text)` has a screen reader read a text;
   *   `uploads(limits)` is called when the agent takes files.
   */
  constructor(captions, actions) {
    this.captions = captions;
    this.actions = actions;
  }

  clear() {
    for (const { url } of this.#shown.values()) if (url) URL.revokeObjectURL(url);
    this.#shown.clear();
    this.#uploads.clear();
  }

  /** Take a message of the agent, whose name is shown. */
  take(text, name) {
    let message;
    try {
      message = JSON.parse(text);
    } catch {
      console.warn('a part cannot be read');
      return;
    }
    this.#name = name;
    if (message.type === 'answer') this.#shown.get(message.part)?.answered?.(message);
    else if (message.type === 'uploads') this.actions.uploads(message);
    else if (message.type === 'upload') this.#uploaded(message);
    else if (typeof message.id === 'string') this.#show(message);
  }

  /** Take the bytes of a picture or a file. */
  takeBytes(partId, bytes) {
    const shown = this.#shown.get(partId);
    if (!shown?.showBytes || shown.url) return;
    const { message } = shown;
    const isPicture = message.type === 'image' && PICTURES.has(message.media_type);
    // Any other type could run as a page of this one when it is opened.
    shown.url = URL.createObjectURL(new Blob([bytes], { type: isPicture ? message.media_type : 'application/octet-stream' }));
    shown.showBytes(shown.url);
  }

  #show(message) {
    const before = this.#shown.get(message.id);
    if (before && JSON.stringify(before.message) === JSON.stringify(message)) {  // sent again, as the call was interrupted
      before.again?.();
      return;
    }
    const content = this.#content(message);
    if (!content) return;                                // for another page than this one
    const entry = element('li', `part ${message.type}`);
    entry.append(element('span', 'who', this.#name), ...content.nodes);
    this.captions.place(entry, before?.entry);
    this.#shown.set(message.id, { message, entry, url: null, ...content });
    if (!before) this.actions.status(content.announced);
  }

  #content(message) {
    if (message.type === 'markdown') return this.#markdown(message);
    if (message.type === 'image') return this.#image(message);
    if (message.type === 'file') return this.#file(message);
    if (message.type === 'options') return this.#options(message);
    if (message.type === 'form') return this.#form(message);
    return null;
  }

  #markdown({ text }) {
    const words = element('div', 'rich');
    words.append(...markdown(String(text)));
    return { nodes: [words], announced: 'The agent shows a text.' };
  }

  #image({ alt }) {
    const frame = element('p', 'picture', 'Picture …');
    const showBytes = (url) => {
      const picture = element('img', '');
      picture.alt = alt || 'A picture of the agent';
      picture.addEventListener('load', () => this.captions.follow());
      picture.addEventListener('error', () => frame.replaceChildren('The picture cannot be shown.'));
      picture.src = url;
      frame.replaceChildren(picture);
    };
    return { nodes: [frame], showBytes, announced: `The agent shows a picture${alt ? `: ${alt}` : ''}.` };
  }

  #file({ name, size: bytes }) {
    const line = element('p', 'download', `${name} …`);
    const showBytes = (url) => {
      const saving = element('a', '', `${name} (${size(bytes)})`);
      saving.href = url;
      saving.download = name;
      line.replaceChildren(saving);
    };
    return { nodes: [line], showBytes, announced: `The agent sends the file ${name}.` };
  }

  #options({ id, text, options, chosen }) {
    const question = element('p', 'question', text || 'Choose one:');
    question.id = `question-${id}`;
    const group = element('div', 'choices');
    group.setAttribute('role', 'group');
    group.setAttribute('aria-labelledby', question.id);
    const buttons = options.map((option, index) => {
      const button = element('button', 'choice', String(option));
      button.type = 'button';
      button.addEventListener('click', () => {
        if (this.actions.answer({ part: id, choice: index }, String(option))) settle(index);
      });
      group.append(button);
      return button;
    });
    const settle = (index) => buttons.forEach((button, each) => {
      button.disabled = index !== null;
      button.setAttribute('aria-pressed', String(each === index));
    });
    const note = element('p', 'quiet');
    settle(typeof chosen === 'number' ? chosen : null);
    const answered = ({ outcome }) => {
      if (outcome !== 'accepted') note.textContent = 'This choice was answered already.';
    };
    return { nodes: [question, group, note], answered, again: () => settle(typeof chosen === 'number' ? chosen : null), announced: `${text || 'A choice'}: ${options.join(', ')}` };
  }

  #form({ id, title, submit, schema, state }) {
    const form = element('form', 'sheet-form');
    form.noValidate = true;
    form.autocomplete = 'off';
    form.setAttribute('aria-label', title || 'Form');
    const fields = new SchemaForm(schema ?? {});
    const all = element('fieldset', 'all');
    const button = element('button', 'primary', submit || 'Send');
    const note = element('p', 'quiet');
    note.setAttribute('role', 'status');
    all.append(...fields.rows, button);
    form.append(element('h3', '', title), all, note);
    const close = (text) => {
      all.disabled = true;
      note.textContent = text;
    };
    form.addEventListener('submit', (event) => {
      event.preventDefault();
      fields.clearErrors();
      if (this.actions.answer({ part: id, values: fields.values() })) close('Sending …');
    });
    const answered = ({ outcome, errors }) => {
      if (outcome === 'accepted') close('Sent.');
      else if (outcome === 'closed') close('This form is closed.');
      else {
        all.disabled = false;
        note.textContent = outcome === 'failed' ? 'The form could not be checked. Try again.' : '';
        if (outcome === 'invalid') fields.showErrors(errors ?? []);
      }
    };
    const again = () => {                                // an answer on its way was lost
      all.disabled = false;
      note.textContent = '';
    };
    if (state !== 'open') close(state === 'submitted' ? 'Sent.' : 'This form is closed.');
    return { nodes: [form], answered, again: state === 'open' ? again : undefined, announced: `The agent shows the form ${title}.` };
  }

  // --- files of the caller

  /** A file is on its way to the agent. */
  uploading(id, name) {
    this.#uploads.set(id, name);
    this.captions.note(`Sending ${name} …`);
  }

  #uploaded({ upload, outcome }) {
    const name = this.#uploads.get(upload) ?? 'A file';
    this.#uploads.delete(upload);
    const text = `${name} ${UPLOADS[outcome] ?? UPLOADS.incomplete}`;
    this.captions.note(text);
    this.actions.status(text);
  }
}

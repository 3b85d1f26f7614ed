// Forms: the fields of a JSON schema, their values, and the errors of a model beside them.

import { element } from './captions.js';

const MAX_DEPTH = 4;
const LONG = 200;                                        // characters from which a text gets several lines
const INPUTS = { date: 'date', time: 'time', 'date-time': 'datetime-local', email: 'email', password: 'password', uri: 'url' };
let forms = 0;

/** Return the schema behind references and `null` alternatives. */
function resolved(schema, root, depth = 0) {
  let found = schema;
  if (found.$ref && depth < 8) {
    const name = decodeURIComponent(String(found.$ref).split('/').pop());
    found = { ...resolved(root.$defs?.[name] ?? {}, root, depth + 1), ...found, $ref: undefined };
  }
  if (found.allOf?.length === 1) found = { ...resolved(found.allOf[0], root, depth + 1), ...found, allOf: undefined };
  const kinds = found.anyOf ?? found.oneOf;
  if (kinds && depth < 8) {
    const others = kinds.filter((each) => each.type !== 'null');
    const isNullable = others.length < kinds.length;
    const inner = others.length === 1 ? resolved(others[0], root, depth + 1) : (others.map((each) => resolved(each, root, depth + 1)).find(({ type }) => type === 'string') ?? {});
    found = { ...inner, ...found, anyOf: undefined, oneOf: undefined, isNullable };
  }
  return found;
}

const listed = (schema) => (schema.const !== undefined ? [schema.const] : Array.isArray(schema.enum) ? schema.enum : null);
const shown = (value) => (typeof value === 'string' ? value : JSON.stringify(value));

/** One field: `{ row, input, read() }`; `read` returns its value, or undefined for none. */
function field(name, given, root, { id, isRequired, depth }) {
  const schema = resolved(given, root);
  const label = String(schema.title ?? name);
  if (schema.type === 'object' && schema.properties && depth < MAX_DEPTH) return group(label, schema, root, { id, depth });
  const choices = listed(schema);
  const made = choices ? choice(schema, choices, isRequired)
    : schema.type === 'boolean' ? tick(schema)
      : schema.type === 'array' && listed(resolved(schema.items ?? {}, root)) ? choicesOf(schema, listed(resolved(schema.items, root)), label)
        : schema.type === 'array' && resolved(schema.items ?? {}, root).type === 'string' ? lines(schema)
          : schema.type === 'integer' || schema.type === 'number' ? number(schema)
            : schema.type === 'string' ? text(schema)
              : json(schema);
  const row = made.row ?? element('p', schema.type === 'boolean' ? 'check' : 'field');
  const hint = schema.description ? element('small', '', String(schema.description)) : null;
  const error = element('span', 'error');
  error.id = `${id}-error`;
  error.hidden = true;
  if (!made.row) {
    const caption = element('label', '', isRequired && schema.type !== 'boolean' ? `${label} (required)` : label);
    caption.htmlFor = made.input.id = id;
    row.append(...(schema.type === 'boolean' ? [made.input, caption] : [caption, made.input]));
  }
  if (hint) {
    hint.id = `${id}-hint`;
    row.append(hint);
  }
  row.append(error);
  const about = [hint?.id, error.id].filter(Boolean).join(' ');
  made.input.setAttribute('aria-describedby', about);
  if (isRequired && schema.type !== 'boolean') made.input.setAttribute('aria-required', 'true');
  return { row, input: made.input, error, read: made.read, isNull: isRequired && schema.isNullable };
}

function choice(schema, choices, isRequired) {
  const input = element('select', '');
  const hasDefault = choices.includes(schema.default);
  if (!hasDefault || !isRequired) input.append(new Option('', ''));
  choices.forEach((each, index) => input.append(new Option(shown(each), String(index), false, hasDefault && each === schema.default)));
  return { input, read: () => (input.value === '' ? undefined : choices[Number(input.value)]) };
}

function tick(schema) {
  const input = element('input', '');
  input.type = 'checkbox';
  input.checked = schema.default === true;
  return { input, read: () => input.checked };
}

function choicesOf(schema, choices, label) {
  const row = element('fieldset', 'field');
  row.append(element('legend', '', label));
  const boxes = choices.map((each) => {
    const box = element('input', '');
    box.type = 'checkbox';
    box.checked = Array.isArray(schema.default) && schema.default.includes(each);
    const caption = element('label', 'check', '');
    caption.append(box, element('span', '', shown(each)));
    row.append(caption);
    return box;
  });
  return { row, input: boxes[0], read: () => choices.filter((_, index) => boxes[index].checked) };
}

function lines(schema) {
  const input = element('textarea', '');
  input.rows = 3;
  input.placeholder = 'One on each line';
  input.value = Array.isArray(schema.default) ? schema.default.join('\n') : '';
  return { input, read: () => input.value.split('\n').map((each) => each.trim()).filter(Boolean) };
}

function number(schema) {
  const input = element('input', '');
  input.type = 'text';
  input.inputMode = schema.type === 'integer' ? 'numeric' : 'decimal';
  if (schema.default !== undefined && schema.default !== null) input.value = String(schema.default);
  return {
    input,
    read: () => {
      const given = input.value.trim();
      if (given === '') return undefined;
      const value = Number(given);
      return Number.isFinite(value) ? value : given;     // the model says why it is no number
    },
  };
}

function text(schema) {
  const isLong = !INPUTS[schema.format] && (schema.maxLength ?? 0) > LONG;
  const input = element(isLong ? 'textarea' : 'input', '');
  if (isLong) input.rows = 4;
  else input.type = schema.writeOnly ? 'password' : (INPUTS[schema.format] ?? 'text');
  if (input.type === 'password') input.autocomplete = 'off';
  if (schema.maxLength) input.maxLength = schema.maxLength;
  const before = typeof schema.default === 'string' ? schema.default : '';
  input.value = before;
  return { input, read: () => (input.value.trim() === '' && !before ? undefined : input.value) };
}

function json(schema) {
  const input = element('textarea', '');
  input.rows = 3;
  input.placeholder = 'JSON';
  if (schema.default !== undefined) input.value = JSON.stringify(schema.default);
  return {
    input,
    read: () => {
      if (input.value.trim() === '') return undefined;
      try {
        return JSON.parse(input.value);
      } catch {
        return input.value;
      }
    },
  };
}

function group(label, schema, root, { id, depth }) {
  const row = element('fieldset', 'group');
  row.append(element('legend', '', label));
  const fields = fieldsOf(schema, root, id, depth + 1);
  for (const { row: inner } of fields.values()) row.append(inner);
  return { row, fields, input: fields.values().next().value?.input, read: () => valuesOf(fields) };
}

function fieldsOf(schema, root, id, depth) {
  const required = new Set(schema.required ?? []);
  return new Map(Object.entries(schema.properties ?? {}).map(([name, each], index) =>
    [name, field(name, each, root, { id: `${id}-${index}`, isRequired: required.has(name), depth })]));
}

function valuesOf(fields) {
  const values = {};
  for (const [name, each] of fields) {
    const value = each.read();
    if (value !== undefined) Object.defineProperty(values, name, { value, enumerable: true });  // also `__proto__`
    else if (each.isNull) values[name] = null;
  }
  return values;
}

export class SchemaForm {
  /** @param schema A JSON schema of an object. */
  constructor(schema) {
    this.id = `form-${++forms}`;
    const root = resolved(schema, schema);
    this.fields = fieldsOf(root, schema, this.id, 0);
    this.problem = element('p', 'error');
    this.problem.setAttribute('role', 'alert');
    this.problem.hidden = true;
  }

  get rows() {
    return [...[...this.fields.values()].map(({ row }) => row), this.problem];
  }

  values() {
    return valuesOf(this.fields);
  }

  clearErrors() {
    this.problem.hidden = true;
    const clear = (fields) => {
      for (const each of fields.values()) {
        if (each.fields) clear(each.fields);
        else {
          each.error.hidden = true;
          each.input.removeAttribute('aria-invalid');
        }
      }
    };
    clear(this.fields);
  }

  /** Show errors `{ path, message }` beside their fields, those of no field below all; focus the first. */
  showErrors(errors) {
    this.clearErrors();
    let first = null;
    const others = [];
    for (const { path, message } of errors) {
      const found = this.#find(path ?? []);
      if (!found) {
        others.push(message);
        continue;
      }
      found.error.textContent = found.error.hidden ? message : `${found.error.textContent}; ${message}`;
      found.error.hidden = false;
      found.input.setAttribute('aria-invalid', 'true');
      first ??= found.input;
    }
    this.problem.textContent = others.join('; ') || 'Some fields need another look.';
    this.problem.hidden = false;
    first?.focus();
  }

  #find(path) {
    let fields = this.fields;
    for (const step of path) {
      const found = fields?.get(step);
      if (!found) return null;
      if (!found.fields) return found;
      fields = found.fields;
    }
    return null;
  }
}

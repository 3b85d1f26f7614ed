// Markdown: turns a text of the agent into elements. The text only ever becomes text nodes; links are checked.
// Each pattern takes time in proportion to the text: no repetition may give signs up to another one and then fail.

const SCHEMES = new Set(['http:', 'https:', 'mailto:', 'tel:']);
const MAX_DEPTH = 12;
const LINK = /!?\[([^[\]\n]{0,500})\]\(<?([^()\s<>]{1,2000})>?(?:\s+"[^"\n]{0,200}")?\)/y;
const ADDRESS = /https?:\/\/[^\s<>"()[\]]{1,2000}/y;
const ESCAPED = /\\([!-/:-@[-`{-~])/y;
const PAIRS = [['**', 'strong'], ['__', 'strong'], ['~~', 'del'], ['*', 'em'], ['_', 'em']];
const TICKS = /`{1,8}/y;
const ITEM = /^ {0,3}([-*+]|\d{1,9}[.)])[ \t]+([^]*)/;
const FENCE = /^ {0,3}(`{3,}|~{3,})([^]*)/;
const LANGUAGE = /^[\w+#.-]*$/;
const HEADING = /^ {0,3}(#{1,6})[ \t]([^]*)/;
const RULE = /^ {0,3}([-*_])(?:[ \t]*\1){2,}[ \t]*$/;

function make(tag, ...children) {
  const made = document.createElement(tag);
  for (const child of children.flat()) made.append(child);  // one by one: a call takes only so many arguments
  return made;
}

/** Return a text without these signs at its end; a pattern for that takes the square of the time. */
function withoutEnd(text, signs) {
  let end = text.length;
  while (end > 0 && signs.includes(text[end - 1])) end -= 1;
  return text.slice(0, end);
}

/** Return the marks that begin or end a block of code in this line; empty if it does neither. */
function fenceOf(line) {
  const found = line.match(FENCE);
  return found && LANGUAGE.test(found[2].trim()) ? found[1] : '';
}

/** Return a link if the address is a harmless one, else the text alone. */
export function link(text, address) {
  let url;
  try {
    url = new URL(address);
  } catch {
    return document.createTextNode(text);
  }
  if (!SCHEMES.has(url.protocol)) return document.createTextNode(text);
  const made = make('a', text || address);
  made.href = url.href;
  made.target = '_blank';
  made.rel = 'noopener noreferrer nofollow';
  return made;
}

const matchAt = (pattern, text, at) => {
  pattern.lastIndex = at;
  return pattern.exec(text);
};

/** Return the nodes of one paragraph's text. */
function inline(text, depth = 0) {
  const nodes = [];
  const missing = new Set();                             // marks without an end, so that a text is searched once for each
  let plain = '';
  const add = (node) => {
    if (plain) nodes.push(document.createTextNode(plain));
    plain = '';
    nodes.push(node);
  };
  const close = (mark, from) => {
    if (missing.has(mark)) return -1;
    const end = text.indexOf(mark, from);
    if (end < 0) missing.add(mark);
    return end;
  };
  for (let at = 0; at < text.length;) {
    const sign = text[at];
    let found;
    if (sign === '\\' && (found = matchAt(ESCAPED, text, at))) {
      plain += found[1];
      at += 2;
    } else if (sign === '`') {
      const mark = matchAt(TICKS, text, at)[0];
      const end = close(mark, at + mark.length);
      if (end > at) {
        add(make('code', text.slice(at + mark.length, end).trim()));
        at = end + mark.length;
      } else {
        plain += mark;
        at += mark.length;
      }
    } else if ((sign === '[' || (sign === '!' && text[at + 1] === '[')) && (found = matchAt(LINK, text, at))) {
      add(link(found[1] || found[2], found[2]));         // a picture of another host is a link, never loaded
      at += found[0].length;
    } else if (sign === 'h' && (found = matchAt(ADDRESS, text, at))) {
      const address = withoutEnd(found[0], ".,;:!?'*_~");
      add(link(address, address));
      at += address.length;
    } else if (sign === '\n') {
      plain = plain.trimEnd();
      add(make('br'));
      at += 1;
    } else {
      const pair = depth < MAX_DEPTH ? PAIRS.find(([mark]) => text.startsWith(mark, at)) : undefined;
      const end = pair ? emphasised(text, at, pair[0], close) : -1;
      if (end < 0) {
        plain += sign;
        at += 1;
      } else {
        add(make(pair[1], inline(text.slice(at + pair[0].length, end), depth + 1)));
        at = end + pair[0].length;
      }
    }
  }
  if (plain) nodes.push(document.createTextNode(plain));
  return nodes;
}

/** Return the end of the text between two marks; -1 if the sign at `at` is no mark: 2 * 3, snake_case. */
function emphasised(text, at, mark, close) {
  const next = text[at + mark.length];
  if (next === undefined || /\s/.test(next)) return -1;
  if (mark[0] === '_' && /[\p{L}\p{N}]/u.test(text[at - 1] ?? '')) return -1;
  const end = close(mark, at + mark.length + 1);
  return end > 0 && !/\s/.test(text[end - 1]) ? end : -1;
}

/** Return the list that begins at line `at`, and the line after it. Deeper items belong to the one above. */
function list(lines, at, depth) {
  const [, first] = lines[at].match(ITEM);
  const isOrdered = /\d/.test(first);
  const made = make(isOrdered ? 'ol' : 'ul');
  if (isOrdered && Number.parseInt(first, 10) !== 1) made.start = Number.parseInt(first, 10);
  while (at < lines.length) {
    const item = lines[at].match(ITEM);
    if (!item || /\d/.test(item[1]) !== isOrdered) break;
    const inner = [item[2]];
    for (at += 1; at < lines.length; at++) {
      const isDeeper = /^(?: {2,}|\t)/.test(lines[at]);
      if (!isDeeper && !(lines[at].trim() && !ITEM.test(lines[at]) && inner.at(-1).trim() && !starts(lines[at]))) break;
      inner.push(lines[at].replace(/^(?: {1,4}|\t)/, ''));
    }
    const content = blocks(inner, depth + 1);
    made.append(make('li', content.length && content[0].tagName === 'P' ? [...content[0].childNodes, ...content.slice(1)] : content));
    while (at < lines.length && !lines[at].trim() && ITEM.test(lines[at + 1] ?? '')) at += 1;
  }
  return [made, at];
}

const starts = (line) => HEADING.test(line) || fenceOf(line) !== '' || RULE.test(line) || ITEM.test(line) || /^ {0,3}>/.test(line);

function blocks(lines, depth = 0) {
  const made = [];
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    const fence = fenceOf(line);
    const heading = line.match(HEADING);
    if (!line.trim()) at += 1;
    else if (fence) {
      let end = at + 1;
      while (end < lines.length && !fenceOf(lines[end]).startsWith(fence)) end += 1;
      made.push(make('pre', make('code', lines.slice(at + 1, end).join('\n'))));
      at = end + 1;
    } else if (heading) {
      const title = withoutEnd(heading[2], ' \t#').trimStart();
      made.push(make(`h${Math.min(6, heading[1].length + 2)}`, inline(title)));  // below the page's own
      at += 1;
    } else if (RULE.test(line)) {
      made.push(make('hr'));
      at += 1;
    } else if (/^ {0,3}>/.test(line) && depth < MAX_DEPTH) {
      let end = at;
      while (end < lines.length && /^ {0,3}>/.test(lines[end])) end += 1;
      made.push(make('blockquote', blocks(lines.slice(at, end).map((each) => each.replace(/^ {0,3}> ?/, '')), depth + 1)));
      at = end;
    } else if (ITEM.test(line) && depth < MAX_DEPTH) {
      const [found, end] = list(lines, at, depth);
      made.push(found);
      at = end;
    } else {
      let end = at + 1;
      while (end < lines.length && lines[end].trim() && !starts(lines[end])) end += 1;
      made.push(make('p', inline(lines.slice(at, end).map((each) => each.trim()).join('\n'))));
      at = end;
    }
  }
  return made;
}

/** Return the elements that show a text in Markdown. HTML in it is shown as it is written. */
export function markdown(text) {
  return blocks(text.replace(/\r\n?/g, '\n').split('\n'));
}

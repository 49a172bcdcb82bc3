// Markdown of language models as elements of the page. Text stays text: nothing of it is ever read as HTML.

import { h } from "./draw.js";

const INLINE = /(`+)([^`]+)\1|\*\*([^*\n]+)\*\*|(?<![*\w])\*([^*\n]+)\*(?!\w)|\[([^\]\n]+)\]\((https?:\/\/[^\s)]+)\)/g;
const BULLET = /^\s*[-*+]\s+/;
const NUMBER = /^\s*\d{1,9}[.)]\s+/;
const HEADING = /^#{1,6}\s+/;
const FENCE = /^\s*```/;

/** The parts of one line: code, bold, italic, links to other sites. */
function inline(text) {
  const parts = [];
  let at = 0;
  for (const found of text.matchAll(INLINE)) {
    if (found.index > at) parts.push(text.slice(at, found.index));
    const [whole, , code, bold, soft, name, url] = found;
    if (code !== undefined) parts.push(h("code", {}, code));
    else if (bold !== undefined) parts.push(h("strong", {}, bold));
    else if (soft !== undefined) parts.push(h("em", {}, soft));
    else parts.push(h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, name));
    at = found.index + whole.length;
  }
  if (at < text.length) parts.push(text.slice(at));
  return parts;
}

function isBlock(line) {
  return !line.trim() || [BULLET, NUMBER, HEADING, FENCE].some((kind) => kind.test(line));
}

/** Elements for a text that may still grow: a block of code without its end is code to the end. */
export function markdown(text) {
  const lines = text.split("\n"), made = [];
  for (let at = 0; at < lines.length;) {
    const line = lines[at];
    if (FENCE.test(line)) {
      const code = [];
      for (at += 1; at < lines.length && !FENCE.test(lines[at]); at += 1) code.push(lines[at]);
      at += 1;
      made.push(h("pre", {}, h("code", {}, code.join("\n"))));
    } else if (HEADING.test(line)) {
      made.push(h("p", { class: "heading" }, inline(line.replace(HEADING, ""))));
      at += 1;
    } else if (BULLET.test(line) || NUMBER.test(line)) {
      const kind = BULLET.test(line) ? BULLET : NUMBER, rows = [];
      const first = Number.parseInt(line, 10);
      for (; at < lines.length && kind.test(lines[at]); at += 1) rows.push(h("li", {}, inline(lines[at].replace(kind, ""))));
      made.push(kind === BULLET ? h("ul", {}, rows) : h("ol", { start: first }, rows));
    } else if (!line.trim()) {
      at += 1;
    } else {
      const words = [];
      for (; at < lines.length && !isBlock(lines[at]); at += 1) words.push(lines[at]);
      made.push(h("p", {}, inline(words.join("\n"))));
    }
  }
  return made;
}

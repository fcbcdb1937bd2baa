/** Writes elements as HTML: what a browser shows before, or without, the page's script. */
import type { Node } from './element.js';

const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Every element has an end tag, so none of those that HTML calls void may be among them. */
export function toHtml(node: Node): string {
  if (typeof node === 'string') return escaped(node);
  let html = `<${node.tag}`;
  for (const name of Object.keys(node.attributes))
    html += ` ${name}="${escaped(node.attributes[name] ?? '')}"`;
  html += '>';
  for (const child of node.children) html += toHtml(child);
  return `${html}</${node.tag}>`;
}

function escaped(text: string): string {
  return /[&<>"']/.test(text) ? text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? '') : text;
}

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
  const attributes = Object.entries(node.attributes).map(([name, value]) => ` ${name}="${escaped(value)}"`);
  return `<${node.tag}${attributes.join('')}>${node.children.map(toHtml).join('')}</${node.tag}>`;
}

function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => ESCAPES[character] ?? '');
}

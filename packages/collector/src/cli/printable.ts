/** Text of somebody else's on a terminal: it must not be able to move the cursor there, or to turn words around. */

/** Control and direction characters that JSON lets stand as they are. */
const UNPRINTABLE = /[\u007f-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;

function escaped(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

/** The same JSON, with those characters escaped. */
export function printableJson(json: string): string {
  return json.replace(UNPRINTABLE, escaped);
}

/** Control characters that text other than JSON lets stand too. Lines end as they do; a lone CR would write over one. */
// eslint-disable-next-line no-control-regex -- they are what is looked for
const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f]|\r(?!\n)/g;

/** The same text of many lines, with the control characters within them escaped. */
export function printableLines(text: string): string {
  return printableJson(text).replace(CONTROLS, escaped);
}

/** The text as it would stand in a string of JSON, without the quotes around it. */
export function printable(text: string): string {
  return printableJson(JSON.stringify(text)).slice(1, -1);
}

/** As {@link printable}, where no quotation marks stand around it. */
export function legible(text: string): string {
  return printable(text).replaceAll('\\"', '"');
}

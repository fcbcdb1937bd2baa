/** HTML as a type of its own, so that no text gets into the page without being escaped. */
export class Html {
  constructor(readonly text: string) {}
}

export type Inner = Html | string | number | readonly Inner[];

/** A template whose values are escaped, unless they are HTML already. */
export function html(strings: TemplateStringsArray, ...values: readonly Inner[]): Html {
  return new Html(strings.reduce((text, string, i) => text + markup(values[i - 1] ?? '') + string));
}

export const NOTHING = new Html('');

function markup(value: Inner): string {
  if (value instanceof Html) return value.text;
  if (typeof value === 'object') return value.map(markup).join('');
  return escaped(String(value));
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Control characters and those that turn the direction of writing around would change what stands beside them. */
function escaped(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Bidi_Control}\u200b\u2028\u2029\ufeff]/gu, '\ufffd')
    .replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}

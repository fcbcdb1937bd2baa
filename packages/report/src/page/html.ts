/** The `html` tag: a template that escapes every value. */

/** HTML has a type of its own, so that every text of the page is escaped. */
export class Html {
  constructor(readonly text: string) {}
}

export type Inner = Html | string | number | readonly Inner[];

/** A template whose values are escaped, except those that are HTML. */
export function html(strings: TemplateStringsArray, ...values: readonly Inner[]): Html {
  return new Html(strings.reduce((text, string, i) => text + markup(values[i - 1] ?? '') + string));
}

export const NOTHING = new Html('');

function markup(value: Inner): string {
  if (value instanceof Html) return value.text;
  if (typeof value === 'object') return value.map(markup).join('');
  return escaped(String(value));
}

/** A part that is closed until a reader opens it. */
export function folded(summary: string, inner: Html): Html {
  if (inner === NOTHING) return NOTHING;
  return html`<details>
    <summary>${summary}</summary>
    ${inner}
  </details>`;
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Control and direction characters would change the text around them. */
function escaped(text: string): string {
  return text
    .replace(/[\p{Cc}\p{Bidi_Control}\u200b\u2028\u2029\ufeff]/gu, '\ufffd')
    .replace(/[&<>"']/g, (character) => ENTITIES[character] ?? '');
}

/**
 * Text of models, senders and persons on a page. It is never markup, and each character that is invisible or
 * changes the text around it is shown as a mark, such as U+202E.
 */
import { Html, html } from '@clinical-events/report/html';

/**
 * Controls except tabs and line breaks, direction, zero width and other characters without a shape, line and
 * paragraph separators, halves of surrogate pairs, and code points that are no characters.
 */
const UNSEEN =
  /[\p{Cc}\p{Bidi_Control}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}\p{Cs}\p{Noncharacter_Code_Point}\ufff9-\ufffb\ufeff]/u;
const UNSEEN_RUN = new RegExp(`(?:(?![\\n\\t])${UNSEEN.source})+`, 'gu');

function codePoint(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, '0')}`;
}

/** With hundreds of thousands of elements in a line, a browser would not answer for minutes. */
const MOST_MARKS = 2000;
const MANY_MARKS =
  '<span class="mark">Invisible characters of this text are written in brackets, such as [U+202E]</span> ';

/** The text with marks; line breaks and tabs stay. */
export function marked(text: string): Html {
  const lines = text.replaceAll('\r\n', '\n');
  let made = '';
  let end = 0;
  let marks = 0;
  for (const { index, 0: found } of lines.matchAll(UNSEEN_RUN)) {
    if (++marks > MOST_MARKS) return new Html(MANY_MARKS + escaped(plain(lines)));
    made += escaped(lines.slice(end, index)) + mark(found);
    end = index + found.length;
  }
  return new Html(made + escaped(lines.slice(end)));
}

/** The tag `html` would replace tabs and line breaks. */
function escaped(text: string): string {
  return text
    .split(/([\n\t])/)
    .map((part) => (part === '\n' || part === '\t' ? part : html`${part}`.text))
    .join('');
}

/** One mark for characters in a row, which may be a mebibyte of them. */
function mark(found: string): string {
  const names: string[] = [];
  for (const [each] of found.matchAll(/(.)\1*/gsu)) {
    const [first = ''] = each;
    const times = each.length / first.length;
    names.push(times === 1 ? codePoint(first) : `${codePoint(first)} ×${times.toLocaleString('en')}`);
  }
  return `<span class="mark">${names.join(' ')}</span>`;
}

/** A short text within a line. Its direction does not reorder its neighbours. */
export function inline(text: string): Html {
  return html`<bdi>${marked(text)}</bdi>`;
}

/** From this length on, a text is folded; it is printed in full. */
const FOLDED_FROM = 1500;
const FOLDED_LINES = 24;
const GIST = 120;

/** A long text scrolls, so that the keyboard must reach it. */
const SCROLLS = ' role="group" aria-label="The whole text" tabindex="0"';

/** A text of any length on lines of its own. @param form prose of a person or model, or text for programs. */
export function block(text: string, form: 'prose' | 'code' = 'prose'): Html {
  // Not by a template for `html`: its formatter adds white space, which such an element shows.
  const whole = (more: string) =>
    new Html(`<div class="text ${form}" dir="auto"${more}>${marked(text).text}</div>`);
  if (text.length < FOLDED_FROM && text.split('\n', FOLDED_LINES + 1).length <= FOLDED_LINES)
    return whole('');
  return html`<details class="long">
    <summary>${inline(beginning(text))} <span class="size">${sizeText(text)}</span></summary>
    ${whole(SCROLLS)}
  </details>`;
}

/** The first words on one line; never half of a surrogate pair. */
function beginning(text: string): string {
  const line = text.slice(0, GIST).replace(/\s+/g, ' ').trim();
  return `${line.replace(/[\ud800-\udbff]$/, '')}${text.length > GIST ? '…' : ''}`;
}

function sizeText(text: string): string {
  return `${text.length.toLocaleString('en')} characters`;
}

/** Whether a text fits into a line. */
export function isShort(text: string): boolean {
  return text.length <= 120 && !text.includes('\n');
}

const MARKUP: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
  '\n': '&#10;',
  '\r': '&#13;',
};

/** The value of a field of a form, which comes back as it is here. */
export function exactly(text: string): Html {
  return new Html(
    text
      .toWellFormed()
      .replaceAll('\0', '\ufffd')
      .replace(/[&<>"'\n\r]/g, (each) => MARKUP[each] ?? ''),
  );
}

/** Text in a place without elements, such as a title or a choice of a list. */
export function plain(text: string): string {
  return text.replace(UNSEEN_RUN, (found) => Array.from(found, (each) => `[${codePoint(each)}]`).join(''));
}

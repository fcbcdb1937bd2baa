/**
 * Texts as cells of CSV: by RFC 4180, or so that a spreadsheet does not change them.
 * docs/reference/records.md, "CSV", describes how to read both back.
 */

/** Control characters that a cell must not have; RFC 4180 quotes CR and LF, and tab is allowed. */
// eslint-disable-next-line no-control-regex -- the pattern searches for them
const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;
/**
 * The control picture of U+0000. The pictures of U+0001 to U+001F follow it; the picture of U+007F is U+2421.
 */
const FIRST_PICTURE = 0x2400;

const QUOTED = /[",\r\n]/;

/** Replaces a control character with its picture (U+2400 to U+2421). */
function pictured(text: string): string {
  return text.replace(CONTROLS, (control) => {
    const code = control.charCodeAt(0);
    return String.fromCharCode(FIRST_PICTURE + (code === 0x7f ? 0x21 : code));
  });
}

function quoted(text: string): string {
  return QUOTED.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Limits of Excel in UTF-16 units: of a cell, and of a text in a formula. */
const MOST_IN_CELL = 32_767;
const MOST_IN_FORMULA = 255;
/** A generous limit for texts that a spreadsheet may read as a date or an amount. */
const MOST_IN_DATE = 64;

/** A number of any length. */
const NUMBER = /^[^\p{L}";]*(?:[eE][^\p{L}";]*)?$/u;
/** A text with at most as many words as a date in any language, or an amount of a currency. */
const DATE = /^[^\p{L}";]*(?:[\p{L}\p{M}]{1,14}[^\p{L}";]*){0,3}$/u;
const DIGIT = /\p{Nd}/u;
const RUN_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Booleans and errors in the languages of spreadsheets. */
const CONSTANT =
  /^\s*(?:#[^";]*|true|false|wahr|falsch|vrai|faux|verdadero|falso|verdadeiro|vero|waar|onwaar)\s*$/i;

/**
 * Positions at which a spreadsheet begins a formula, including full-width East Asian characters, positions
 * after white space, and separators of other locales. An apostrophe in such a position is doubled, so that
 * all added apostrophes can be removed.
 */
const BEGINS = /^(?:[\t\r\n]|\s*['=+\-@\uff1d\uff0b\uff0d\uff20])/;
const BEGINS_AGAIN = /(?<=[;\t\n]|\r(?!\n))(?=\s*['=+\-@\uff1d\uff0b\uff0d\uff20])/g;
/** LibreOffice reads no formula in a text with such a character. */
const BREAK = /[\t\r\n]/;

/** Whether a spreadsheet may read the text as a number, a date, a boolean or an error, and change it. */
function isConverted(text: string): boolean {
  if (CONSTANT.test(text)) return true;
  if (!DIGIT.test(text) || RUN_ID.test(text)) return false;
  return NUMBER.test(text) || (text.length <= MOST_IN_DATE && DATE.test(text));
}

/** A cell that a spreadsheet shows as this text and never evaluates. */
function keptText(text: string): string {
  const converted = isConverted(text);
  if (converted && text.length <= MOST_IN_FORMULA && !BREAK.test(text)) return `="${text}"`;
  const guarded = text.replace(BEGINS_AGAIN, "'");
  return converted || BEGINS.test(text) ? `'${guarded}` : guarded;
}

/** The form of cells in one file. */
export interface Cells {
  /** Text before the heading. */
  readonly mark: string;
  /** @returns the cell, quoted if necessary. */
  readonly cell: (text: string) => string;
  /** Whether the text exceeds a spreadsheet's cell. */
  readonly isTooLong: (text: string) => boolean;
}

/** Cells for programs: the text is unchanged. */
export const PLAIN_CELLS: Cells = {
  mark: '',
  cell: (text) => quoted(pictured(text)),
  isTooLong: () => false,
};

/** Cells for Excel, LibreOffice and Google Sheets. */
export const SPREADSHEET_CELLS: Cells = {
  // Excel reads a file as UTF-8 only with this mark.
  mark: '\ufeff',
  cell: (text) => quoted(keptText(pictured(text))),
  isTooLong: (text) => text.length >= MOST_IN_CELL && keptText(text).length > MOST_IN_CELL,
};

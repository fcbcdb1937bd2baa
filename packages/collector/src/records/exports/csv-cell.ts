/**
 * Texts as cells of CSV: as RFC 4180 has them, or so that a spreadsheet leaves them as they are. docs/reference/records.md,
 * "CSV", says how both are read back.
 */

/** What a cell may not have raw: control characters but for tab, CR and LF, which RFC 4180 quotes. */
// eslint-disable-next-line no-control-regex -- they are what is looked for
const CONTROLS = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]/g;
/** The picture of U+0000; those of U+0001 to U+001F come after it, and that of U+007F is U+2421. */
const FIRST_PICTURE = 0x2400;

const QUOTED = /[",\r\n]/;

/** A character that CSV cannot have is the picture of it (U+2400 to U+2421). */
function pictured(text: string): string {
  return text.replace(CONTROLS, (control) => {
    const code = control.charCodeAt(0);
    return String.fromCharCode(FIRST_PICTURE + (code === 0x7f ? 0x21 : code));
  });
}

function quoted(text: string): string {
  return QUOTED.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/* For spreadsheets. */

/** The most UTF-16 units that Excel keeps in a cell, and that it takes in a text within a formula. */
const MOST_IN_CELL = 32_767;
const MOST_IN_FORMULA = 255;
/** The longest text of words and digits that a spreadsheet takes for a date or an amount, with room to spare. */
const MOST_IN_DATE = 64;

/** A number, however long. */
const NUMBER = /^[^\p{L}";]*(?:[eE][^\p{L}";]*)?$/u;
/** What has no more words beside its digits than a date in any language, or an amount of a currency. */
const DATE = /^[^\p{L}";]*(?:[\p{L}\p{M}]{1,14}[^\p{L}";]*){0,3}$/u;
const DIGIT = /\p{Nd}/u;
const RUN_ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
/** Truth and errors, in the languages in which spreadsheets read them. */
const CONSTANT =
  /^\s*(?:#[^";]*|true|false|wahr|falsch|vrai|faux|verdadero|falso|verdadeiro|vero|waar|onwaar)\s*$/i;

/**
 * Where a spreadsheet begins to read a formula: also in the full width of East Asian scripts, after white space, and where
 * spreadsheets of many countries split a cell once more. An apostrophe that stands in such a place gets another one, so
 * that each that stands there can be taken away.
 */
const BEGINS = /^(?:[\t\r\n]|\s*['=+\-@\uff1d\uff0b\uff0d\uff20])/;
const BEGINS_AGAIN = /(?<=[;\t\n]|\r(?!\n))(?=\s*['=+\-@\uff1d\uff0b\uff0d\uff20])/g;
/** LibreOffice reads no formula with it. */
const BREAK = /[\t\r\n]/;

/** Whether a spreadsheet may take the text for a number, a date, a truth or an error, and write something else. */
function isConverted(text: string): boolean {
  if (CONSTANT.test(text)) return true;
  if (!DIGIT.test(text) || RUN_ID.test(text)) return false;
  return NUMBER.test(text) || (text.length <= MOST_IN_DATE && DATE.test(text));
}

/** The text of a cell that a spreadsheet shows as that text, and never computes. */
function keptText(text: string): string {
  const converted = isConverted(text);
  if (converted && text.length <= MOST_IN_FORMULA && !BREAK.test(text)) return `="${text}"`;
  const guarded = text.replace(BEGINS_AGAIN, "'");
  return converted || BEGINS.test(text) ? `'${guarded}` : guarded;
}

/** How texts are written in the cells of one file. */
export interface Cells {
  /** Before the heading. */
  readonly mark: string;
  /** @returns the cell, in quotation marks where it needs them. */
  readonly cell: (text: string) => string;
  /** Whether a spreadsheet has no room for the whole of a text. */
  readonly isTooLong: (text: string) => boolean;
}

/** Nothing is put in and nothing is left out: for programs. */
export const PLAIN_CELLS: Cells = {
  mark: '',
  cell: (text) => quoted(pictured(text)),
  isTooLong: () => false,
};

/** For Excel, LibreOffice and Google Sheets. */
export const SPREADSHEET_CELLS: Cells = {
  // Excel opens a file as UTF-8 only with it.
  mark: '\ufeff',
  cell: (text) => quoted(keptText(pictured(text))),
  isTooLong: (text) => text.length >= MOST_IN_CELL && keptText(text).length > MOST_IN_CELL,
};

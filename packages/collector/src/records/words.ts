/**
 * Words in texts that people and models wrote, in any script. Letters are compared without their case and in one form
 * (Unicode 17, section 3.13, NFKC_Casefold): `ß` is `ss`, composed and decomposed letters are the same, and so are
 * ligatures and wide letters and what they stand for. Besides, I, i, `İ` and `ı` are one letter, as are both small sigmas.
 */

const IGNORABLE = /\p{Default_Ignorable_Code_Point}/gu;
/** From one space to the next, with something in it that is not ASCII. It begins at one place only: linear time. */
const NOT_ASCII = /(?<!\S)[^\s\u0080-\u{10ffff}]*[\u0080-\u{10ffff}]\S*/gu;
/** More marks on a letter are in no language (Unicode Standard Annex 15, Stream-Safe Text Format), and take quadratic time. */
const MORE_MARKS = /(?<=\p{M}{30})\p{M}+/gu;
const AT_BEGINNING = /^[^\p{L}\p{M}\p{N}]+/u;
const AT_END = /[^\p{L}\p{M}\p{N}]+$/u;
const LETTER_BEFORE = /[\p{L}\p{M}\p{N}]$/u;
const LETTER_BEHIND = /^[\p{L}\p{M}\p{N}]/u;
/** Scripts that have no space between words. */
const UNSPACED =
  '[\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}]';
const BEGINS_UNSPACED = new RegExp(`^${UNSPACED}`, 'u');
const ENDS_UNSPACED = new RegExp(`${UNSPACED}$`, 'u');
/** A surrogate pair. */
const LONGEST_CODE_POINT = 2;
const MOST_KEPT = 1 << 16;
const LONGEST_KEPT = 64;

/** What was folded last: the words of texts come again and again. */
const folded = new Map<string, string>();

/** The text as it is compared. */
export function fold(text: string): string {
  return text.replace(NOT_ASCII, foldedPart).toLowerCase().replaceAll('ς', 'σ');
}

function foldedPart(part: string): string {
  const known = folded.get(part);
  if (known !== undefined) return known;
  // Upper case is where one letter becomes several; only some letters have one.
  const letters = part.replace(MORE_MARKS, '').normalize('NFKC');
  const cased = letters.toLowerCase().toUpperCase().toLowerCase().normalize('NFKC');
  const made = cased.replace(IGNORABLE, '').replaceAll('i\u0307', 'i');
  if (part.length > LONGEST_KEPT) return made;
  if (folded.size >= MOST_KEPT) folded.clear();
  folded.set(part, made);
  return made;
}

/** What is looked for: all words of a text, in any order. Signs at the ends of a word do not count. */
export class Words {
  /** Folded. */
  readonly #words: readonly string[];

  constructor(text: string) {
    const parts = fold(text).split(/\s+/u);
    this.#words = [
      ...new Set(parts.map((part) => part.replace(AT_BEGINNING, '').replace(AT_END, ''))),
    ].filter((word) => word !== '');
  }

  /** Zero for a text of signs and spaces. */
  get count(): number {
    return this.#words.length;
  }

  /** Begins with a run: what is still to be found in its texts. */
  search(): WordSearch {
    return new WordSearch(this.#words);
  }
}

export class WordSearch {
  #missing: readonly string[];

  constructor(words: readonly string[]) {
    this.#missing = words;
  }

  get isFound(): boolean {
    return this.#missing.length === 0;
  }

  /** @param text of JSON, whole. False where no string in it can have a word that is still missing. */
  mayBeIn(text: string): boolean {
    // A letter that is written as an escape is seen only once it is read.
    if (text.includes('\\u')) return true;
    const in_ = fold(text);
    return this.#missing.some((word) => in_.includes(word));
  }

  /** Looks at all strings within a value, at any depth; names of members are not looked at. */
  look(value: unknown): void {
    if (typeof value === 'string') {
      const text = fold(value);
      this.#missing = this.#missing.filter((word) => !hasWord(text, word));
    } else if (typeof value === 'object' && value !== null)
      for (const each of Object.values(value)) this.look(each);
  }
}

/** @param text folded, like the word. */
function hasWord(text: string, word: string): boolean {
  for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + 1)) {
    const before = text.slice(Math.max(0, at - LONGEST_CODE_POINT), at);
    const behind = text.slice(at + word.length, at + word.length + LONGEST_CODE_POINT);
    if (isEdge(before, word) && isEdge(word, behind)) return true;
  }
  return false;
}

/** Whether one word may end and another begin between the two. */
function isEdge(before: string, behind: string): boolean {
  if (!LETTER_BEFORE.test(before) || !LETTER_BEHIND.test(behind)) return true;
  return ENDS_UNSPACED.test(before) || BEGINS_UNSPACED.test(behind);
}

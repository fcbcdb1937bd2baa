/**
 * Compares words in texts of people and models, in any script. Letters are compared without case and in one
 * normal form (Unicode 17, section 3.13, NFKC_Casefold): `ß` equals `ss`, composed letters equal decomposed
 * ones, and ligatures and wide letters equal their components. In addition I, i, `İ` and `ı` are equal, and
 * both small sigmas.
 */

const IGNORABLE = /\p{Default_Ignorable_Code_Point}/gu;
/**
 * A text between spaces with a non-ASCII character. A match can begin at one position only, so the search is
 * linear.
 */
const NOT_ASCII = /(?<!\S)[^\s\u0080-\u{10ffff}]*[\u0080-\u{10ffff}]\S*/gu;
/**
 * Marks after the thirtieth on a letter, which would take quadratic time. No language has more (Unicode
 * Standard Annex 15, Stream-Safe Text Format).
 */
const MORE_MARKS = /(?<=\p{M}{30})\p{M}+/gu;
const AT_BEGINNING = /^[^\p{L}\p{M}\p{N}]+/u;
const AT_END = /[^\p{L}\p{M}\p{N}]+$/u;
const LETTER_BEFORE = /[\p{L}\p{M}\p{N}]$/u;
const LETTER_BEHIND = /^[\p{L}\p{M}\p{N}]/u;
/** Scripts without spaces between words. */
const UNSPACED =
  '[\\p{Script=Han}\\p{Script=Hiragana}\\p{Script=Katakana}\\p{Script=Thai}' +
  '\\p{Script=Lao}\\p{Script=Khmer}\\p{Script=Myanmar}]';
const BEGINS_UNSPACED = new RegExp(`^${UNSPACED}`, 'u');
const ENDS_UNSPACED = new RegExp(`${UNSPACED}$`, 'u');
/** A surrogate pair. */
const LONGEST_CODE_POINT = 2;
const MOST_KEPT = 1 << 16;
const LONGEST_KEPT = 64;

/** Cache of folded words, since words recur. */
const folded = new Map<string, string>();

/** The text in the form that is compared. */
export function fold(text: string): string {
  return text.replace(NOT_ASCII, foldedPart).toLowerCase().replaceAll('ς', 'σ');
}

function foldedPart(part: string): string {
  const known = folded.get(part);
  if (known !== undefined) return known;
  // In upper case, some letters become several.
  const letters = part.replace(MORE_MARKS, '').normalize('NFKC');
  const cased = letters.toLowerCase().toUpperCase().toLowerCase().normalize('NFKC');
  const made = cased.replace(IGNORABLE, '').replaceAll('i\u0307', 'i');
  if (part.length > LONGEST_KEPT) return made;
  if (folded.size >= MOST_KEPT) folded.clear();
  folded.set(part, made);
  return made;
}

/** A search for all words of a text, in any order. Signs at the ends of a word are ignored. */
export class Words {
  /** The folded words. */
  readonly #words: readonly string[];

  constructor(text: string) {
    const parts = fold(text).split(/\s+/u);
    this.#words = [
      ...new Set(parts.map((part) => part.replace(AT_BEGINNING, '').replace(AT_END, ''))),
    ].filter((word) => word !== '');
  }

  /** Number of words; zero for a text of signs and spaces. */
  get count(): number {
    return this.#words.length;
  }

  /** Begins the search in a run, for all words. */
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

  /** @param text complete JSON. @returns false if no string in it can contain a missing word. */
  mayBeIn(text: string): boolean {
    // Escaped letters are visible only after parsing.
    if (text.includes('\\u')) return true;
    const in_ = fold(text);
    return this.#missing.some((word) => in_.includes(word));
  }

  /** Searches all strings in a value, at any depth; not the names of members. */
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

/** Whether a word boundary can be between the two characters. */
function isEdge(before: string, behind: string): boolean {
  if (!LETTER_BEFORE.test(before) || !LETTER_BEHIND.test(behind)) return true;
  return ENDS_UNSPACED.test(before) || BEGINS_UNSPACED.test(behind);
}

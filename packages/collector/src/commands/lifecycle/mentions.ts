/**
 * Searches payloads for ids of a person, including payloads about someone else. Text is compared after NFKC,
 * case folding and collapsing white space; JSON escapes are decoded. An id matches as a whole: no letter,
 * digit, - or _ on either side.
 */
import { fold as foldedCase } from '../../records/words.js';

/** The limits of the search, for the reviewer. */
export const NOT_FOUND_BY_SEARCH =
  'the search does not find ids that are misspelt, abbreviated, split over several fields, or inside ' +
  'encoded data (base64, images)';

export class Mentions {
  readonly #standing: RegExp;
  /** Whether an id may be a number: compared as text, since JSON.parse rounds numbers over 15 digits. */
  readonly #isNumeric: boolean;
  /** A lower-case text for each id, which any plain ASCII body with the id contains. */
  readonly #words: readonly string[];

  constructor(ids: readonly string[]) {
    const folded = ids.map(fold);
    this.#isNumeric = folded.some((id) => /^\d+$/.test(id));
    // Truncated before any character that JSON escapes.
    this.#words = folded.map((id) => id.split(/[\0- "\\/]/)[0] ?? '');
    const any = folded.map((id) => id.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`)).join('|');
    this.#standing = new RegExp(String.raw`(?<![\p{L}\p{N}_\-])(?:${any})(?![\p{L}\p{N}_\-])`, 'u');
  }

  /** @param body JSON. */
  areIn(body: Buffer): boolean {
    const text = body.toString();
    // Most bodies are plain; those without the beginning of an id are not parsed.
    if (text.length === body.length && !text.includes('\\u') && !text.includes('\\/')) {
      const lower = text.toLowerCase();
      if (!this.#words.some((word) => lower.includes(word))) return false;
    }
    return (this.#isNumeric && this.#standing.test(text)) || this.#standIn(JSON.parse(text));
  }

  /** Iterative, because payloads may be nested deeply. */
  #standIn(root: unknown): boolean {
    const left = [root];
    while (left.length > 0) {
      const value = left.pop();
      if (typeof value === 'string' && this.#standing.test(fold(value))) return true;
      if (typeof value !== 'object' || value === null) continue;
      for (const [name, each] of Object.entries(value)) {
        if (!Array.isArray(value) && this.#standing.test(fold(name))) return true;
        left.push(each);
      }
    }
    return false;
  }
}

function fold(text: string): string {
  return foldedCase(text).replaceAll(/\s+/g, ' ').trim();
}

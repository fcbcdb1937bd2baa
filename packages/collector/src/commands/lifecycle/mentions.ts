/**
 * Whether ids of a person stand in a payload, whomever it is about. Both are compared after NFKC, case folding and with white
 * space collapsed; escapes of JSON are decoded. An id stands for itself: no letter, digit, - or _ on either side.
 */
import { fold as foldedCase } from '../../records/words.js';

/** What the search does not find, for whoever decides by it. */
export const NOT_FOUND_BY_SEARCH =
  'a search does not find an id that is misspelt, abbreviated, split over several fields, or inside encoded data (base64, images)';

export class Mentions {
  readonly #standing: RegExp;
  /** Whether a number may be one of the ids: it is compared as it stands, for JSON.parse rounds what has more than 15 digits. */
  readonly #isNumeric: boolean;
  /** Of each id what a body in ASCII without escapes holds in lower case, if it holds the id. */
  readonly #words: readonly string[];

  constructor(ids: readonly string[]) {
    const folded = ids.map(fold);
    this.#isNumeric = folded.some((id) => /^\d+$/.test(id));
    // What JSON writes as an escape ends it.
    this.#words = folded.map((id) => id.split(/[\0- "\\/]/)[0] ?? '');
    const any = folded.map((id) => id.replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`)).join('|');
    this.#standing = new RegExp(String.raw`(?<![\p{L}\p{N}_\-])(?:${any})(?![\p{L}\p{N}_\-])`, 'u');
  }

  /** @param body JSON. */
  areIn(body: Buffer): boolean {
    const text = body.toString();
    // Most bodies are plain: what does not hold the beginning of an id is not parsed.
    if (text.length === body.length && !text.includes('\\u') && !text.includes('\\/')) {
      const lower = text.toLowerCase();
      if (!this.#words.some((word) => lower.includes(word))) return false;
    }
    return (this.#isNumeric && this.#standing.test(text)) || this.#standIn(JSON.parse(text));
  }

  /** Without recursion: a payload may be nested as deep as its sender likes. */
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

/**
 * Where a text stops being JSON (RFC 8259). V8 says it for some faults only, and for the others quotes the text, which
 * in a configuration file may be anything.
 */

const SPACE = /[ \t\n\r]*/y;
const SCALAR =
  /true|false|null|-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|"(?:[ !#-[\]-\uffff]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*"/y;

/** Thrown to leave the recursion. */
class Fault extends Error {
  constructor(readonly at: number) {
    super('no JSON');
  }
}

class Scanner {
  #at = 0;
  constructor(private readonly text: string) {}

  scan(): void {
    this.#value();
    if (this.#at < this.text.length) throw new Fault(this.#at);
  }

  #value(): void {
    this.#skip(SPACE);
    if (this.#take('{')) this.#members('}', true);
    else if (this.#take('[')) this.#members(']', false);
    else if (!this.#skip(SCALAR)) throw new Fault(this.#at);
    this.#skip(SPACE);
  }

  #members(end: string, named: boolean): void {
    this.#skip(SPACE);
    if (this.#take(end)) return;
    do {
      if (named) {
        this.#skip(SPACE);
        if (this.text[this.#at] !== '"' || !this.#skip(SCALAR)) throw new Fault(this.#at);
        this.#skip(SPACE);
        if (!this.#take(':')) throw new Fault(this.#at);
      }
      this.#value();
    } while (this.#take(','));
    if (!this.#take(end)) throw new Fault(this.#at);
  }

  #take(letter: string): boolean {
    if (this.text[this.#at] !== letter) return false;
    this.#at++;
    return true;
  }

  #skip(shape: RegExp): boolean {
    shape.lastIndex = this.#at;
    if (!shape.test(this.text)) return false;
    this.#at = shape.lastIndex;
    return true;
  }
}

/** @returns line and column, both from 1, of the first value or sign that is none; undefined when the text is JSON. */
export function jsonFaultAt(text: string): { line: number; column: number } | undefined {
  try {
    new Scanner(text).scan();
    return undefined;
  } catch (fault) {
    if (!(fault instanceof Fault)) throw fault;
    const before = text.slice(0, fault.at).split('\n');
    return { line: before.length, column: (before.at(-1)?.length ?? 0) + 1 };
  }
}

/**
 * What V8 does not say of a JSON text (RFC 8259). Where it stops being one: V8 names it for some faults only, and for
 * the others the text is quoted, which in a configuration file may be anything. And which names an object holds
 * twice: of those the last is taken in silence.
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
  /** The names in the outermost object, as they are written. */
  readonly names: string[] = [];
  #at = 0;
  #depth = 0;
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
    this.#depth++;
    do {
      if (named) {
        this.#skip(SPACE);
        const from = this.#at;
        if (this.text[from] !== '"' || !this.#skip(SCALAR)) throw new Fault(from);
        if (this.#depth === 1) this.names.push(this.text.slice(from, this.#at));
        this.#skip(SPACE);
        if (!this.#take(':')) throw new Fault(this.#at);
      }
      this.#value();
    } while (this.#take(','));
    this.#depth--;
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

/**
 * @param text JSON. @returns the names that its outermost object holds more than once, each once; none when it is
 * none.
 */
export function repeatedNames(text: string): string[] {
  const scanner = new Scanner(text);
  scanner.scan();
  const names = scanner.names.map((name) => JSON.parse(name) as string);
  return [...new Set(names.filter((name, i) => names.indexOf(name) !== i))];
}

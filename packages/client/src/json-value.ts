/** What a caller gives, as the JSON value that will be sent: exactly that, or nothing. */
import { types } from 'node:util';

export interface JsonLimits {
  /** Of the JSON text. */
  readonly bytes: number;
  /** How many arrays and objects may stand inside each other, the outermost one counted. */
  readonly levels: number;
}

/** Why a value cannot be sent. Neither pointer nor message holds a value. */
export class NoJson extends Error {
  override name = 'NoJson';
  constructor(
    readonly code: 'not_json' | 'nesting_too_deep' | 'body_too_large',
    /** RFC 6901. A member name that may be data stands in it as `*`. */
    readonly pointer: string,
    message: string,
  ) {
    super(message);
  }
}

/** What may be repeated of a name: it stands in the code of the application, and is no value of an event. */
const SHOWN_NAME = /^[A-Za-z_$][\w$-]{0,63}$/;

/**
 * A copy as JSON.stringify would write it, every getter and toJSON read once. What JSON.stringify writes as `null` or
 * `{}` because JSON has no such value is refused; a member that is undefined is left out.
 * @throws NoJson
 */
export function jsonCopy(value: unknown, limits: JsonLimits): unknown {
  const copying = new Copying(limits);
  try {
    return copying.copy('', value, false);
  } catch (error) {
    // Not with the error of a getter or toJSON: it may name values.
    throw error instanceof NoJson ? error : copying.fault('cannot be read');
  }
}

const FIRST_HALF = /[\ud800-\udbff]$/;

class Copying {
  /** The containers around the value at hand, and the names and indices that lead to it. */
  readonly #around: object[] = [];
  readonly #path: (string | number)[] = [];
  /** At most as many bytes as the JSON text will have. */
  #bytes = 0;

  constructor(private readonly limits: JsonLimits) {}

  fault(message: string, code: NoJson['code'] = 'not_json'): NoJson {
    const parts = this.#path.map((part) => {
      const isShown = typeof part === 'number' || SHOWN_NAME.test(part);
      return `/${isShown ? part : '*'}`;
    });
    return new NoJson(code, parts.join(''), message);
  }

  /** @param inArray where undefined cannot be left out. */
  copy(name: string | number, given: unknown, inArray: boolean): unknown {
    const value = jsonForm(name, given);
    switch (typeof value) {
      case 'string':
        this.#add(value.length + 2);
        return this.#text(value);
      case 'number':
        this.#add(1);
        if (!Number.isFinite(value)) throw this.fault('is not a finite number');
        return value;
      case 'boolean':
        this.#add(4);
        return value;
      case 'undefined':
        if (inArray) throw this.fault('is undefined, which an array of JSON cannot hold');
        return undefined;
      case 'object':
        if (value !== null) return this.#container(value);
        if (types.isDate(given)) throw this.fault('is an invalid date');
        this.#add(4);
        return value;
      default:
        throw this.fault(`is a ${typeof value}, which JSON does not have`);
    }
  }

  /** A text that was cut inside a pair, as `slice` cuts, without the half: it is no character (Unicode 3.9, D75). */
  #text(value: string): string {
    if (value.isWellFormed()) return value;
    const cut = value.slice(0, -1);
    if (cut !== '' && FIRST_HALF.test(value) && cut.isWellFormed()) return cut;
    throw this.fault('has a lone surrogate: use toWellFormed()');
  }

  #container(value: object): unknown {
    if (types.isBoxedPrimitive(value)) return this.copy('', value.valueOf(), false);
    if (this.#around.includes(value)) throw this.fault('holds itself');
    if (this.#around.length === this.limits.levels) {
      throw this.fault(`nests more than ${this.limits.levels} levels deep`, 'nesting_too_deep');
    }
    this.#add(2);
    this.#around.push(value);
    const copy = Array.isArray(value) ? this.#array(value) : this.#object(value);
    this.#around.pop();
    return copy;
  }

  #array(value: readonly unknown[]): unknown[] {
    const copy: unknown[] = [];
    for (let i = 0; i < value.length; i++) {
      this.#path.push(i);
      copy.push(this.copy(i, value[i], true));
      this.#path.pop();
    }
    return copy;
  }

  #object(value: object): Record<string, unknown> {
    const names = Object.keys(value);
    if (!isJsonObject(value, names)) throw this.fault(noObject(value));
    const copy: Record<string, unknown> = {};
    for (const name of names) {
      if (!name.isWellFormed()) throw this.fault('has a member whose name has a lone surrogate');
      this.#path.push(name);
      const member = this.copy(name, (value as Readonly<Record<string, unknown>>)[name], false);
      this.#path.pop();
      if (member === undefined) continue;
      this.#add(name.length + 3);
      if (name === '__proto__') Object.defineProperty(copy, name, { ...OWN, value: member });
      else copy[name] = member;
    }
    return copy;
  }

  #add(bytes: number): void {
    this.#bytes += bytes;
    if (this.#bytes <= this.limits.bytes) return;
    throw new NoJson('body_too_large', '', `has more than ${this.limits.bytes} bytes`);
  }
}

const OWN = { enumerable: true, configurable: true, writable: true };

/** The value that JSON.stringify takes (ECMA-262, SerializeJSONProperty). */
export function jsonForm(name: string | number, value: unknown): unknown {
  if ((typeof value !== 'object' || value === null) && typeof value !== 'bigint') return value;
  const { toJSON } = value as { readonly toJSON?: unknown };
  return typeof toJSON === 'function' ? (toJSON.call(value, String(name)) as unknown) : value;
}

/** An object literal, or one of another realm. */
function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value) as object | null;
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/**
 * What keeps its contents elsewhere than in members of its own: of any realm, behind a proxy, and whatever name it gives
 * itself by Symbol.toStringTag.
 */
const OPAQUE: Readonly<Record<string, (value: object) => boolean>> = {
  // Node 22 has no Error.isError.
  Error: (value) => value instanceof Error || Object.prototype.toString.call(value) === '[object Error]',
  Map: (value) => types.isMap(value) || value instanceof Map,
  Set: (value) => types.isSet(value) || value instanceof Set,
  RegExp: (value) => types.isRegExp(value) || value instanceof RegExp,
  Promise: (value) => types.isPromise(value) || value instanceof Promise,
  WeakMap: (value) => types.isWeakMap(value),
  WeakSet: (value) => types.isWeakSet(value),
};

function opaqueName(value: object): string | undefined {
  return Object.keys(OPAQUE).find((name) => OPAQUE[name]?.(value));
}

/** Names no type but those above: a class may name itself by data. */
function noObject(value: unknown): string {
  if (ArrayBuffer.isView(value)) return 'is a typed array, which JSON does not have';
  const name = typeof value === 'object' && value !== null && opaqueName(value);
  if (!name) return 'is not an object that JSON has, and has no toJSON';
  return `is ${name === 'Error' ? 'an' : 'a'} ${name}, which JSON does not have`;
}

/** Whether its own members are all that an object holds: of an instance of a class, as far as can be seen. */
export function isJsonObject(value: object, names: readonly string[] = Object.keys(value)): boolean {
  const plain = isPlain(value);
  if (plain && names.length > 0) return true;
  if (ArrayBuffer.isView(value) || opaqueName(value) !== undefined) return false;
  // JSON would make `{}` of what has members by symbols, or members that are not enumerable, alone.
  return names.length > 0 || (plain && Reflect.ownKeys(value).length === 0);
}

/**
 * The members of an object, to be put into another one.
 * @throws NoJson for anything else, undefined and null apart.
 */
export function membersOf(name: string, given: unknown): object {
  const value = jsonForm(name, given) ?? {};
  if (typeof value === 'object' && !Array.isArray(value) && isJsonObject(value)) return value;
  throw new NoJson('not_json', name && `/${name}`, noObject(value));
}

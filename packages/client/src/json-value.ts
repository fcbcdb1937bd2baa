/** Converts the caller's values to JSON without changing them, or refuses them. */
import { types } from 'node:util';

export interface JsonLimits {
  /** Size of the JSON text. */
  readonly bytes: number;
  /** Depth of nested arrays and objects, including the outermost. */
  readonly levels: number;
}

/** The value cannot be sent. Neither pointer nor message contains a value. */
export class NoJson extends Error {
  override name = 'NoJson';
  constructor(
    readonly code: 'not_json' | 'nesting_too_deep' | 'body_too_large',
    /** RFC 6901. Member names that may be data are replaced by `*`. */
    readonly pointer: string,
    message: string,
  ) {
    super(message);
  }
}

/** Names that a pointer may repeat: they come from code, and are not values of an event. */
const SHOWN_NAME = /^[A-Za-z_$][\w$-]{0,63}$/;

/**
 * Copies a value as JSON.stringify would write it; each getter and toJSON is called once. Values that
 * JSON.stringify would replace by `null` or `{}` are refused. Undefined members are omitted.
 * @throws NoJson
 */
export function jsonCopy(value: unknown, limits: JsonLimits): unknown {
  const copying = new Copying(limits);
  try {
    return copying.copy('', value, false);
  } catch (error) {
    // The error of a getter or toJSON is not reported, because it may contain values.
    throw error instanceof NoJson ? error : copying.fault('cannot be read');
  }
}

const FIRST_HALF = /[\ud800-\udbff]$/;

class Copying {
  /** The containers around the current value, and the names and indices that lead to it. */
  readonly #around: object[] = [];
  readonly #path: (string | number)[] = [];
  /** Lower bound of the size of the JSON text. */
  #bytes = 0;

  constructor(private readonly limits: JsonLimits) {}

  fault(message: string, code: NoJson['code'] = 'not_json'): NoJson {
    const parts = this.#path.map((part) => {
      const isShown = typeof part === 'number' || SHOWN_NAME.test(part);
      return `/${isShown ? part : '*'}`;
    });
    return new NoJson(code, parts.join(''), message);
  }

  /** @param inArray whether the value is in an array, where undefined cannot be omitted. */
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
        if (inArray) throw this.fault('is undefined, which JSON does not allow in an array');
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

  /**
   * Removes a trailing half of a surrogate pair, which `slice` may leave and which is not a character
   * (Unicode 3.9, D75).
   */
  #text(value: string): string {
    if (value.isWellFormed()) return value;
    const cut = value.slice(0, -1);
    if (cut !== '' && FIRST_HALF.test(value) && cut.isWellFormed()) return cut;
    throw this.fault('contains a lone surrogate: use toWellFormed()');
  }

  #container(value: object): unknown {
    if (types.isBoxedPrimitive(value)) return this.copy('', value.valueOf(), false);
    if (this.#around.includes(value)) throw this.fault('contains itself');
    if (this.#around.length === this.limits.levels) {
      throw this.fault(`is nested more than ${this.limits.levels} levels deep`, 'nesting_too_deep');
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
      if (!name.isWellFormed()) throw this.fault('has a member name with a lone surrogate');
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

/** The value that JSON.stringify uses (ECMA-262, SerializeJSONProperty). */
export function jsonForm(name: string | number, value: unknown): unknown {
  if ((typeof value !== 'object' || value === null) && typeof value !== 'bigint') return value;
  const { toJSON } = value as { readonly toJSON?: unknown };
  return typeof toJSON === 'function' ? (toJSON.call(value, String(name)) as unknown) : value;
}

/** Whether the value is a plain object of any realm. */
function isPlain(value: object): boolean {
  const prototype = Object.getPrototypeOf(value) as object | null;
  return prototype === null || Object.getPrototypeOf(prototype) === null;
}

/**
 * Types whose contents are not in their own members. The checks work for objects of any realm, behind
 * proxies, and with any Symbol.toStringTag.
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

/** Names only the types above, because a class name may contain data. */
function noObject(value: unknown): string {
  if (ArrayBuffer.isView(value)) return 'is a typed array, which JSON does not have';
  const name = typeof value === 'object' && value !== null && opaqueName(value);
  if (!name) return 'is not a plain object, and has no toJSON';
  return `is ${name === 'Error' ? 'an' : 'a'} ${name}, which JSON does not have`;
}

/** Whether an object's contents are its own members. */
export function isJsonObject(value: object, names: readonly string[] = Object.keys(value)): boolean {
  const plain = isPlain(value);
  if (plain && names.length > 0) return true;
  if (ArrayBuffer.isView(value) || opaqueName(value) !== undefined) return false;
  // JSON would write `{}` for an object that has only symbols or members that are not enumerable.
  return names.length > 0 || (plain && Reflect.ownKeys(value).length === 0);
}

/**
 * The members of an object; none for undefined and null.
 * @throws NoJson for other values.
 */
export function membersOf(name: string, given: unknown): object {
  const value = jsonForm(name, given) ?? {};
  if (typeof value === 'object' && !Array.isArray(value) && isJsonObject(value)) return value;
  throw new NoJson('not_json', name && `/${name}`, noObject(value));
}

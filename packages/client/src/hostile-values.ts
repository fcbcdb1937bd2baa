/**
 * Checks of arguments that the types forbid: unknown names, and promises that are not awaited. This is also
 * an entry point of the package, for `@clinical-events/instrument`.
 */
import { didYouMean } from '@clinical-events/protocol';

/** Names that a message may repeat: they come from code, and are not values of an event. */
const NAME = /^[A-Za-z_$][\w$-]{0,63}$/;

/**
 * @param known the names of `what`.
 * @returns a message about the first unknown name with a value, which suggests the nearest known one; else
 * undefined.
 */
export function unknownName(what: string, fields: object, known: readonly string[]): string | undefined {
  for (const name in fields) {
    if (known.includes(name) || (fields as Readonly<Record<string, unknown>>)[name] === undefined) continue;
    const named = NAME.test(name) ? `no "${name}"` : 'no such name';
    return `there is ${named} in ${what}${didYouMean(name, known) || `, which has ${known.join(', ')}`}`;
  }
  return undefined;
}

/**
 * Whether the value is a promise, for example from an async callback whose result is not awaited. Its
 * rejection is handled, because an unhandled one would end the application.
 */
export function isDroppedPromise(value: unknown): boolean {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false;
  try {
    if (typeof (value as { readonly then?: unknown }).then !== 'function') return false;
    Promise.resolve(value).catch(() => undefined);
  } catch {
    // Its `then` throws.
  }
  return true;
}

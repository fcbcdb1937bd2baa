/**
 * What an application gives that its types forbid: names that a call does not have, and promises where nothing is
 * awaited. Also a door of the package, for those beside it that take options and callbacks by the same rules.
 */
import { didYouMean } from '@clinical-events/protocol';

/** What may be repeated of a name: it stands in the code of the application, and is no value of an event. */
const NAME = /^[A-Za-z_$][\w$-]{0,63}$/;

/**
 * @param known the names of `what`.
 * @returns a sentence about the first other name that has a value, with the nearest known one; undefined without one.
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
 * Whether it is a promise. A callback that is async returns one where nothing can be awaited; rejected, it would end the
 * application. It is left alone then, and does no harm when it is rejected.
 */
export function isDroppedPromise(value: unknown): boolean {
  if ((typeof value !== 'object' && typeof value !== 'function') || value === null) return false;
  try {
    if (typeof (value as { readonly then?: unknown }).then !== 'function') return false;
    Promise.resolve(value).catch(() => undefined);
  } catch {
    // Whatever it is, it is no answer.
  }
  return true;
}

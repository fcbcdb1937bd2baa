/** Names that a call does not have: mostly a slip, by which what was said would be dropped in silence. */
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

/*
 * Callbacks of the application are asked and told where nothing can be awaited. One that is async returns a promise all
 * the same, and ended the application when that was rejected and no one looked. Every room may ask; it imports nothing.
 */

/** Whether it is a promise. It is left alone then, and does no harm when it is rejected. */
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

/**
 * Whether more than so many arrays and objects stand inside each other, the outermost one counted. Bounded by `levels`,
 * however deep the value is.
 */
export function nestsDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  if (levels === 0) return true;
  // Nothing is made on the way: this is gone through for each event.
  const inner = value as Readonly<Record<string, unknown>>;
  for (const name in inner) if (nestsDeeper(inner[name], levels - 1)) return true;
  return false;
}

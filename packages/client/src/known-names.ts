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

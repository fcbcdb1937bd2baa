/** Names of errors of any library. */
import { fields, text } from '@clinical-events/protocol/spans';

const DEEPEST = 5;

/** The names, classes and codes of an error and its causes. */
export function namesOf(error: unknown): string[] {
  const names: unknown[] = [];
  for (let [each, depth] = [error, 0]; typeof each === 'object' && depth < DEEPEST; depth++) {
    const { name, code, cause } = fields(each);
    names.push(name, each instanceof Error && each.constructor.name, code);
    each = cause;
  }
  return names.flatMap((name) => text(name) ?? []);
}

/** Whether the error or one of its causes has the name of a time-out. */
export function isTimeOut(error: unknown): boolean {
  return namesOf(error).some((name) => /timed?_?out/i.test(name));
}

/** What errors are called, whoever has made them. */
import { fields, text } from '@clinical-events/protocol/spans';

const DEEPEST = 5;

/** What it and its causes are called, by themselves, by their class and by their code. */
export function namesOf(error: unknown): string[] {
  const names: unknown[] = [];
  for (let [each, depth] = [error, 0]; typeof each === 'object' && depth < DEEPEST; depth++) {
    const { name, code, cause } = fields(each);
    names.push(name, each instanceof Error && each.constructor.name, code);
    each = cause;
  }
  return names.flatMap((name) => text(name) ?? []);
}

/** Whether a time was up, by the name of the error or of one of its causes. */
export function isTimeOut(error: unknown): boolean {
  return namesOf(error).some((name) => /timed?_?out/i.test(name));
}

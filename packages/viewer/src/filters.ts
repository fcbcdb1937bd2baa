/** The filters of lists and reports, as their forms send them. */
import { filterFrom } from '@clinical-events/collector/commands/run-filter';
import { periodFrom } from '@clinical-events/collector/commands/arguments';
import type { ReportAsked, RunsAsked } from './contract.js';

/** The members of a form, by name; empty ones are left out. */
export type Form = Readonly<Record<string, string>>;

const OF_RUNS = ['organisation', 'model', 'app', 'outcome', 'feedback', 'only', 'since', 'until', 'clock'];
const OF_REPORT = ['organisation', 'model', 'since', 'until', 'clock'];
const OF_PERSONS = ['target', 'user'] as const;
const MEMBERS: readonly string[] = [...OF_RUNS, ...OF_PERSONS, 'page'];
/** Longest id of a person, and longest word or name; the access log accepts no longer one. */
const LONGEST = { person: 1000, other: 256 };
/** Runs on a page of the list. */
const PAGE_RUNS = 50;
/** The list counts past the runs of the pages before: half a second at this one. */
const MOST_PAGES = 1000;

/** Thrown for a filter that cannot be understood; the message names the field. */
export class FilterFault extends Error {
  override name = 'FilterFault';
}

/**
 * The known members of a query or a body that are texts; a repeated one counts once, `only` with all its
 * values.
 */
function formOf(sent: unknown): Form {
  const form: Record<string, string> = {};
  for (const [name, value] of Object.entries(Object(sent) as Record<string, unknown>)) {
    const texts = [value].flat().filter((each): each is string => typeof each === 'string' && each !== '');
    const text = name === 'only' ? texts.join(',') : (texts[0] ?? '');
    if (text === '' || !MEMBERS.includes(name)) continue;
    const longest = OF_PERSONS.some((each) => each === name) ? LONGEST.person : LONGEST.other;
    if (text.length > longest) throw new FilterFault(`${name}: the text is too long`);
    if (text.includes('\0') || !text.isWellFormed()) throw new FilterFault(`${name}: this is not text`);
    form[name] = text;
  }
  return form;
}

/** A list that a form asks for, without its scope. */
export interface ListAsked extends Pick<RunsAsked, 'filter' | 'offset' | 'limit'> {
  /** From 1. */
  readonly page: number;
  /** The filter for the access log: words and times, and `true` in place of the id of a person. */
  readonly logged: Readonly<Record<string, unknown>>;
  readonly form: Form;
}

/**
 * @param mayNamePersons whether the form may name a patient or a caller.
 * @throws FilterFault
 */
export function listFrom(sent: unknown, mayNamePersons: boolean, now: number): ListAsked {
  const form = formOf(sent);
  const page = form['page'] === undefined ? 1 : Number(form['page']);
  if (!Number.isSafeInteger(page) || page < 1) throw new FilterFault('page: no such page');
  if (page > MOST_PAGES) throw new FilterFault('page: the list ends here; choose an earlier time instead');
  // Persons are not read by filterFrom, for which @FILE would name a file of this host.
  const filter = understood(() => filterFrom(picked(form, OF_RUNS), now));
  const persons = mayNamePersons ? picked(form, OF_PERSONS) : {};
  const named = Object.fromEntries(Object.keys(persons).map((name) => [name, true]));
  return {
    filter: { ...filter, ...persons },
    ...{ page, offset: (page - 1) * PAGE_RUNS, limit: PAGE_RUNS },
    logged: { ...picked(form, OF_RUNS), ...named, ...(page > 1 && { page }) },
    form,
  };
}

/** A report that a form asks for, without its scope. @throws FilterFault */
export function reportFrom(sent: unknown): {
  readonly asked: Omit<ReportAsked, 'scope'>;
  readonly logged: Form;
  readonly form: Form;
} {
  const form = formOf(sent);
  const { organisation, model, clock } = form;
  const { since, until } = understood(() => periodFrom(picked(form, ['since', 'until'])));
  return {
    asked: { organisation, model, since, until, clock: clock === 'sender' ? 'sender' : 'received' },
    logged: picked(form, OF_REPORT),
    form,
  };
}

function picked(form: Form, names: readonly string[]): Form {
  return Object.fromEntries(Object.entries(form).filter(([name]) => names.includes(name)));
}

/** The parsers of the commands name an option, `--since`; a form has a field of this name. */
function understood<Answer>(read: () => Answer): Answer {
  try {
    return read();
  } catch (error) {
    const message = error instanceof Error ? error.message : '';
    throw new FilterFault(message.replaceAll(/--([a-z]+)/g, '$1'), { cause: error });
  }
}

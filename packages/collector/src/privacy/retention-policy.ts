/**
 * The retention policy: rules that say how long events are kept, and floors, which are minimum times. Pure.
 *
 * The first matching rule decides, otherwise `default`. A floor applies to rules and to erasures on request.
 * Times are calendar times in UTC: a month after 31 January is the last day of February.
 */
import { EVENT_KINDS } from '@clinical-events/protocol';

/** Maximum size of a policy, which an action contains in full. */
const MOST_POLICY_BYTES = 64 << 10;
const DURATION = /^P(?=\d)(?:(\d{1,4})Y)?(?:(\d{1,5})M)?(?:(\d{1,6})D)?$/;
const ID = /^[A-Za-z0-9._-]{1,64}$/;
const MATCHED = ['organisation', 'kind', 'model_id', 'model_version'] as const;
/** Members whose values may end with a wildcard `*`. */
const WITH_PREFIXES: readonly string[] = ['model_id', 'model_version'];
const AGES = ['run_start', 'last_event', 'received_at'] as const;
const UNITS = ['run', 'event'] as const;
/** Minimum and maximum days of a month, for the comparison of durations. */
const [SHORTEST_MONTH, LONGEST_MONTH] = [28, 31];
const DAY_MS = 86_400_000;

type Match = Readonly<Partial<Record<(typeof MATCHED)[number], readonly string[]>>>;

/** A time to keep events; undefined means forever. */
type Keep = { readonly months: number; readonly days: number } | undefined;

interface Floor {
  readonly id: string;
  readonly match: Match;
  readonly keep: Keep;
}

interface Rule extends Floor {
  readonly unit: (typeof UNITS)[number];
  readonly isAboveFloors: boolean;
}

/** The facts of an event or a run that rules match. An unknown model matches no rule that names one. */
export interface KeptFacts {
  readonly organisation: string;
  readonly kind?: string | undefined;
  readonly model_id?: string | undefined;
  readonly model_version?: string | undefined;
}

/** Thrown if the text is not a valid policy. @param faults one line each, with the location in the policy. */
export class PolicyFault extends Error {
  override name = 'PolicyFault';
  constructor(readonly faults: readonly string[]) {
    super(faults.join('; '));
  }
}

export class RetentionPolicy {
  constructor(
    readonly name: string,
    /**
     * The event from which the age counts: the start of the run, its last event, or the receipt of each
     * event.
     */
    readonly ageFrom: (typeof AGES)[number],
    private readonly rules: readonly Rule[],
    private readonly floors: readonly Floor[],
  ) {}

  /** The ids of rules with zero retention. */
  keepingNothing(): string[] {
    return this.rules.filter(({ keep }) => after(0, keep) === 0).map(({ id }) => id);
  }

  /** The rule that decides, and whether it applies to whole runs or single events. */
  ruleFor(facts: KeptFacts): { readonly id: string; readonly unit: 'run' | 'event' } {
    const { id, unit } = this.#ruleFor(facts);
    return { id, unit };
  }

  /** The end of its retention, in ms since 1970; undefined means forever. @param from start of its age. */
  keptUntil(facts: KeptFacts, from: number): number | undefined {
    return after(from, this.#ruleFor(facts).keep);
  }

  /**
   * The longest floor that still applies. The events of a run are held by their own age, not by the age of
   * the run.
   * @param received time of receipt of the event.
   */
  heldBy(facts: KeptFacts, received: number, now: number): { id: string; until: number } | undefined {
    let longest: { id: string; until: number } | undefined;
    for (const { id, match, keep } of this.floors) {
      if (!matches(match, facts)) continue;
      const until = after(received, keep) ?? Infinity;
      if (until > now && until > (longest?.until ?? 0)) longest = { id, until };
    }
    return longest;
  }

  /** Whether the deciding rule overrides floors, as for test data. */
  isAboveFloors(facts: KeptFacts): boolean {
    return this.#ruleFor(facts).isAboveFloors;
  }

  #ruleFor(facts: KeptFacts): Rule {
    const rule = this.rules.find(({ match }) => matches(match, facts));
    if (rule === undefined) throw new Error('a policy has a default');
    return rule;
  }
}

/** Parses a policy. @throws PolicyFault with every fault. */
export function parsePolicy(text: string): RetentionPolicy {
  if (Buffer.byteLength(text) > MOST_POLICY_BYTES)
    throw new PolicyFault([`it is larger than ${MOST_POLICY_BYTES / 1024} KiB`]);
  let read: unknown;
  try {
    read = JSON.parse(text);
  } catch {
    throw new PolicyFault(['it is not JSON']);
  }
  return policyFrom(read);
}

/** Reads a policy from parsed JSON, as in an action. @throws PolicyFault */
export function policyFrom(read: unknown): RetentionPolicy {
  const reading = new Reading();
  const policy = reading.object('', read, [
    ...['$schema', 'version', 'name', 'owner', 'unit', 'age_from', 'floors', 'rules', 'default'],
  ]);
  if (policy['version'] !== 1) reading.fault('version', 'must be 1');
  const name = reading.text('name', policy['name']);
  if (policy['owner'] !== undefined) reading.text('owner', policy['owner']);
  const unit = reading.word('unit', policy['unit'], UNITS, 'run');
  const ageFrom = reading.word('age_from', policy['age_from'], AGES, 'last_event');
  const floors = reading.list('floors', policy['floors']).map((each, i): Floor => {
    const floor = reading.object(`floors[${i}]`, each, ['id', 'match', 'keep', 'basis']);
    if (floor['basis'] !== undefined) reading.text(`floors[${i}].basis`, floor['basis']);
    return reading.floor(`floors[${i}]`, floor);
  });
  const rules = reading.list('rules', policy['rules']).map((each, i): Rule => {
    const at = `rules[${i}]`;
    const rule = reading.object(at, each, ['id', 'match', 'keep', 'unit', 'floor']);
    const above = rule['floor'];
    if (above !== undefined && above !== 'none') reading.fault(`${at}.floor`, 'can only be "none"');
    const own = reading.word(`${at}.unit`, rule['unit'], UNITS, unit);
    const { kind } = Object(rule['match']) as { readonly kind?: unknown };
    if (own === 'run' && kind !== undefined)
      reading.fault(at, 'names kinds, but a run has events of several kinds: its unit must be "event"');
    return { ...reading.floor(at, rule), unit: own, isAboveFloors: above === 'none' };
  });
  const last = reading.object('default', policy['default'], ['keep']);
  const keep = reading.keep('default.keep', last['keep']);
  const all: Rule[] = [...rules, { id: 'default', match: {}, keep, unit, isAboveFloors: false }];
  for (const [what, list] of Object.entries({ floors, rules })) {
    const ids = list.map(({ id }) => id);
    const twice = ids.find((id, i) => ids.indexOf(id) !== i);
    if (twice !== undefined) reading.fault(what, `has "${twice}" twice`);
  }
  if (rules.some(({ id }) => id === 'default')) reading.fault('rules', 'the id "default" is reserved');
  if (reading.faults.length === 0)
    for (const fault of contradictions(all, floors)) reading.faults.push(fault);
  if (reading.faults.length > 0) throw new PolicyFault(reading.faults);
  return new RetentionPolicy(name, ageFrom, all, floors);
}

/** Reports rules that keep events for a shorter time than a floor that may match the same events. */
function* contradictions(rules: readonly Rule[], floors: readonly Floor[]): Generator<string> {
  for (const rule of rules) {
    if (rule.isAboveFloors) continue;
    for (const floor of floors)
      if (mayMeet(rule.match, floor.match) && isSurelyShorter(rule.keep, floor.keep))
        yield `the rule "${rule.id}" keeps events for a shorter time than the floor "${floor.id}"`;
  }
}

function mayMeet(one: Match, other: Match): boolean {
  return MATCHED.every((name) => {
    const [a, b] = [one[name], other[name]];
    if (a === undefined || b === undefined || WITH_PREFIXES.includes(name)) return true;
    return a.some((value) => b.includes(value));
  });
}

/** Whether one duration is always shorter than the other, regardless of their start. */
function isSurelyShorter(one: Keep, other: Keep): boolean {
  if (one === undefined) return false;
  if (other === undefined) return true;
  const most = one.months * LONGEST_MONTH + one.days;
  const least = other.months * SHORTEST_MONTH + other.days;
  const isShorter = one.months <= other.months && one.days <= other.days;
  return (isShorter && (one.months < other.months || one.days < other.days)) || most < least;
}

function matches(match: Match, facts: KeptFacts): boolean {
  return MATCHED.every((name) => {
    const wanted = match[name];
    if (wanted === undefined) return true;
    const value = facts[name];
    if (value === undefined) return false;
    return wanted.some((each) =>
      WITH_PREFIXES.includes(name) && each.endsWith('*')
        ? value.startsWith(each.slice(0, -1))
        : value === each,
    );
  });
}

/** `until 2027-01-01`, or `for ever`. */
export function untilText(until: number): string {
  return until === Infinity ? 'for ever' : `until ${new Date(until).toISOString().slice(0, 10)}`;
}

function after(from: number, keep: Keep): number | undefined {
  if (keep === undefined) return undefined;
  const begun = new Date(from);
  const day = begun.getUTCDate();
  const moved = new Date(from);
  moved.setUTCDate(1);
  moved.setUTCMonth(moved.getUTCMonth() + keep.months);
  const last = new Date(Date.UTC(moved.getUTCFullYear(), moved.getUTCMonth() + 1, 0)).getUTCDate();
  moved.setUTCDate(Math.min(day, last));
  return moved.getTime() + keep.days * DAY_MS;
}

/** Reads the members of a policy and collects faults. */
class Reading {
  readonly faults: string[] = [];

  fault(at: string, what: string): void {
    this.faults.push(at === '' ? what : `${at}: ${what}`);
  }

  object(at: string, value: unknown, members: readonly string[]): Readonly<Record<string, unknown>> {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) {
      this.fault(at, 'must be an object');
      return {};
    }
    for (const name of Object.keys(value))
      if (!members.includes(name)) this.fault(at === '' ? name : `${at}.${name}`, 'is unknown');
    return value as Readonly<Record<string, unknown>>;
  }

  list(at: string, value: unknown = []): readonly unknown[] {
    if (Array.isArray(value)) return value;
    this.fault(at, 'must be a list');
    return [];
  }

  text(at: string, value: unknown): string {
    if (typeof value === 'string' && value !== '' && value.length <= 256) return value;
    this.fault(at, 'must be a text of 1 to 256 characters');
    return '';
  }

  word<Word extends string>(at: string, value: unknown, words: readonly Word[], otherwise: Word): Word {
    if (value === undefined) return otherwise;
    const found = words.find((word) => word === value);
    if (found === undefined) this.fault(at, `must be one of ${words.join(', ')}`);
    return found ?? otherwise;
  }

  floor(at: string, value: Readonly<Record<string, unknown>>): Floor {
    const id = typeof value['id'] === 'string' && ID.test(value['id']) ? value['id'] : '';
    if (id === '') this.fault(`${at}.id`, 'must be 1 to 64 characters of A-Z a-z 0-9 . _ -');
    const match = value['match'] === undefined ? {} : this.match(`${at}.match`, value['match']);
    return { id, match, keep: this.keep(`${at}.keep`, value['keep']) };
  }

  match(at: string, value: unknown): Match {
    const read = this.object(at, value, MATCHED);
    const match: Partial<Record<(typeof MATCHED)[number], readonly string[]>> = {};
    for (const name of MATCHED) {
      if (read[name] === undefined) continue;
      const values = this.list(`${at}.${name}`, read[name]);
      if (values.length === 0) this.fault(`${at}.${name}`, 'is empty');
      const texts = values.map((each, i) => this.text(`${at}.${name}[${i}]`, each));
      const kinds: readonly string[] = EVENT_KINDS;
      for (const text of texts)
        if (name === 'kind' && !kinds.includes(text))
          this.fault(`${at}.${name}`, `${JSON.stringify(text)} is not one of ${kinds.join(', ')}`);
      match[name] = texts;
    }
    return match;
  }

  keep(at: string, value: unknown): Keep {
    if (value === 'forever') return undefined;
    const [, years, months, days] = (typeof value === 'string' && DURATION.exec(value)) || [];
    if (years === undefined && months === undefined && days === undefined) {
      this.fault(at, 'must be a time such as P10Y, P6M or P30D, or "forever"');
      return undefined;
    }
    return { months: 12 * Number(years ?? 0) + Number(months ?? 0), days: Number(days ?? 0) };
  }
}

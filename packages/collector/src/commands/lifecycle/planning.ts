/** Makes an erasure plan: the events about a person, a run or an earlier action, and what keeps them. */
import { type Actions, eventsOf } from '../../privacy/actions.js';
import { SequenceSet } from '../../privacy/sequence-set.js';
import { counted } from '../../quantity.js';
import { severalRuns } from '../arguments.js';
import { CommandFailure, EXIT, usage } from '../exit-codes.js';
import { considered } from './delivery.js';
import { Holds, holdsOf } from './holds.js';
import {
  assertOneOrganisation,
  compared,
  keysIn,
  type LogRun,
  LogRuns,
  named,
  nameOf,
  type RecordKey,
  whyNested,
} from './log-runs.js';
import { type Found, idOf, type LogEvent, textOf } from './log-pass.js';
import { floorsOf, keysOf } from './erasable.js';
import { type Block, blockText, type Plan, PLAN_FORMAT, type PlanEvent } from './plan-file.js';

/** The request: exactly one of these besides `organisation` and `mentions`. */
export interface Asked {
  readonly subjects?: readonly string[] | undefined;
  /** Hexadecimal prefixes of run ids. */
  readonly runs?: readonly string[] | undefined;
  /** Ids in text form. */
  readonly events?: readonly string[] | undefined;
  /** The id of an erasure. */
  readonly late?: string | undefined;
  readonly certificates?: readonly Certified[] | undefined;
  readonly organisation?: string | undefined;
  readonly mentions: boolean;
}

/** The parts of a certificate. */
interface Certified {
  readonly log: string;
  readonly action: string;
  readonly events: readonly { readonly organisation: string; readonly id: string }[];
}

interface Erasure {
  readonly action: string;
  /** Sequence of its last entry. */
  readonly entry: number;
  readonly sequences: SequenceSet;
}

type Mark = Pick<PlanEvent, 'because' | 'about' | 'why'>;

/**
 * @throws CommandFailure if something does not exist or is in several organisations; StoreDamaged; the
 *   signal's reason.
 */
export async function makePlan(dataDir: string, asked: Asked, signal: AbortSignal): Promise<Plan> {
  const reader = await LogRuns.open(dataDir, signal);
  try {
    return await new Planning(reader, dataDir, asked).make();
  } finally {
    await reader.close();
  }
}

class Planning {
  readonly #actions: Actions;
  readonly #subjects: ReadonlySet<string>;
  /** Erasures whose late events are searched, newest first. */
  readonly #erasures: readonly Erasure[];

  constructor(
    private readonly reader: LogRuns,
    private readonly dataDir: string,
    private readonly asked: Asked,
  ) {
    const actions = reader.log.actions?.();
    if (actions === undefined) throw usage('the payloads of this log are not encrypted and cannot be erased');
    this.#actions = actions;
    this.#subjects = new Set(asked.subjects);
    const erasures = erasuresIn(actions);
    const { ledgerId } = reader.log;
    if (asked.certificates?.some(({ log }) => log !== ledgerId) === true)
      throw usage('--certificate: it belongs to another log');
    const { late } = asked;
    const wanted = erasures.filter(({ action }) => late === undefined || action === late);
    if (late !== undefined && wanted.length === 0)
      throw new CommandFailure(`--late: there is no erasure ${late} in ${dataDir}`, EXIT.notFound);
    // All events of a requested erasure; otherwise those of the newest ones, as many as fit in memory.
    let events = 0;
    this.#erasures = wanted.reverse().filter(({ sequences }) => {
      events += sequences.size;
      return late !== undefined || events <= MOST_LOOKED_AT;
    });
    const passedOver = wanted.length - this.#erasures.length;
    if (passedOver > 0)
      process.stderr.write(
        `collector: ${counted(passedOver, 'large or old erasure')} not searched for late events: use ` +
          `--late ACTION\n`,
      );
  }

  async make(): Promise<Plan> {
    const { reader, asked } = this;
    const { subjects = [], runs = [], events = [], certificates = [], organisation, mentions } = asked;
    const certified = certificates.flatMap((each) => each.events);
    // These are read before the log: anything that begins later was not considered.
    const by = considered(this.#actions);
    const holds = new Holds(holdsOf(this.dataDir, this.#actions, reader.log));
    const found = await reader.find({
      ...{ subjects, runs, mentions, organisation },
      events: [...events, ...certified.map(({ id }) => id)].map(idOf),
      erased: SequenceSet.union(this.#erasures.map(({ sequences }) => sequences)).toText(),
    });
    // An event of another organisation may have an id that a certificate names.
    const named = new Set(certified.map(({ organisation: of, id }) => `${id} ${of}`));
    const isMeant = (event: Found['events'][number]) =>
      named.has(`${textOf(event.id)} ${event.organisation}`);
    const selected = named.size === 0 ? found : { ...found, events: found.events.filter(isMeant) };
    this.#assertFound(selected);
    const absent = named.size - (named.size === 0 ? 0 : selected.events.length);
    const late = await this.#late(selected);
    const planned = await this.#planned(selected, late.runs);
    const texts = [
      asked.subjects && `a subject (${counted(subjects.length, 'id')})`,
      asked.runs && counted(runs.length, 'run'),
      asked.events && counted(events.length, 'event'),
      asked.late && `events after action ${asked.late}`,
      asked.certificates &&
        `${counted(certificates.length, 'certificate')} (${absent} of ` +
          `${counted(certified.length, 'event')} not in this log)`,
      organisation && `of ${organisation}`,
    ];
    return {
      ...{ format: PLAN_FORMAT, log: reader.log.ledgerId, made: new Date().toISOString() },
      ...{ through: reader.range.through, policy: by.policy, holds: by.holds },
      asked: texts.filter((text) => text !== undefined).join(', '),
      searched: mentions ? 'every payload' : 'starts',
      unread: selected.unread,
      unmatched: unmatched(subjects, planned),
      late: asked.late === undefined ? late.counts : [],
      events: await this.#judged(planned, holds),
    };
  }

  /** The planned events, by sequence. */
  async #planned(selected: Found, late: readonly RecordKey[]): Promise<Map<number, Planned>> {
    const { reader, asked } = this;
    const records = await this.#recordsOf(selected);
    const whole = [...late, ...keysIn(selected.runs)];
    const single = records.filter(({ event }) => !event.isMention);
    const mentioned = records.filter(({ event }) => event.isMention);
    const all = await reader.collect([...whole, ...single.map(({ record }) => record)], AROUND);
    const others = await reader.collect(
      mentioned.map(({ record }) => record),
      { ...AROUND, nested: false },
    );
    const planned = new Map<number, Planned>();
    const seeds = new Set(whole.map(nameOf));
    const byName = new Map([...all, ...others].map((run) => [nameOf(run), run]));
    const runOf = (record: RecordKey) => byName.get(nameOf(record)) ?? raise();
    for (const { event, record } of single)
      this.#plan(planned, runOf(record), [event], asked.certificates ? CERTIFICATE : EVENT);
    const ofSingle = new Set(single.map(({ record }) => nameOf(record)));
    for (const run of all) {
      const name = nameOf(run);
      if (seeds.has(name)) this.#plan(planned, run, run.events, this.#markOf(run));
      else if (!ofSingle.has(name)) {
        const about = asked.subjects === undefined ? 'not compared' : aboutOf(run);
        this.#plan(planned, run, run.events, { because: 'nested', about, why: whyNested(run) });
      }
    }
    for (const { event, record } of mentioned) {
      const run = runOf(record);
      this.#plan(planned, run, [event], { because: 'mention', about: aboutOf(run), why: 'mentioned only' });
    }
    return planned;
  }

  /** @throws CommandFailure */
  #assertFound({ runs, events }: Found): void {
    const { asked, dataDir } = this;
    const narrowed = asked.organisation === undefined ? '' : ` of ${asked.organisation}`;
    const ids = keysIn(runs).map(({ id }) => textOf(id));
    for (const digits of asked.runs ?? []) {
      const found = new Set(ids.filter((id) => id.replaceAll('-', '').startsWith(digits)));
      if (found.size === 0)
        throw new CommandFailure(`there is no run ${digits} in ${dataDir}${narrowed}`, EXIT.notFound);
      if (found.size > 1) throw severalRuns('--run', digits, [...found]);
    }
    const there = new Set(events.map(({ id }) => textOf(id)));
    for (const id of asked.events ?? [])
      if (!there.has(id))
        throw new CommandFailure(`there is no event ${id} in ${dataDir}${narrowed}`, EXIT.notFound);
    const organisations = new Map([...runs].map(([name, each]) => [name, each.size]));
    for (const { organisation, isMention } of events)
      if (!isMention && asked.certificates === undefined && !organisations.has(organisation))
        organisations.set(organisation, 1);
    if (asked.organisation === undefined) assertOneOrganisation(organisations);
  }

  /**
   * Counts events that arrived after an action had erased their whole records; and the records for `--late`.
   */
  async #late({ erased }: Found): Promise<{ counts: Plan['late']; runs: RecordKey[] }> {
    const counts = new Map<string, number>();
    const runs: RecordKey[] = [];
    const keys = (await this.reader.recordsOf(erased)).map(({ record }) => record);
    for (const run of await this.reader.collect(keys, { nested: false, outer: false })) {
      const erasure = this.#erasures.find(({ sequences }) =>
        run.events.some(({ sequence }) => sequences.has(sequence)),
      );
      const left = run.events.filter(({ sequence }) => !this.#actions.erased.has(sequence));
      if (erasure === undefined || left.length === 0) continue;
      if (left.some(({ sequence }) => sequence < erasure.entry)) continue;
      counts.set(erasure.action, (counts.get(erasure.action) ?? 0) + left.length);
      if (erasure.action === this.asked.late) runs.push(run);
    }
    return { counts: [...counts].map(([action, events]) => ({ action, events })), runs };
  }

  /** Events that were found individually, with their records. */
  async #recordsOf({ events }: Found): Promise<{ event: Found['events'][number]; record: RecordKey }[]> {
    const records = [];
    for (const event of events) {
      const { organisation, id, runId } = event;
      const record =
        runId === undefined
          ? await this.reader.recordOf(organisation, id)
          : { organisation, id: runId, isRun: true };
      if (record !== undefined) records.push({ event, record });
    }
    return records;
  }

  /** Adds events unless already planned or erased; the first mark wins. */
  #plan(planned: Map<number, Planned>, run: LogRun, events: readonly LogEvent[], mark: Mark): void {
    for (const event of events)
      if (!planned.has(event.sequence) && !this.#actions.erased.has(event.sequence))
        planned.set(event.sequence, { run, event, mark });
  }

  #markOf(run: LogRun): Mark {
    const { subjects, late } = this.asked;
    if (subjects !== undefined) return compared(run, this.#subjects);
    if (late === undefined) return { because: 'run', about: 'not compared', why: '' };
    const names = run.starts.some(
      ({ target, state }) => state !== 'erased' && (target !== undefined || state === 'unread'),
    );
    return names
      ? { because: 'late', about: 'someone else', why: 'a late start names a target' }
      : { because: 'late', about: 'no person', why: '' };
  }

  /** Adds what keeps each event; in log order. */
  async #judged(planned: ReadonlyMap<number, Planned>, holds: Holds): Promise<PlanEvent[]> {
    const all = [...planned.values()].sort((a, b) => a.event.sequence - b.event.sequence);
    const floors = await floorsOf(this.reader, this.#actions, new Set(all.map(({ run }) => run)));
    const { plain } = keysOf(
      this.reader.log,
      all.map(({ event }) => event),
    );
    return all.map(({ run, event, mark }) => {
      const { sequence, id, organisation, kind, receivedAt, size } = event;
      const held = holds.on(run, sequence);
      const floor = floors(run, event);
      const blocked: Block[] = [
        ...held.map((name) => ({ by: 'hold', name, until: null }) as const),
        ...(floor === undefined ? [] : [{ by: 'floor', name: floor.id, until: endOf(floor.until) } as const]),
        ...(plain.has(sequence) ? [{ by: 'stored in the clear', name: '', until: null } as const] : []),
      ];
      // Applying the plan may override a floor, but not a hold; an event without a key cannot be erased.
      const lasting = blocked.find(({ by }) => by !== 'floor');
      const isOpen = () => run.chain.every(({ starts }) => starts.every(({ state }) => state !== 'unread'));
      const hidden = this.#actions.holds.size === 0 || isOpen() ? '' : HIDDEN;
      const why = mark.why || (lasting ? blockText(lasting) : hidden);
      return {
        ...{ sequence, id: textOf(id), run: run.recordId, organisation, kind },
        ...{ received_at: new Date(receivedAt).toISOString(), size },
        ...{ because: mark.because, about: mark.about, blocked, why, erase: why === '' },
      };
    });
  }
}

interface Planned {
  readonly run: LogRun;
  readonly event: LogEvent;
  readonly mark: Mark;
}

const AROUND = { nested: true, outer: true };
const EVENT: Mark = { because: 'event', about: 'not compared', why: '' };
const CERTIFICATE: Mark = { ...EVENT, because: 'certificate' };
const HIDDEN = 'a start that it hangs on cannot be decrypted, and may name a person on hold';

function raise(): never {
  throw new RangeError('a record was not collected');
}

function aboutOf(run: LogRun): Mark['about'] {
  return named(run, 'target').length > 0 ? 'someone else' : 'no person';
}

/** Line numbers of ids that no start has. */
function unmatched(ids: readonly string[], planned: ReadonlyMap<number, Planned>): number[] {
  const runs = new Set(Array.from(planned.values(), ({ run }) => run));
  const there = new Set([...runs].flatMap(({ persons }) => persons));
  return ids.flatMap((id, i) => (there.has(id) ? [] : i + 1));
}

const MOST_LOOKED_AT = 500_000;

/** Erasures that a person requested. Erasures by a policy are not searched. */
function erasuresIn(actions: Actions): Erasure[] {
  const parts = actions.logged.flatMap(({ said, sequence }) =>
    said.does === 'erase' && said.reason !== 'policy' ? [{ ...said, sequence }] : [],
  );
  return [...Map.groupBy(parts, ({ action }) => action)].map(([action, of]) => {
    const sequences = eventsOf(of.flatMap(({ keys }) => keys));
    return { action, entry: of.at(-1)?.sequence ?? 0, sequences };
  });
}

function endOf(until: number): string | null {
  return until === Infinity ? null : new Date(until).toISOString();
}

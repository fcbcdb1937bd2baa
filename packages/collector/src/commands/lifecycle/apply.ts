/** Applies an erasure plan: what its marks say is erased, unless something has changed since it was made. */
import { randomUUID } from 'node:crypto';
import type { Config } from '../../config.js';
import { ABOVE_FLOORS, type Action, type Actions, eventsOf, type Reason } from '../../privacy/actions.js';
import type { SequenceSet } from '../../privacy/sequence-set.js';
import { counted } from '../../quantity.js';
import { type AccessLine, findPlan } from '../access-lines.js';
import { logAccess } from '../access-log.js';
import { actingUser } from '../actor.js';
import { CommandFailure, EXIT, interruption, usage } from '../exit-codes.js';
import { isNoId } from '../../store/text.js';
import { assertReadable } from '../regular-files.js';
import { legible } from '../terminal.js';
import { assertCollectorRuns, considered, deliver, isOver } from './delivery.js';
import { keysOf } from './erasable.js';
import { type ErasureFacts, keepErasureRecord, type LeftEvents } from './erasure-record.js';
import { dropRecord, Holds, holdsOf } from './holds.js';
import { type LogRun, LogRuns } from './log-runs.js';
import { idOf, textOf } from './log-pass.js';
import {
  type Block,
  blockText,
  type Plan,
  type PlanEvent,
  type PlanFile,
  planTable,
  readPlan,
} from './plan-file.js';

export interface ApplyOptions {
  readonly reason: Reason;
  /** Of 1 to 64 of A-Z a-z 0-9 . _ / - */
  readonly case: string;
  readonly by?: string;
  readonly overrideFloor?: true;
  readonly incomplete?: true;
}

export interface Applied {
  readonly action: string;
  readonly erased: SequenceSet;
  /** Of the events that the plan marks, how many were left: floors, and what has no key. */
  readonly left: number;
}

/** @throws CommandFailure when it may not be applied, or there is nothing to erase; then nothing is erased. */
export async function applyPlan(config: Config, file: string, options: ApplyOptions): Promise<Applied> {
  const { dataDir } = config;
  const planned = readPlan(file);
  const applier = applierOf(options);
  const signal = interruption();
  assertReadable(dataDir);
  assertCollectorRuns(config);
  const line = await plannedBy(dataDir, file, planned);
  const action = randomUUID();
  const { reason, by } = options;
  const { sha256: plan, marks } = planned;
  const filter = { plan, marks, action, override_floor: options.overrideFloor === true };
  const access = logAccess(dataDir, {
    ...{ command: 'erase apply', filter, reason, isAct: true },
    ...(by !== undefined && { by }),
  });
  const { name, proven: isProven = false } = line.actor;
  const planner = { name, isProven, at: line.at };
  const reader = await LogRuns.open(dataDir, signal, { from: planned.plan.through + 1 });
  try {
    const applied = await new Application(config, reader, planned, options).apply(
      action,
      { planner, applier },
      signal,
    );
    access.complete = true;
    return applied;
  } finally {
    await reader.close();
  }
}

/** Nothing is changed. @returns what a second person reviews: the plan as it is marked, both hashes, and who planned it. */
export async function checkPlan(dataDir: string, file: string): Promise<string> {
  const planned = readPlan(file);
  assertReadable(dataDir);
  logAccess(dataDir, { command: 'erase apply', filter: { plan: planned.sha256, check: true } }).complete =
    true;
  const { actor, at } = await plannedBy(dataDir, file, planned);
  return `${planTable(planned)}planned by ${legible(actor.name)}, ${at}\n`;
}

async function plannedBy(dataDir: string, file: string, { sha256 }: PlanFile): Promise<AccessLine> {
  const line = await findPlan(dataDir, sha256);
  if (line !== undefined) return line;
  throw usage(
    `${file}: no access log here has a line of collector erase plan for it: plan again on this host`,
  );
}

function applierOf({ by }: ApplyOptions): ErasureFacts['applier'] {
  const at = new Date().toISOString();
  const acting = actingUser();
  if (acting?.isProven === true) return { name: acting.name, isProven: true, at };
  if (by === undefined)
    throw usage(
      '--by: the system knows no login user here: say who applies it; the certificate has the name as stated',
    );
  return { name: by, isProven: false, at };
}

class Application {
  readonly #actions: Actions;
  readonly #plan: Plan;

  constructor(
    private readonly config: Config,
    /** Of what came since the plan was made. */
    private readonly reader: LogRuns,
    private readonly planned: PlanFile,
    private readonly options: ApplyOptions,
  ) {
    this.#plan = planned.plan;
    const actions = reader.log.actions?.();
    if (actions === undefined) throw usage('payloads of this log are not encrypted, and cannot be erased');
    this.#actions = actions;
  }

  async apply(
    action: string,
    persons: Pick<ErasureFacts, 'planner' | 'applier'>,
    signal: AbortSignal,
  ): Promise<Applied> {
    const { options, planned } = this;
    this.#assertApplicable();
    const marked = this.#marked();
    await this.#assertUnchanged(marked, signal);
    const isKept = ({ blocked }: PlanEvent) => options.overrideFloor !== true && floorsIn(blocked).length > 0;
    const allowed = marked.filter((event) => !isKept(event));
    const { keys, plain } = keysOf(this.reader.log, await this.#placesOf(allowed));
    const erased = eventsOf(keys);
    if (allowed.length === 0)
      throw new CommandFailure(
        `nothing was erased: all marked events are ${[...new Set(marked.flatMap(({ blocked }) => floorsIn(blocked).map(blockText)))].join(', ')}; ` +
          `--override-floor erases them for ${ABOVE_FLOORS.join(', ')}`,
        EXIT.refused,
      );
    if (erased.size === 0)
      throw new CommandFailure(
        'nothing was erased: all marked events were stored in the clear, without a key',
        EXIT.partly,
      );
    const done = allowed.filter(({ sequence }) => erased.has(sequence));
    const overridden = done.filter(({ blocked }) => floorsIn(blocked).length > 0);
    const { events, unread, policy, holds } = this.#plan;
    const gone = this.#actions.erased.with(erased);
    const facts: ErasureFacts = {
      ...{ action, case: options.case, ...persons, unread },
      left: leftOf(
        events.filter(({ sequence }) => !gone.has(sequence)),
        plain,
      ),
      mentions: done.filter(({ because }) => because === 'mention').length,
      overridden: leftOf(overridden, plain),
      setByHand: {
        marked: events.filter(({ erase, why }) => erase && why !== '').length,
        unmarked: events.filter(({ erase, why }) => !erase && why === '').length,
      },
    };
    const record = await keepErasureRecord(this.config.dataDir, facts);
    const said: Action = {
      ...{ action, does: 'erase', reason: options.reason, part: 1, parts: 1, keys, record },
      ...{ plan: planned.sha256, marks: planned.marks },
      ...(overridden.length > 0 && { override: true }),
      ...(unread > 0 && { incomplete: true }),
    };
    // By the plan: what begins between the check and here was not considered.
    const request = { action: said, considered: { policy, holds } };
    await deliver(this.config, request, { signal }).catch((error: unknown) => {
      // What was begun, or may be, keeps it.
      if (isOver(error) && this.reader.log.actions?.().partsIn(action).length === 0)
        dropRecord(this.config.dataDir, 'erasures', action);
      throw error;
    });
    return { action, erased, left: marked.length - erased.size };
  }

  /** @throws CommandFailure */
  #assertApplicable(): void {
    const { options } = this;
    const { log, unread, through } = this.#plan;
    if (log !== this.reader.log.ledgerId) throw usage('the plan is of another log than this one');
    if (through > this.reader.range.through)
      throw planAgain('the log does not reach as far as the plan: it was restored');
    if (unread > 0 && options.incomplete !== true)
      throw usage(
        `${counted(unread, 'payload')} could not be opened when it was planned: --incomplete applies it all the same, and the ` +
          'certificate says so',
      );
    const isCertified = this.#plan.events.every(({ because, erase }) => !erase || because === 'certificate');
    if (options.overrideFloor === true && !isCertified && !ABOVE_FLOORS.includes(options.reason))
      throw usage(
        `--override-floor: a floor yields to ${ABOVE_FLOORS.join(', ')}, and to what a certificate names, whatever the reason`,
      );
  }

  /** @throws CommandFailure when no marked event is left to be erased. */
  #marked(): PlanEvent[] {
    const marked = this.#plan.events.filter(({ erase }) => erase);
    if (marked.length === 0) throw new CommandFailure('the plan marks no event to be erased', EXIT.notFound);
    const left = marked.filter(({ sequence }) => !this.#actions.erased.has(sequence));
    if (left.length > 0) return left;
    const by = this.#actions.erasureOf(marked[0]?.sequence ?? 0)?.action ?? '';
    throw new CommandFailure(`all that the plan marks is erased already, by action ${by}`, EXIT.notFound);
  }

  /** @throws CommandFailure with exit code 10: what it was decided by is no longer so. */
  async #assertUnchanged(marked: readonly PlanEvent[], signal: AbortSignal): Promise<void> {
    const { holds, policy } = considered(this.#actions);
    if (holds.some((hold) => !this.#plan.holds.includes(hold))) throw planAgain('a hold has begun since');
    if (policy !== this.#plan.policy) throw planAgain('another retention policy was set since');
    if (marked.some(({ blocked }) => blocked.some(({ by }) => by === 'hold')))
      throw planAgain('an event that it marks is on hold, and a hold yields to nothing');
    const keys = marked.map(({ organisation, run }) => ({ organisation, id: idOf(run), isRun: true }));
    const came = await this.reader.collect(keys, { nested: false, outer: false });
    const late = came.reduce((sum, { events }) => sum + events.length, 0);
    // What a run is nested in may be on hold since: a start of that one says so, or one that nests the run in it.
    const mayBeHeld = holds.length > 0 && this.reader.range.through > this.#plan.through;
    const changed = mayBeHeld ? came : came.filter(({ starts }) => starts.length > 0);
    if (changed.length > 0) await this.#assertSamePerson(changed, marked, signal);
    if (late > 0)
      process.stderr.write(
        `collector: ${counted(late, 'event')} came for these runs since it was planned, and stay: plan again for them\n`,
      );
  }

  /** A further start may say that a run is about someone else, or about a person on hold. */
  async #assertSamePerson(
    changed: readonly LogRun[],
    marked: readonly PlanEvent[],
    signal: AbortSignal,
  ): Promise<void> {
    const { dataDir } = this.config;
    const whole = await LogRuns.open(dataDir, signal);
    try {
      const runs = await whole.collect(changed, { nested: false, outer: true });
      const holds = new Holds(holdsOf(dataDir, this.#actions, whole.log));
      for (const run of runs) {
        const isNew = ({ sequence }: { sequence: number }) => sequence > this.#plan.through;
        const of = (as: 'target' | 'caller', isSince: boolean) =>
          new Set(run.starts.filter((start) => isNew(start) === isSince).flatMap((start) => start[as] ?? []));
        const before = [of('target', false), of('caller', false)] as const;
        const as = before[0].size > 0 || of('target', true).size > 0 ? 0 : 1;
        const since = of(as === 0 ? 'target' : 'caller', true);
        if (
          [...since].some((id) => !before[as].has(id)) ||
          run.starts.some((start) => isNew(start) && start.state === 'unread')
        )
          throw planAgain('a start that came since says that a run is about someone else');
        const ofRun = marked.filter(
          (event) => event.run === run.recordId && event.organisation === run.organisation,
        );
        if (ofRun.some(({ sequence }) => holds.on(run, sequence).length > 0))
          throw planAgain('a start that came since puts a run on hold');
      }
    } finally {
      await whole.close();
    }
  }

  /** Where the events are now: a compaction moves them. */
  async #placesOf(events: readonly PlanEvent[]) {
    const places = [];
    for (const { organisation, id, run, sequence } of events) {
      const place = await this.reader.log.find(organisation, Buffer.from(idOf(id), 'latin1'));
      if (place?.sequence !== sequence)
        throw planAgain(`event ${id} is not where the plan says; see collector verify`);
      // One without a run is of what it hangs on, which may have come since.
      const record = isNoId(place.runId) ? await this.reader.recordOf(organisation, idOf(id)) : undefined;
      if (record !== undefined && textOf(record.id) !== run)
        throw planAgain(`event ${id} is part of what came since`);
      places.push({ organisation, sequence, at: place.at, size: place.size });
    }
    return places;
  }
}

function planAgain(why: string): CommandFailure {
  return new CommandFailure(`nothing was erased: ${why}: plan again`, EXIT.planAgain);
}

function floorsIn(blocked: readonly Block[]): Block[] {
  return blocked.filter(
    ({ by, until }) => by === 'floor' && (until === null || Date.parse(until) > Date.now()),
  );
}

/** Counted by why they were left; of a floor until when it keeps the last of them. */
function leftOf(events: readonly PlanEvent[], plain: ReadonlySet<number>): LeftEvents[] {
  const left = new Map<string, LeftEvents>();
  for (const { erase, sequence, blocked, why: reason } of events) {
    const [block] = blocked;
    const [why, of] =
      erase && plain.has(sequence)
        ? (['stored in the clear', ''] as const)
        : block === undefined
          ? (['not marked', reason] as const)
          : ([block.by, block.name] as const);
    const name = `${why} ${of}`;
    const before = left.get(name);
    const untils = [before === undefined ? '' : before.until, block?.until ?? undefined];
    const until = untils.includes(undefined) ? undefined : untils.toSorted().at(-1);
    left.set(name, {
      ...{ why, events: (before?.events ?? 0) + 1 },
      ...(of !== '' && { of }),
      ...(until !== undefined && { until }),
    });
  }
  return [...left.values()];
}

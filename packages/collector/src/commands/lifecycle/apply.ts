/**
 * Applies an erasure plan: erases the marked events, unless something has changed since the plan was made.
 */
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
  /** 1 to 64 of A-Z a-z 0-9 . _ / - */
  readonly case: string;
  readonly by?: string;
  readonly overrideFloor?: true;
  readonly incomplete?: true;
}

export interface Applied {
  readonly action: string;
  readonly erased: SequenceSet;
  /** Number of marked events that were not erased: kept by floors, or stored without a key. */
  readonly left: number;
}

/**
 * @throws CommandFailure if the plan may not be applied, or there is nothing to erase; then nothing was
 *   erased.
 */
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

/** The text for a reviewer: the plan with its marks, both hashes, and who made it. Changes nothing. */
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
  throw usage(`${file}: the access log has no line of collector erase plan for it: plan again on this host`);
}

function applierOf({ by }: ApplyOptions): ErasureFacts['applier'] {
  const at = new Date().toISOString();
  const acting = actingUser();
  if (acting?.isProven === true) return { name: acting.name, isProven: true, at };
  if (by === undefined)
    throw usage(
      '--by: the system knows no login user here: give the name of the person who applies it, for the ' +
        'certificate',
    );
  return { name: by, isProven: false, at };
}

class Application {
  readonly #actions: Actions;
  readonly #plan: Plan;

  constructor(
    private readonly config: Config,
    /** Reads what was stored after the plan was made. */
    private readonly reader: LogRuns,
    private readonly planned: PlanFile,
    private readonly options: ApplyOptions,
  ) {
    this.#plan = planned.plan;
    const actions = reader.log.actions?.();
    if (actions === undefined) throw usage('the payloads of this log are not encrypted and cannot be erased');
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
    if (allowed.length === 0) {
      const floors = new Set(marked.flatMap(({ blocked }) => floorsIn(blocked).map(blockText)));
      throw new CommandFailure(
        `nothing was erased: all marked events are ${[...floors].join(', ')}; --override-floor erases them ` +
          'for ' +
          ABOVE_FLOORS.join(', '),
        EXIT.refused,
      );
    }
    if (erased.size === 0)
      throw new CommandFailure('nothing was erased: all marked events were stored unencrypted', EXIT.partly);
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
    // The state as of the plan: anything that begins between the check and here was not considered.
    const request = { action: said, considered: { policy, holds } };
    await deliver(this.config, request, { signal }).catch((error: unknown) => {
      // An action that has begun, or may have, keeps its record.
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
    if (log !== this.reader.log.ledgerId) throw usage('the plan was made for another log');
    if (through > this.reader.range.through)
      throw planAgain('the log is shorter than when the plan was made, because it was restored');
    if (unread > 0 && options.incomplete !== true)
      throw usage(
        `${counted(unread, 'payload')} could not be decrypted when it was planned: --incomplete applies it ` +
          'anyway, and the certificate states it',
      );
    const isCertified = this.#plan.events.every(({ because, erase }) => !erase || because === 'certificate');
    if (options.overrideFloor === true && !isCertified && !ABOVE_FLOORS.includes(options.reason))
      throw usage(
        `--override-floor: requires the reason ${ABOVE_FLOORS.join(' or ')}, or a plan made from ` +
          'certificates',
      );
  }

  /** @throws CommandFailure if no marked event is left to erase. */
  #marked(): PlanEvent[] {
    const marked = this.#plan.events.filter(({ erase }) => erase);
    if (marked.length === 0) throw new CommandFailure('the plan marks no event', EXIT.notFound);
    const left = marked.filter(({ sequence }) => !this.#actions.erased.has(sequence));
    if (left.length > 0) return left;
    const by = this.#actions.erasureOf(marked[0]?.sequence ?? 0)?.action ?? '';
    throw new CommandFailure(`all marked events have already been erased, by action ${by}`, EXIT.notFound);
  }

  /** @throws CommandFailure with exit code 10 if the basis of the plan has changed. */
  async #assertUnchanged(marked: readonly PlanEvent[], signal: AbortSignal): Promise<void> {
    const { holds, policy } = considered(this.#actions);
    if (holds.some((hold) => !this.#plan.holds.includes(hold))) throw planAgain('a hold was added since');
    if (policy !== this.#plan.policy) throw planAgain('a different retention policy was set since');
    if (marked.some(({ blocked }) => blocked.some(({ by }) => by === 'hold')))
      throw planAgain('a marked event is on hold, which cannot be overridden');
    const keys = marked.map(({ organisation, run }) => ({ organisation, id: idOf(run), isRun: true }));
    const came = await this.reader.collect(keys, { nested: false, outer: false });
    const late = came.reduce((sum, { events }) => sum + events.length, 0);
    // A run may now be under a hold through an outer run: any event that came later may be the start that
    // shows it.
    const mayBeHeld = holds.length > 0 && this.reader.range.through > this.#plan.through;
    const changed = mayBeHeld ? came : came.filter(({ starts }) => starts.length > 0);
    if (changed.length > 0) await this.#assertSamePerson(changed, marked, signal);
    if (late > 0)
      process.stderr.write(
        `collector: ${counted(late, 'event')} of these runs came after the plan and ${late === 1 ? 'is' : 'are'} not erased: plan ` +
          `again for them\n`,
      );
  }

  /** A new start may state that a run is about another person, or about a person on hold. */
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
          throw planAgain('a new start states that a run is about another person');
        const ofRun = marked.filter(
          (event) => event.run === run.recordId && event.organisation === run.organisation,
        );
        if (ofRun.some(({ sequence }) => holds.on(run, sequence).length > 0))
          throw planAgain('a new start puts a run on hold');
      }
    } finally {
      await whole.close();
    }
  }

  /** The current places of the events, which a compaction moves. */
  async #placesOf(events: readonly PlanEvent[]) {
    const places = [];
    for (const { organisation, id, run, sequence } of events) {
      const place = await this.reader.log.find(organisation, Buffer.from(idOf(id), 'latin1'));
      if (place?.sequence !== sequence)
        throw planAgain(`event ${id} is not where the plan states; see collector verify`);
      // An event without a run belongs to the event it is attached to, which may have arrived since.
      const record = isNoId(place.runId) ? await this.reader.recordOf(organisation, idOf(id)) : undefined;
      if (record !== undefined && textOf(record.id) !== run)
        throw planAgain(`event ${id} now belongs to an event that came later`);
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

/** Counts by reason; for a floor, with the end of its longest period. */
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

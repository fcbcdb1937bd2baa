/** `collector retention`: the policy for keeping and erasing events, and its application. */
import { createHash, randomUUID } from 'node:crypto';
import fs from 'node:fs';
import type { CatalogueRun, RunSummary } from '../../catalogue/catalogue.js';
import type { Config } from '../../config.js';
import { readJson } from '../../ledger/strict-json.js';
import {
  type RetentionPolicy,
  parsePolicy,
  policyFrom,
  PolicyFault,
} from '../../privacy/retention-policy.js';
import { eventsOf } from '../../privacy/actions.js';
import type { TakenKeys } from '../../privacy/payload-keys.js';
import { SequenceSet } from '../../privacy/sequence-set.js';
import { aboutBytes, counted } from '../../quantity.js';
import { openStore } from '../../store/open-to-read.js';
import { systemCode } from '../../system-code.js';
import { logAccess } from '../access-log.js';
import { instantFrom } from '../arguments.js';
import { defineCommand } from '../define.js';
import { usage, CommandFailure, EXIT, type ExitCode, interruption } from '../exit-codes.js';
import { openCatalogue, type CatalogueAccess } from '../catalogue.js';
import { assertReadable } from '../regular-files.js';
import { alignedTable, jsonText } from '../terminal.js';
import { printRemarks } from '../typed.js';
import { assertCollectorRuns, beginLog, considered, deliver, isErased } from './delivery.js';
import { factsOf, floorOn, keysOf, ruleOf } from './erasable.js';
import { type HoldRecord, Holds, holdsOf } from './holds.js';
import { type LogRun, LogRuns, nameOf, type RecordKey } from './log-runs.js';
import { idOf, type LogEvent, textOf } from './log-pass.js';

const EXAMPLES = `  $ collector retention policy set policy.json --dry-run
  $ collector retention policy set policy.json
  $ collector retention policy show
  $ collector retention run --dry-run --at 2027-01-01
  $ collector retention run

A policy states how long events are kept, by organisation, kind and model
(docs/guide/privacy/retention-concept.md). "run" erases events whose retention period has ended; schedule it,
for example nightly. It finds runs in the catalogue and checks them in the log: a run for which the two differ
is kept. The text of a policy becomes a permanent entry of the log: it must not name a person. Events on hold,
and events below a floor of the policy, are kept.

Exit codes: 0 done, or nothing to erase, 10 a hold or another policy was set meanwhile, 9 begun but not
complete because a key directory cannot be reached, 8 the record of a hold is missing, 7 done, except runs for
which the catalogue and the log differ or a start cannot be decrypted, 6 no policy is set, 2 the file is not a
policy.`;

const SHARED = { configuration: 'lifecycle', examples: EXAMPLES } as const;

const set = defineCommand<{ readonly dryRun?: true }>({
  name: 'set',
  description: 'Activate a policy. Nothing is erased until `retention run`.',
  arguments: { '<file>': 'the policy' },
  options: { '--dry-run': 'check the file, and change nothing' },
  ...SHARED,
  async run({ options, config }, file = '') {
    const read = readPolicy(file);
    if (options.dryRun) process.stdout.write(`ok: ${read.policy.name}\n`);
    else await setPolicy(read, config());
  },
});

const show = defineCommand({
  name: 'show',
  description: 'Print the active policy.',
  ...SHARED,
  run({ config }) {
    const { dataDir } = config();
    assertReadable(dataDir);
    const active = openStore(dataDir).events.actions?.().policy;
    if (active === undefined) throw noPolicy(dataDir);
    process.stdout.write(jsonText(active.policy));
  },
});

const run = defineCommand<RunOptions>({
  name: 'run',
  description: 'Erase events whose retention period has ended.',
  options: {
    '--dry-run': 'report what would be erased, and change nothing',
    '--at <time>': 'with --dry-run: what would be erased at this time',
    '--json': 'print the result as one JSON object',
  },
  ...SHARED,
  run: ({ options, config }) => runRetention(config(), options),
});

export const command = defineCommand({
  name: 'retention',
  description: 'Keep events for as long as a policy states, then erase them.',
  commands: [
    defineCommand({
      name: 'policy',
      description: 'Set and show the retention policy.',
      commands: [set, show],
    }),
    run,
  ],
});

function noPolicy(dataDir: string): CommandFailure {
  return new CommandFailure(`no retention policy is set in ${dataDir}`, EXIT.notFound);
}

/** A policy has four levels. */
const MOST_NESTED = 16;

/** Warns of rules with zero retention. @throws CommandFailure if the file is not a policy. */
function readPolicy(file: string): { readonly text: string; readonly policy: RetentionPolicy } {
  try {
    const text = new TextDecoder().decode(fs.readFileSync(file));
    // JSON.parse takes the last of duplicate names, so a floor could be lost.
    const { fault } = readJson(text, MOST_NESTED);
    if (fault?.code === 'duplicate_key') throw new PolicyFault(['an object has a duplicate name']);
    if (fault?.code === 'nesting_too_deep') throw new PolicyFault(['it is nested too deeply']);
    const policy = parsePolicy(text);
    for (const id of policy.keepingNothing())
      process.stderr.write(
        `collector: warning: the rule "${id}" has zero retention: the next "retention run" erases matching ` +
          `events\n`,
      );
    return { text, policy };
  } catch (error) {
    if (!(error instanceof PolicyFault))
      throw usage(`${file} cannot be read (${systemCode(error) ?? 'UNKNOWN'})`);
    throw usage(`${file} is not a retention policy: ${error.faults.join('; ')}`);
  }
}

async function setPolicy(
  { policy: read, text }: ReturnType<typeof readPolicy>,
  config: Config,
): Promise<void> {
  const { actions } = beginLog(config.dataDir);
  assertCollectorRuns(config);
  const policy: unknown = JSON.parse(text);
  const action = randomUUID();
  const filter = { action, policy: read.name, sha256: createHash('sha256').update(text).digest('hex') };
  const access = logAccess(config.dataDir, { command: 'retention policy set', filter, isAct: true });
  await deliver(config, { action: { action, does: 'policy', policy }, considered: considered(actions) });
  access.complete = true;
  process.stdout.write(`set: ${read.name}\n`);
  printRemarks(['to see what it would erase now: collector retention run --dry-run'], config.dataDir);
}

interface RunOptions {
  readonly dryRun?: true;
  readonly at?: string;
  readonly json?: true;
}

/**
 * Number of events examined together: after years without a policy, tens of millions may have to be erased.
 */
const WINDOW = 200_000;
/** Maximum number of differing runs that are listed. */
const MOST_NAMED = 10;

/** The events to erase by one rule; only their keys are kept in memory. */
interface Due {
  readonly rule: string;
  events: number;
  bytes: number;
  /** Number of these events that have no key to destroy. */
  plain: number;
  /** The keys, one entry per bucket and organisation. */
  readonly keys: Map<string, TakenKeys>;
}

/** A run with events to erase according to the catalogue. */
interface Candidate extends RecordKey {
  /** The deciding facts in the catalogue: see decidingText. */
  readonly said: string;
}

/**
 * The events to erase. The catalogue selects the runs to examine, and the log decides: an altered row of the
 * catalogue must not cause the erasure of anything that a hold or a floor keeps.
 */
class RetentionPlan {
  readonly due = new Map<string, Due>();
  held = 0;
  belowFloors = 0;
  /**
   * Runs with a start that cannot be decrypted although it was not erased: the persons they concern are
   * unknown.
   */
  unread = 0;
  /** Runs for which the catalogue and the log differ. */
  readonly differences = { runs: 0, first: [] as string[] };
  readonly #holds: Holds;
  readonly #erased: SequenceSet;

  constructor(
    private readonly reader: LogRuns,
    readonly policy: RetentionPolicy,
    records: readonly HoldRecord[],
    private readonly now: number,
  ) {
    this.#holds = new Holds(records);
    this.#erased = reader.log.actions?.().erased ?? SequenceSet.EMPTY;
  }

  get isExact(): boolean {
    return this.differences.runs === 0 && this.unread === 0;
  }

  /** Adds the events of these runs that must be erased. */
  async take(rows: Iterable<CatalogueRun>): Promise<void> {
    let window: Candidate[] = [];
    let events = 0;
    for (const row of rows) {
      const entries = row.events();
      if (!entries.some((entry) => this.#isDue(row, entry))) continue;
      const { organisation, recordId, isRun } = row;
      window.push({ organisation, id: idOf(recordId), isRun, said: decidingText(row, entries) });
      events += entries.length;
      if (events < WINDOW) continue;
      await this.#judge(window);
      [window, events] = [[], 0];
    }
    if (window.length > 0) await this.#judge(window);
  }

  async #judge(window: readonly Candidate[]): Promise<void> {
    const { reader, policy } = this;
    const byRule = new Map<string, LogEvent[]>();
    const decide = (run: LogRun, summary: RunSummary, event: LogEvent) => {
      const facts = factsOf(summary);
      if (this.#holds.on(run, event.sequence).length > 0) this.held++;
      else if (floorOn(policy, facts, event, this.now) !== undefined) this.belowFloors++;
      else {
        const { id } = ruleOf(policy, facts, event.kind);
        const events = byRule.get(id);
        if (events === undefined) byRule.set(id, [event]);
        else events.push(event);
      }
    };
    const runs = await reader.collect(window, { nested: false, outer: true });
    const found = new Map<string, readonly [LogRun, RunSummary]>();
    for await (const [run, summary] of reader.summaries(runs)) found.set(nameOf(run), [run, summary]);
    for (const candidate of window) {
      const [run, summary] = found.get(nameOf(candidate)) ?? [];
      // A duplicate row of the catalogue is judged only once.
      found.delete(nameOf(candidate));
      const isAsSaid =
        run !== undefined &&
        summary !== undefined &&
        decidingText(summary, run.events) === candidate.said &&
        run.isRun === candidate.isRun &&
        (run.isRun || (await this.#isRecord(run)));
      if (!isAsSaid) this.#differ(candidate);
      else if (run.chain.some(({ starts }) => starts.some(({ state }) => state === 'unread'))) this.unread++;
      else for (const event of run.events) if (this.#isDue(summary, event)) decide(run, summary, event);
    }
    for (const [rule, events] of byRule) this.#count(rule, events);
  }

  #count(rule: string, events: readonly LogEvent[]): void {
    const due = this.due.get(rule) ?? {
      rule,
      events: 0,
      bytes: 0,
      plain: 0,
      keys: new Map<string, TakenKeys>(),
    };
    this.due.set(rule, due);
    const { keys, plain } = keysOf(this.reader.log, events);
    due.plain += plain.size;
    for (const { size, sequence } of events) {
      if (plain.has(sequence)) continue;
      due.events++;
      due.bytes += size;
    }
    for (const each of keys) {
      const name = `${each.tag} ${each.organisation}`;
      const known = due.keys.get(name)?.sequences ?? SequenceSet.EMPTY;
      due.keys.set(name, { ...each, sequences: known.with(each.sequences) });
    }
  }

  /** Whether this id identifies a record of events that belong to no run. */
  async #isRecord({ organisation, id }: LogRun): Promise<boolean> {
    const record = await this.reader.recordOf(organisation, id);
    return record?.isRun === false && record.id === id;
  }

  #differ({ id }: Candidate): void {
    const { first } = this.differences;
    this.differences.runs++;
    if (first.length < MOST_NAMED) first.push(textOf(id));
  }

  #isDue(
    run: RunSummary,
    { kind, sequence, receivedAt }: Pick<LogEvent, 'kind' | 'sequence' | 'receivedAt'>,
  ): boolean {
    if (this.#erased.has(sequence)) return false;
    const { policy } = this;
    const rule = ruleOf(policy, factsOf(run), kind);
    const ofRun = policy.ageFrom === 'run_start' ? run.began.received : run.times.received.last;
    const from = rule.unit === 'event' || policy.ageFrom === 'received_at' ? receivedAt : ofRun;
    const until = policy.keptUntil(rule.facts, from);
    return until !== undefined && until <= this.now;
  }
}

/** The facts of a run, except holds, that decide which of its events are erased. */
function decidingText(
  { modelId, modelVersion, times: { received } }: RunSummary,
  events: readonly { readonly sequence: number }[],
): string {
  const sequences = SequenceSet.of(events.map(({ sequence }) => sequence)).toText();
  return JSON.stringify([modelId, modelVersion, received, sequences]);
}

async function runRetention(config: Config, options: RunOptions): Promise<ExitCode> {
  const { dataDir } = config;
  const { dryRun, at } = options;
  if (at !== undefined && !dryRun) throw usage('--at: requires --dry-run');
  const now = at === undefined ? Date.now() : instantFrom('--at', at);
  assertReadable(dataDir);
  if (!dryRun) assertCollectorRuns(config);
  const signal = interruption();
  const filter = { dry_run: dryRun, at };
  const access = logAccess(dataDir, { command: 'retention run', filter, isAct: !dryRun });
  const open = () => openCatalogue({ dataDir, quiet: !process.stderr.isTTY, signal });
  const { plan, set, asked } = await planned(await open(), dataDir, { now, signal });
  access.complete = true;
  process.stdout.write(reported(plan, options));
  process.stderr.write(leftText(plan));
  if (dryRun) return plan.isExact ? EXIT.ok : EXIT.partly;
  let isPending = false;
  let isAll = plan.isExact;
  for (const { rule, keys: byName, events } of plan.due.values()) {
    if (events === 0) continue;
    const id = randomUUID();
    const keys = [...byName.values()];
    const action = { action: id, does: 'erase', reason: 'policy', policy: set.action, rule } as const;
    const request = { action: { ...action, part: 1, parts: 1, keys }, considered: asked };
    const answer = await deliver(config, request, { signal });
    if (!(await isErased(dataDir, eventsOf(keys)))) isAll = false;
    const done = answer.state === 'pending' ? 'begun; a key directory has not followed yet' : 'erased';
    process.stderr.write(`collector: ${counted(events, 'event')} by ${rule}: ${done} (${id})\n`);
    if (answer.state === 'pending') isPending = true;
  }
  await (await open()).close();
  if (isPending) return EXIT.pending;
  return isAll ? EXIT.ok : EXIT.partly;
}

/** Closes the catalogue, because its open journal would keep the names of erased events. */
async function planned(
  access: CatalogueAccess,
  dataDir: string,
  { now, signal }: { readonly now: number; readonly signal: AbortSignal },
) {
  try {
    return await access.ask(async (catalogue) => {
      // Only entries that the catalogue covers are read, so that both have the same events.
      const reader = await LogRuns.open(dataDir, signal, { through: catalogue.cursor.sequence - 1 });
      try {
        const actions = reader.log.actions?.();
        const set = actions?.policy;
        if (actions === undefined || set === undefined) throw noPolicy(dataDir);
        // Anything that begins from here on was not considered.
        const asked = considered(actions);
        const plan = new RetentionPlan(
          reader,
          policyFrom(set.policy),
          holdsOf(dataDir, actions, reader.log),
          now,
        );
        await plan.take(catalogue.runs({ order: 'log' }));
        return { plan, set, asked };
      } finally {
        await reader.close();
      }
    });
  } finally {
    await access.close();
  }
}

function reported(plan: RetentionPlan, { json, dryRun }: RunOptions): string {
  const { policy, held, belowFloors, unread, differences } = plan;
  const due = [...plan.due.values()];
  if (json) {
    const rules = due.map(({ rule, events, bytes, plain }) => {
      return { rule, events, bytes, stored_in_the_clear: plain };
    });
    const left = { held, below_floors: belowFloors, unread_runs: unread, differences };
    const fields = { policy: policy.name, dry_run: dryRun === true, rules, ...left };
    return jsonText(fields);
  }
  const lines = due.length === 0 ? `nothing to erase by ${policy.name}\n` : '';
  const rows = due.map(({ rule, events, bytes, plain }) => [
    ...[rule, String(events), aboutBytes(bytes)],
    plain === 0 ? '' : `${counted(plain, 'event')} stored unencrypted are kept`,
  ]);
  const table = rows.length === 0 ? '' : alignedTable([['RULE', 'EVENTS', 'SIZE', ''], ...rows]);
  const onHold = held > 0 ? `${counted(held, 'event')} kept by a hold\n` : '';
  const young = belowFloors > 0 ? `${counted(belowFloors, 'event')} kept by a floor of the policy\n` : '';
  return lines + table + onHold + young;
}

/** Runs that are kept because their facts are uncertain. */
function leftText({ differences: { runs, first }, unread }: RetentionPlan): string {
  const named = `${first.join(', ')}${runs > first.length ? ', …' : ''}`;
  const differ =
    `collector: the catalogue differs from the log in ${counted(runs, 'run')}, not erased: ${named}; ` +
    'delete catalogue/, which is rebuilt\n';
  const unopened =
    `collector: ${counted(unread, 'run')} not erased: a start cannot be decrypted, so a hold may cover the ` +
    'run\n';
  return (runs > 0 ? differ : '') + (unread > 0 ? unopened : '');
}

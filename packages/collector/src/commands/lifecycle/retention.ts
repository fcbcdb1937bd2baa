/** `collector retention`: the policy by which events are kept and erased, and its work. */
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

A policy says how long events are kept, by organisation, kind and model (docs/guide/privacy/retention-concept.md). "run"
erases what is due, and is for a timer: once a night, say. It finds runs in the catalogue, and reads in the log what they are: a
run of which the two differ stays. The text of a policy is an entry of the log for ever: it must not name a person. What is on
hold stays, and so does what a floor of the policy keeps.

Exit codes: 0 done, or nothing is due, 10 a hold or another policy came meanwhile, 9 begun and not at its end because a
directory of keys cannot be reached, 8 the record of a hold is missing, 7 done, but for runs of which the catalogue and the
log differ or a start cannot be opened, 6 no policy is set, 2 the file is no policy.`;

const SHARED = { configuration: 'lifecycle', examples: EXAMPLES } as const;

const set = defineCommand<{ readonly dryRun?: true }>({
  name: 'set',
  description: 'Activate a policy. Nothing is erased until `retention run`.',
  arguments: { '<file>': 'the policy' },
  options: { '--dry-run': 'report whether the file is a policy, and change nothing' },
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
  description: 'Erase what the policy does not keep any longer.',
  options: {
    '--dry-run': 'report what is due, and change nothing',
    '--at <time>': 'with --dry-run: what will be due then',
    '--json': 'print it as one JSON object',
  },
  ...SHARED,
  run: ({ options, config }) => runRetention(config(), options),
});

export const command = defineCommand({
  name: 'retention',
  description: 'Keep events as long as a policy says.',
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

/** A policy has four. */
const MOST_NESTED = 16;

/** Warns of rules of zero retention. @throws CommandFailure for a file that is no policy. */
function readPolicy(file: string): { readonly text: string; readonly policy: RetentionPolicy } {
  try {
    const text = new TextDecoder().decode(fs.readFileSync(file));
    // Of a name that stands twice JSON.parse takes the last, and a floor would be gone.
    const { fault } = readJson(text, MOST_NESTED);
    if (fault?.code === 'duplicate_key') throw new PolicyFault(['a name stands twice in one object']);
    if (fault?.code === 'nesting_too_deep') throw new PolicyFault(['it is nested too deep']);
    const policy = parsePolicy(text);
    for (const id of policy.keepingNothing())
      process.stderr.write(
        `collector: warning: the rule "${id}" has zero retention: matching events are erased by the next "retention run"\n`,
      );
    return { text, policy };
  } catch (error) {
    if (!(error instanceof PolicyFault))
      throw usage(`${file} cannot be read (${systemCode(error) ?? 'UNKNOWN'})`);
    throw usage(`${file} is no retention policy: ${error.faults.join('; ')}`);
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
  printRemarks(['what is due by it now: collector retention run --dry-run'], config.dataDir);
}

interface RunOptions {
  readonly dryRun?: true;
  readonly at?: string;
  readonly json?: true;
}

/** Events that are looked at together: after years without a policy a log may have tens of millions due. */
const WINDOW = 200_000;
/** Of the runs of which the catalogue and the log differ, how many are named. */
const MOST_NAMED = 10;

/** What a rule has due: of the events themselves only the keys are left. */
interface Due {
  readonly rule: string;
  events: number;
  bytes: number;
  /** Of them, how many have no key that could be destroyed. */
  plain: number;
  /** One for each bucket and organisation, by both. */
  readonly keys: Map<string, TakenKeys>;
}

/** A run of which something is due by what the catalogue says. */
interface Candidate extends RecordKey {
  /** What decides, as the catalogue has it: see decidingText. */
  readonly said: string;
}

/**
 * What is due. The catalogue says which runs are looked at, and the log what they are: a changed row there must not let
 * anything be erased that a hold or a floor keeps.
 */
class RetentionPlan {
  readonly due = new Map<string, Due>();
  held = 0;
  belowFloors = 0;
  /** Runs with a start that no action erased and that cannot be opened: whom they are about is not known. */
  unread = 0;
  /** Runs of which the catalogue and the log differ. */
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

  /** On return the plan has what is due of these runs. */
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
      // What stands twice in the catalogue is judged once.
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

  /** Whether events without a run are known by this id, and are of no run. */
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

/** All of a run by which it is decided what of it is due and what keeps it, but for holds. */
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
  if (at !== undefined && !dryRun) throw usage('--at: goes with --dry-run');
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
    const done = answer.state === 'pending' ? 'begun, and a directory of keys has to follow' : 'erased';
    process.stderr.write(`collector: ${counted(events, 'event')} by ${rule}: ${done} (${id})\n`);
    if (answer.state === 'pending') isPending = true;
  }
  await (await open()).close();
  if (isPending) return EXIT.pending;
  return isAll ? EXIT.ok : EXIT.partly;
}

/** Closes the catalogue: while it is open, its journal keeps the names of what goes. */
async function planned(
  access: CatalogueAccess,
  dataDir: string,
  { now, signal }: { readonly now: number; readonly signal: AbortSignal },
) {
  try {
    return await access.ask(async (catalogue) => {
      // What the catalogue covers, so that both speak of the same events.
      const reader = await LogRuns.open(dataDir, signal, { through: catalogue.cursor.sequence - 1 });
      try {
        const actions = reader.log.actions?.();
        const set = actions?.policy;
        if (actions === undefined || set === undefined) throw noPolicy(dataDir);
        // What begins from here on, while it is planned, was not considered.
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
  const lines = due.length === 0 ? `nothing is due by ${policy.name}\n` : '';
  const rows = due.map(({ rule, events, bytes, plain }) => [
    ...[rule, String(events), aboutBytes(bytes)],
    plain === 0 ? '' : `${counted(plain, 'event')} stored in the clear stay`,
  ]);
  const table = rows.length === 0 ? '' : alignedTable([['RULE', 'EVENTS', 'SIZE', ''], ...rows]);
  const onHold = held > 0 ? `${counted(held, 'event')} due, and on hold\n` : '';
  const young =
    belowFloors > 0 ? `${counted(belowFloors, 'event')} due, and younger than a floor of the policy\n` : '';
  return lines + table + onHold + young;
}

/** Of runs that are left because it is not known what they are. */
function leftText({ differences: { runs, first }, unread }: RetentionPlan): string {
  const named = `${first.join(', ')}${runs > first.length ? ', …' : ''}`;
  const differ = `collector: the catalogue differs from the log in ${counted(runs, 'run')}, not erased: ${named}; derived; delete catalogue/\n`;
  const unopened = `collector: ${counted(unread, 'run')} not erased: a start cannot be opened, and whether a hold keeps the run is not known\n`;
  return (runs > 0 ? differ : '') + (unread > 0 ? unopened : '');
}

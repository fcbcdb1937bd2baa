/** `collector retention`: the policy by which events are kept and retired, and its work. */
import { createHash, randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { Command } from 'commander';
import type { CatalogueRun } from '../../catalogue/catalogue.js';
import type { Config } from '../../config.js';
import { readJson } from '../../ledger/strict-json.js';
import {
  type KeptFacts,
  type RetentionPolicy,
  parsePolicy,
  policyFrom,
  PolicyFault,
} from '../../privacy/retention-policy.js';
import { eventsOf } from '../../privacy/actions.js';
import type { TakenKeys } from '../../privacy/key-directory.js';
import { SequenceSet } from '../../privacy/sequence-set.js';
import { aboutBytes, counted } from '../../quantity.js';
import type { EventLog } from '../../store/contract/events.js';
import { compactLog, type Compacted } from '../../store/open-to-audit.js';
import { openStore } from '../../store/open-to-read.js';
import { systemCode } from '../../system-code.js';
import { logAccess } from '../access-log.js';
import { addConfigOptions, instantFrom } from '../arguments.js';
import { usage, CommandFailure, EXIT, interruption } from '../exit-codes.js';
import { openCatalogue, type CatalogueAccess } from '../catalogue.js';
import { assertReadable } from '../regular-files.js';
import { holdDirectory } from '../serve/open-ledger.js';
import { alignedTable, printableJson, ProgressBar } from '../terminal.js';
import { typed } from '../typed.js';
import {
  assertCollectorRuns,
  beginLog,
  considered,
  deliver,
  isErased,
  lifecycleConfigOf,
} from './delivery.js';
import { type HoldRecord, Holds, holdsOf } from './holds.js';
import { erasable, type SelectedEvent } from './selection.js';

const EXAMPLES = `
Examples:
  $ collector retention policy set policy.json --dry-run
  $ collector retention policy set policy.json
  $ collector retention policy show
  $ collector retention run --dry-run --at 2027-01-01
  $ collector retention run
  $ collector retention compact

A policy says how long events are kept, by organisation, kind and model (docs/guide/privacy/retention-concept.md). Setting
it retires nothing; "run" retires what is due and compacts, and is for a timer: once a night, say. "compact" gives the room
of retired payloads back, segment by segment, once a fifth of one or more is retired. The text of a policy is an entry of
the log for ever: no person belongs in it. What is on hold stays, and so does what a floor of the policy still holds.

Exit codes: 0 done, or nothing is due, 9 begun and not at its end because a directory of keys cannot be reached, 8 a hold
or another policy came meanwhile, or the record of a hold is missing, 6 no policy is set, 2 the file is no policy.`;

export function command(): Command {
  const policy = new Command('policy').description('Set and show the retention policy.');
  policy.addCommand(
    addConfigOptions(
      new Command('set')
        .description('Let a policy hold from now on. It retires nothing by itself.')
        .argument('<file>')
        .option('--dry-run', 'report whether the file is a policy, and change nothing'),
      'lifecycle',
    )
      .addHelpText('after', EXAMPLES)
      .action(async (file: string, { dryRun }: { dryRun?: true }, self: Command) => {
        const read = readPolicy(file);
        if (dryRun) process.stdout.write(`ok: ${read.policy.name}\n`);
        else await setPolicy(read, lifecycleConfigOf(self));
      }),
  );
  policy.addCommand(
    addConfigOptions(new Command('show').description('Print the policy that holds.'), 'lifecycle')
      .addHelpText('after', EXAMPLES)
      .action((_: object, self: Command) => {
        const { dataDir } = lifecycleConfigOf(self);
        assertReadable(dataDir);
        const set = openStore(dataDir).events.actions?.().policy;
        if (set === undefined)
          throw new CommandFailure(`no retention policy is set in ${dataDir}`, EXIT.notFound);
        process.stdout.write(`${printableJson(JSON.stringify(set.policy, undefined, 2))}\n`);
      }),
  );
  const run = addConfigOptions(
    new Command('run')
      .description('Retire what the policy does not keep any longer.')
      .option('--dry-run', 'say what is due, and change nothing')
      .option('--at <time>', 'with --dry-run: what will be due then')
      .option('--json', 'print it as one JSON object'),
    'lifecycle',
  )
    .addHelpText('after', EXAMPLES)
    .action(async (options: RunOptions, self: Command) => {
      process.exitCode = await runRetention(lifecycleConfigOf(self), options);
    });
  const compact = addConfigOptions(
    new Command('compact').description(
      'Give back the room of payloads that are retired, beside a collector too.',
    ),
    'lifecycle',
  )
    .addHelpText('after', EXAMPLES)
    .action(async (_: object, self: Command) => {
      const { dataDir } = lifecycleConfigOf(self);
      assertReadable(dataDir);
      const access = logAccess(dataDir, { command: 'retention compact', filter: {}, isAct: true });
      const won = await compactNow(dataDir);
      Object.assign(access, { complete: true, done: { bytes: won.before - won.after } });
      process.stdout.write(`${wonText(won)}\n`);
    });
  return new Command('retention')
    .description('Keep events as long as a policy says.')
    .addCommand(policy)
    .addCommand(run)
    .addCommand(compact);
}

/** On return segments of which a fifth or more is retired take no more room than what is left of them. */
export async function compactNow(dataDir: string): Promise<Compacted> {
  const retired = openStore(dataDir).events.actions?.().retired;
  if (retired === undefined || retired.size === 0) return { before: 0, after: 0 };
  const lock = holdDirectory(path.join(dataDir, 'lifecycle'), ': another compaction is under way');
  const bar = new ProgressBar({ wanted: process.stderr.isTTY, unit: 'segments', per: 1, from: 8 });
  try {
    return await compactLog(dataDir, retired, bar.show);
  } finally {
    bar.clear();
    lock.release();
  }
}

export function wonText({ before, after }: Compacted): string {
  return before === 0
    ? 'no room is given back yet: a segment is compacted once it is full and a fifth of it is erased'
    : `${aboutBytes(before - after)} given back`;
}

/** A policy has four. */
const MOST_NESTED = 16;

interface ReadPolicy {
  readonly text: string;
  readonly policy: RetentionPolicy;
}

/** Warns of rules that keep nothing. @throws CommandFailure for a file that is no policy. */
function readPolicy(file: string): ReadPolicy {
  try {
    const text = new TextDecoder().decode(fs.readFileSync(file));
    // Of a name that stands twice JSON.parse takes the last, and a floor would be gone.
    const { fault } = readJson(text, MOST_NESTED);
    if (fault?.code === 'duplicate_key') throw new PolicyFault(['a name stands twice in one object']);
    if (fault?.code === 'nesting_too_deep') throw new PolicyFault(['it is nested too deep']);
    const policy = parsePolicy(text);
    for (const id of policy.keepingNothing())
      process.stderr.write(
        `collector: warning: the rule "${id}" keeps nothing: "retention run" erases at once whatever it decides on\n`,
      );
    return { text, policy };
  } catch (error) {
    if (!(error instanceof PolicyFault))
      throw usage(`${file} cannot be read (${systemCode(error) ?? 'UNKNOWN'})`);
    throw usage(`${file} is no retention policy: ${error.faults.join('; ')}`);
  }
}

async function setPolicy({ policy: read, text }: ReadPolicy, config: Config): Promise<void> {
  const { actions } = beginLog(config.dataDir);
  assertCollectorRuns(config);
  const policy: unknown = JSON.parse(text);
  const action = randomUUID();
  const filter = { action, policy: read.name, sha256: createHash('sha256').update(text).digest('hex') };
  const access = logAccess(config.dataDir, { command: 'retention policy set', filter, isAct: true });
  await deliver(config, { action: { action, does: 'policy', policy }, considered: considered(actions) });
  access.complete = true;
  process.stdout.write(`set: ${read.name}\n`);
  process.stderr.write(
    `collector: what is due by it now: ${typed('collector retention run', config.dataDir)} --dry-run\n`,
  );
}

interface RunOptions {
  readonly dryRun?: true;
  readonly at?: string;
  readonly json?: true;
}

/** Events that are looked at together: after years without a policy a log may have tens of millions due. */
const WINDOW = 65_536;

/** What a rule has due: of the events themselves only the keys are left. */
class Due {
  events = 0;
  bytes = 0;
  /** Of them, how many have no key that could be destroyed. */
  plain = 0;
  readonly #keys = new Map<string, TakenKeys>();
  #window: SelectedEvent[] = [];

  constructor(
    readonly rule: string,
    private readonly log: EventLog,
  ) {}

  /** One for each bucket and organisation. */
  get keys(): TakenKeys[] {
    return [...this.#keys.values()];
  }

  add(event: SelectedEvent): void {
    this.#window.push(event);
    if (this.#window.length >= WINDOW) this.close();
  }

  /** On return all that was added is counted. */
  close(): void {
    const { keys, events, plain } = erasable(this.log, this.#window);
    this.events += events.length;
    this.plain += plain;
    for (const { size } of events) this.bytes += size;
    for (const each of keys) {
      const name = `${each.tag} ${each.organisation}`;
      const known = this.#keys.get(name)?.sequences ?? SequenceSet.EMPTY;
      this.#keys.set(name, { ...each, sequences: known.with(each.sequences) });
    }
    this.#window = [];
  }
}

interface RetentionPlan {
  readonly policy: RetentionPolicy;
  /** Of the rules that have any. */
  readonly due: readonly Due[];
  readonly held: number;
  readonly belowFloors: number;
}

async function runRetention(config: Config, options: RunOptions): Promise<number> {
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
  const { plan, set, asked } = await planned(await open(), dataDir, now);
  access.complete = true;
  process.stdout.write(told(plan, options));
  if (dryRun) return EXIT.ok;
  let isPending = false;
  let isAll = true;
  for (const { rule, keys, events } of plan.due) {
    if (events === 0) continue;
    const id = randomUUID();
    const action = { action: id, does: 'retire', reason: 'policy', policy: set.action, rule } as const;
    const answer = await deliver(
      config,
      { action: { ...action, part: 1, parts: 1, keys }, considered: asked },
      { signal },
    );
    if (!(await isErased(dataDir, eventsOf(keys)))) isAll = false;
    const done = answer.state === 'pending' ? 'begun, and a directory of keys has to follow' : 'erased';
    process.stderr.write(`collector: ${counted(events, 'event')} by ${rule}: ${done} (${id})\n`);
    if (answer.state === 'pending') isPending = true;
  }
  await (await open()).close();
  process.stderr.write(`collector: ${wonText(await compactNow(dataDir))}\n`);
  if (isPending) return EXIT.pending;
  return isAll ? EXIT.ok : EXIT.partly;
}

/** Closes the catalogue: while it is open, its journal keeps the names of what goes. */
async function planned(catalogue: CatalogueAccess, dataDir: string, now: number) {
  try {
    const actions = catalogue.log.actions?.();
    const set = actions?.policy;
    if (actions === undefined || set === undefined)
      throw new CommandFailure(`no retention policy is set in ${dataDir}`, EXIT.notFound);
    // What begins from here on, while it is planned, was not considered.
    const asked = considered(actions);
    const plan = await planOf(catalogue, policyFrom(set.policy), holdsOf(dataDir, actions), now);
    return { plan, set, asked };
  } finally {
    await catalogue.close();
  }
}

function planOf(
  access: CatalogueAccess,
  policy: RetentionPolicy,
  records: readonly HoldRecord[],
  now: number,
): Promise<RetentionPlan> {
  return access.ask(async (catalogue) => {
    const { log } = access;
    const holds = await Holds.of(records, log, () => catalogue.runs({ order: 'log' }));
    const retired = log.actions?.().retired ?? SequenceSet.EMPTY;
    const due = new Map<string, Due>();
    let [held, belowFloors] = [0, 0];
    for (const run of catalogue.runs({ order: 'log' })) {
      const facts = factsOf(run);
      for (const { kind, at, size, sequence, receivedAt } of run.events()) {
        if (retired.has(sequence)) continue;
        const rule = ruleOf(policy, facts, kind);
        const from =
          rule.unit === 'event' || policy.ageFrom === 'received_at' ? receivedAt : ageOf(run, policy);
        const until = policy.keptUntil(rule.facts, from);
        if (until === undefined || until > now) continue;
        if (holds.on(run.organisation, run, sequence).length > 0) held++;
        else if (
          !policy.isAboveFloors(rule.facts) &&
          policy.heldBy({ ...facts, kind }, receivedAt, now) !== undefined
        )
          belowFloors++;
        else {
          const of = due.get(rule.id) ?? new Due(rule.id, log);
          due.set(rule.id, of);
          of.add({ at, size, sequence, kind, receivedAt, organisation: run.organisation, run: undefined });
        }
      }
    }
    for (const each of due.values()) each.close();
    const found = [...due.values()].filter(({ events, plain }) => events + plain > 0);
    return { policy, due: found, held, belowFloors };
  });
}

export function factsOf({ organisation, modelId, modelVersion }: CatalogueRun): KeptFacts {
  return {
    organisation,
    ...(modelId !== null && { model_id: modelId }),
    ...(modelVersion !== null && { model_version: modelVersion }),
  };
}

/** A rule about single events is asked with their kind; all others are about the run. */
function ruleOf(policy: RetentionPolicy, facts: KeptFacts, kind: string) {
  const ofEvent = { ...facts, kind };
  const single = policy.ruleFor(ofEvent);
  return single.unit === 'event' ? { ...single, facts: ofEvent } : { ...policy.ruleFor(facts), facts };
}

function ageOf({ began, lastReceivedAt }: CatalogueRun, { ageFrom }: RetentionPolicy): number {
  return ageFrom === 'run_start' ? began.received : lastReceivedAt;
}

function told({ policy, due, held, belowFloors }: RetentionPlan, { json, dryRun }: RunOptions): string {
  if (json) {
    const rules = due.map(({ rule, events, bytes, plain }) => ({
      ...{ rule, events, bytes, stored_in_the_clear: plain },
    }));
    const fields = { policy: policy.name, dry_run: dryRun === true, rules, held, below_floors: belowFloors };
    return `${printableJson(JSON.stringify(fields, undefined, 2))}\n`;
  }
  const lines = due.length === 0 ? `nothing is due by ${policy.name}\n` : '';
  const rows = due.map(({ rule, events, bytes, plain }) => [
    ...[rule, String(events), aboutBytes(bytes)],
    plain === 0 ? '' : `${counted(plain, 'event')} stored in the clear stay`,
  ]);
  const table = rows.length === 0 ? '' : alignedTable([['RULE', 'EVENTS', 'SIZE', ''], ...rows]);
  const kept = [
    ...(held > 0 ? [`${counted(held, 'event')} due, and on hold\n`] : []),
    ...(belowFloors > 0
      ? [`${counted(belowFloors, 'event')} due, and younger than a floor of the policy\n`]
      : []),
  ];
  return lines + table + kept.join('');
}

/** By which floor of the policy that holds an event may not be erased yet. */
export function floorsOf(log: EventLog): (event: SelectedEvent) => { id: string; until: number } | undefined {
  const set = log.actions?.().policy;
  if (set === undefined) return () => undefined;
  const policy = policyFrom(set.policy);
  const now = Date.now();
  return ({ run, organisation, kind, receivedAt }) => {
    const facts = run === undefined ? { organisation } : factsOf(run);
    if (policy.isAboveFloors(ruleOf(policy, facts, kind).facts)) return undefined;
    return policy.heldBy({ ...facts, kind }, receivedAt, now);
  };
}

/** `collector hold`: protects events from erasure, whatever a request or a policy says. */
import { randomUUID } from 'node:crypto';
import type { Config } from '../../config.js';
import type { Actions } from '../../privacy/actions.js';
import { KekFault } from '../../privacy/key-encryption-key.js';
import { KeysUnfit, VaultAway } from '../../privacy/key-vault.js';
import { SequenceSet } from '../../privacy/sequence-set.js';
import { counted } from '../../quantity.js';
import type { EventLog } from '../../store/contract/events.js';
import type { HoldKeys } from '../../store/contract/requests.js';
import { openStore } from '../../store/open-to-read.js';
import { idsIn, notThere, organisationFrom, runIdFrom, severalRuns } from '../arguments.js';
import { type Call, defineCommand } from '../define.js';
import { usage, interruption, CommandFailure, EXIT, type ExitCode } from '../exit-codes.js';
import { logAccess } from '../access-log.js';
import { openHoldKeys } from '../payload-encryption.js';
import { assertReadable } from '../regular-files.js';
import { alignedTable, jsonLine, legible } from '../terminal.js';
import { printRemarks } from '../typed.js';
import { assertCollectorRuns, beginLog, considered, deliver, isOver } from './delivery.js';
import { dropRecord, type HoldRecord, holdsOf, keepRecord } from './holds.js';
import { type LogRun, LogRuns } from './log-runs.js';
import { textOf } from './log-pass.js';

const EXAMPLES = `  $ collector hold add CASE-7 --run 0b2c5a3e-8c2b-4cc0-9f6e-2f1d3a4b5c6d
  $ collector hold add INSPECTION-2026 --organisation icu
  $ collector hold add CASE-8 --subject-file subject.txt
  $ collector hold list
  $ collector hold release CASE-7

A hold on a subject covers every run with a start that names one of the ids as target or caller, in every
organisation. A hold on a run or a subject also covers nested runs at any depth. All holds also cover later
events. Runs are found in the log. The log records that a hold began and ended, but not whom it concerns: that
is in a record beside the log, encrypted with its own key, which "release" destroys. Do not use a person's
name as the name of a hold.

Exit codes: 0 done, 6 there is no such hold, 8 the record of a hold is missing, was changed or cannot be
decrypted, 9 released, but a key directory cannot be reached.`;

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
interface AddOptions {
  readonly run?: string[];
  readonly organisation?: string[];
  readonly subjectFile?: string;
}

const SHARED = { configuration: 'lifecycle', examples: EXAMPLES } as const;

const add = defineCommand<AddOptions>({
  name: 'add',
  description: 'Add a hold.',
  arguments: { '<name>': 'name of the hold: a case number, not the name of a person' },
  options: {
    '--run <id>': { help: 'a run; repeatable', isRepeatable: true },
    '--organisation <name>': {
      help: 'all events of an organisation; repeatable',
      isRepeatable: true,
    },
    '--subject-file <file>': 'file with the ids of a person, one per line; - for standard input',
  },
  configuration: 'hold',
  examples: EXAMPLES,
  hidesArguments: true,
  run: ({ options, config }, name = '') => addHold(name, options, config),
});

const list = defineCommand<{ readonly json?: true }>({
  name: 'list',
  description: 'List the active holds.',
  options: { '--json': 'print one JSON object per line' },
  ...SHARED,
  run({ options, config }) {
    const { dataDir } = config();
    assertReadable(dataDir);
    const records = recordsIn(dataDir);
    process.stdout.write(
      options.json ? records.map((each) => jsonLine(objectOf(each))).join('') : tableOf(records),
    );
    if (records.length === 0) printRemarks(['there are no holds']);
  },
});

const release = defineCommand({
  name: 'release',
  description: 'End a hold.',
  arguments: { '<name>': 'name or id of the hold' },
  ...SHARED,
  run: ({ config }, name = '') => releaseHold(name, config()),
});

export const command = defineCommand({
  name: 'hold',
  description: 'Protect events from erasure.',
  commands: [add, list, release],
});

function recordsIn(dataDir: string): HoldRecord[] {
  const { events: log } = openStore(dataDir);
  const actions = log.actions?.();
  return actions === undefined ? [] : holdsOf(dataDir, actions, log);
}

async function addHold(name: string, options: AddOptions, configOf: Call['config']): Promise<void> {
  const { run = [], organisation = [], subjectFile } = options;
  if (!NAME.test(name)) throw usage('name: give 1 to 64 characters of A-Z a-z 0-9 . _ -');
  for (const id of run) runIdFrom('--run', id);
  const organisations = organisation.map(organisationFrom);
  const subjects = subjectFile === undefined ? [] : idsIn('--subject-file', subjectFile);
  if (run.length + organisations.length + subjects.length === 0)
    throw usage('give --run, --organisation or --subject-file');
  const config = configOf();
  const { dataDir } = config;
  const { log, actions } = beginLog(dataDir);
  assertCollectorRuns(config);
  if (holdsOf(dataDir, actions, log).some((each) => each.name === name))
    throw usage(`name: there is already a hold ${name}`);
  if (subjects.length > 0 && log.names === undefined)
    throw usage(
      '--subject-file: the payloads of this log are not encrypted, so a subject could not be either',
    );
  const action = randomUUID();
  const access = logAccess(dataDir, {
    command: 'hold add',
    filter: { action, name, run, organisation, subjects: subjects.length || undefined },
    isAct: true,
  });
  const met = await meeting(dataDir, subjects, run);
  remarkOn(organisations, met);
  const sequences = met.runs.flatMap((each) => each.events.map(({ sequence }) => sequence));
  const events = SequenceSet.of(sequences);
  await keepAndBegin(config, log, actions, {
    ...{ action, name, runs: met.named, organisations, subjects },
    met: { runs: met.runs.map(({ recordId }) => recordId), events: events.toText() },
  });
  access.complete = true;
  const now = organisations.length > 0 ? '' : `: ${counted(events.size, 'event')} so far, and later ones`;
  process.stdout.write(`held: ${name} (${action})${now}\n`);
}

function remarkOn(
  organisations: readonly string[],
  { runs, organisations: there, unread }: Omit<Met, 'named'>,
): void {
  const reached = new Set(runs.map(({ organisation }) => organisation));
  printRemarks([
    ...organisations
      .filter((each) => !there.has(each))
      .map((each) => `warning: organisation ${legible(each)} has no events so far`),
    ...(unread === 0
      ? []
      : [
          `warning: ${counted(unread, 'start')} could not be decrypted: it is unknown whether their runs ` +
            'are about the subject, and the hold does not cover them',
        ]),
    ...(reached.size < 2
      ? []
      : [
          `the hold covers ${counted(reached.size, 'organisation')}: ` +
            [...reached].map(legible).sort().join(', '),
        ]),
  ]);
}

/** Begins a hold. If that fails and no collector can begin it, neither its key nor its record is left. */
async function keepAndBegin(
  config: Config,
  log: EventLog,
  actions: Actions,
  hold: Parameters<typeof keepRecord>[1],
): Promise<void> {
  const { action } = hold;
  const keys = log.names === undefined ? undefined : await holdKeysOf(config, log);
  try {
    const { record, text } = await keepRecord(config.dataDir, hold, await keys?.newHoldKey(action));
    await deliver(
      config,
      { action: { action, does: 'hold', record }, considered: considered(actions) },
      { holdRecord: text },
    );
  } catch (error) {
    if (isOver(error)) {
      await keys?.destroyHold(action);
      dropRecord(config.dataDir, 'holds', action);
    }
    throw error;
  } finally {
    await keys?.close();
  }
}

async function holdKeysOf(config: Config, { ledgerId }: EventLog): Promise<HoldKeys> {
  try {
    return await openHoldKeys(config, ledgerId);
  } catch (error) {
    const isUnfit = [KeysUnfit, KekFault, VaultAway].some((kind) => error instanceof kind);
    throw isUnfit ? usage((error as Error).message) : error;
  }
}

/** The runs in the log that a hold covers, in all organisations. */
interface Met {
  /** Whole ids of the named runs, stored or not. */
  readonly named: readonly string[];
  /** Runs that are named or about a subject, and runs nested in them. */
  readonly runs: readonly LogRun[];
  /** All organisations with events. */
  readonly organisations: ReadonlySet<string>;
  /** Number of starts that could not be decrypted, so that the persons they name are unknown. */
  readonly unread: number;
}

async function meeting(dataDir: string, subjects: readonly string[], texts: readonly string[]): Promise<Met> {
  const asked = texts.map((text) => runIdFrom('--run', text));
  const reader = await LogRuns.open(dataDir, interruption());
  try {
    const digits = asked.map(({ id }) => id.replaceAll('-', ''));
    const found = await reader.find({ subjects, runs: digits });
    const met = await reader.recordsOf(found);
    /**
     * By the id that may have been typed; events without a run are identified by the event they are attached
     * to.
     */
    const records = Map.groupBy(met, ({ id }) => textOf(id));
    const named = asked.flatMap(({ id, isWhole }) => {
      const [one, ...others] = [...records.keys()].filter((each) => each.startsWith(id));
      if (one === undefined && !isWhole) throw notThere({ what: 'run', id, dataDir });
      if (one === undefined) return [id];
      if (others.length > 0) throw severalRuns('--run', id, [one, ...others]);
      return (records.get(one) ?? []).map(({ record }) => textOf(record.id));
    });
    const runs = await reader.collect(
      met.map(({ record }) => record),
      { nested: true, outer: false },
    );
    const { organisations, unread } = found;
    return { named: [...new Set(named)], runs, organisations, unread };
  } finally {
    await reader.close();
  }
}

async function releaseHold(name: string, config: Config): Promise<ExitCode> {
  const { dataDir } = config;
  assertReadable(dataDir);
  const actions = openStore(dataDir).events.actions?.();
  const isId = actions?.holds.has(name) === true;
  const found = isId ? name : recordsIn(dataDir).find((each) => each.name === name)?.action;
  if (actions === undefined || found === undefined)
    throw new CommandFailure(`there is no hold ${JSON.stringify(name)} in ${dataDir}`, EXIT.notFound);
  assertCollectorRuns(config);
  const access = logAccess(dataDir, { command: 'hold release', filter: { name, hold: found }, isAct: true });
  const { state } = await deliver(config, {
    action: { action: randomUUID(), does: 'release', hold: found },
    considered: considered(actions),
  });
  access.complete = true;
  process.stdout.write(`released: ${name}\n`);
  return state === 'pending' ? EXIT.pending : EXIT.ok;
}

function whatOf({ runs, organisations, subjects }: HoldRecord): string {
  return [
    ...runs.map((run) => `run ${run}`),
    ...organisations.map((each) => `organisation ${legible(each)}`),
    ...(subjects.length > 0 ? [`a subject (${counted(subjects.length, 'id')})`] : []),
  ].join(', ');
}

function tableOf(records: readonly HoldRecord[]): string {
  if (records.length === 0) return '';
  const rows = records.map((each) => {
    const { name, begun, action } = each;
    return [name, begun.slice(0, 16).replace('T', ' '), action, whatOf(each)];
  });
  return alignedTable([['NAME', 'BEGUN (UTC)', 'ID', 'HOLDS'], ...rows]);
}

/** The output for programs. */
function objectOf({ name, action, begun, runs, organisations, subjects }: HoldRecord): object {
  return { name, action, begun, runs, organisations, subjects: subjects.length };
}

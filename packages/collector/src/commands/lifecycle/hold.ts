/** `collector hold`: what a court or an investigation needs is not erased, by no request and no policy. */
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

const EXAMPLES = `  $ collector hold add --name CASE-7 --run 0b2c5a3e-8c2b-4cc0-9f6e-2f1d3a4b5c6d
  $ collector hold add --name INSPECTION-2026 --organisation icu
  $ collector hold add --name CASE-8 --subject-file subject.txt
  $ collector hold list
  $ collector hold release CASE-7

A hold on a subject reaches every run of which a start names one of the ids as target or caller, in every organisation. A
hold on a run or a subject reaches the runs nested in these, however deep, and like one on an organisation also holds what
comes later. Runs are found in the log. The log says that a hold began and ended, and not of whom: its record is beside the
log, encrypted by a key of its own, which "release" destroys. Do not call a hold by the name of a person.

Exit codes: 0 done, 6 there is no such hold, 8 a record of a hold is missing, was changed or does not open, 9 released, and a
directory of keys cannot be reached.`;

const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$/;
interface AddOptions {
  readonly name?: string;
  readonly run?: string[];
  readonly organisation?: string[];
  readonly subjectFile?: string;
}

const SHARED = { configuration: 'lifecycle', examples: EXAMPLES } as const;

const add = defineCommand<AddOptions>({
  name: 'add',
  description: 'Begin a hold.',
  options: {
    '--name <name>': 'what it is called: the number of a case, not the name of a person',
    '--run <id>': { help: 'a run; may be given several times', isRepeatable: true },
    '--organisation <name>': {
      help: 'all of an organisation; may be given several times',
      isRepeatable: true,
    },
    '--subject-file <file>': 'ids of a person, one a line; - for standard input',
  },
  configuration: 'hold',
  examples: EXAMPLES,
  hidesArguments: true,
  run: ({ options, config }) => addHold(options, config),
});

const list = defineCommand<{ readonly json?: true }>({
  name: 'list',
  description: 'List the holds that are not over.',
  options: { '--json': 'print JSON' },
  ...SHARED,
  run({ options, config }) {
    const { dataDir } = config();
    assertReadable(dataDir);
    const records = recordsIn(dataDir);
    process.stdout.write(
      options.json ? records.map((each) => jsonLine(objectOf(each))).join('') : tableOf(records),
    );
    if (records.length === 0) printRemarks(['nothing is held']);
  },
});

const release = defineCommand({
  name: 'release',
  description: 'End a hold.',
  arguments: { '<name>': 'what it is called, or its id' },
  ...SHARED,
  run: ({ config }, name = '') => releaseHold(name, config()),
});

export const command = defineCommand({
  name: 'hold',
  description: 'Keep events from being erased.',
  commands: [add, list, release],
});

function recordsIn(dataDir: string): HoldRecord[] {
  const { events: log } = openStore(dataDir);
  const actions = log.actions?.();
  return actions === undefined ? [] : holdsOf(dataDir, actions, log);
}

async function addHold(options: AddOptions, configOf: Call['config']): Promise<void> {
  const { name = '', run = [], organisation = [], subjectFile } = options;
  if (!NAME.test(name)) throw usage('--name: give 1 to 64 characters of A-Z a-z 0-9 . _ -');
  for (const id of run) runIdFrom('--run', id);
  const organisations = organisation.map(organisationFrom);
  const subjects = subjectFile === undefined ? [] : idsIn('--subject-file', subjectFile);
  if (run.length + organisations.length + subjects.length === 0)
    throw usage('say what is to be held: --run, --organisation or --subject-file');
  const config = configOf();
  const { dataDir } = config;
  const { log, actions } = beginLog(dataDir);
  assertCollectorRuns(config);
  if (holdsOf(dataDir, actions, log).some((each) => each.name === name))
    throw usage(`--name: there is a hold ${name} already`);
  if (subjects.length > 0 && log.names === undefined)
    throw usage('--subject-file: payloads of this log are not encrypted, and neither could the subject be');
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
  const now =
    organisations.length > 0 ? '' : `: ${counted(events.size, 'event')} by now, and those that come later`;
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
      .map((each) => `warning: no event is of organisation ${legible(each)} by now`),
    ...(unread === 0
      ? []
      : [
          `warning: ${counted(unread, 'start')} could not be opened: whether their runs are about the subject is not known, ` +
            'and the hold does not reach them',
        ]),
    ...(reached.size < 2
      ? []
      : [
          `the hold reaches ${counted(reached.size, 'organisation')}: ${[...reached].map(legible).sort().join(', ')}`,
        ]),
  ]);
}

/** On return the hold has begun. Where it has not, and no collector can begin it any more, neither key nor record is left. */
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

/** What there is of subjects and runs in the log, in every organisation. */
interface Met {
  /** Whole ids of the runs that are named, whether they have come or not. */
  readonly named: readonly string[];
  /** Runs that are named or about a subject, and those nested in them. */
  readonly runs: readonly LogRun[];
  /** All that have an event. */
  readonly organisations: ReadonlySet<string>;
  /** Starts that could not be opened: whom they name is not known. */
  readonly unread: number;
}

async function meeting(dataDir: string, subjects: readonly string[], texts: readonly string[]): Promise<Met> {
  const asked = texts.map((text) => runIdFrom('--run', text));
  const reader = await LogRuns.open(dataDir, interruption());
  try {
    const digits = asked.map(({ id }) => id.replaceAll('-', ''));
    const found = await reader.find({ subjects, runs: digits });
    const met = await reader.recordsOf(found);
    /** By the id that may have been typed: events without a run are known by the one that they hang on. */
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

/** For programs. */
function objectOf({ name, action, begun, runs, organisations, subjects }: HoldRecord): object {
  return { name, action, begun, runs, organisations, subjects: subjects.length };
}

/** `collector store`: makes, looks after and examines the database of a log. */
import { ENTRY_KINDS } from '@clinical-events/protocol';
import type { Config } from '@clinical-events/collector/config';
import { counted } from '@clinical-events/collector/quantity';
import { ownEntry } from '@clinical-events/collector/ledger/own-entry';
import { WRITER } from '@clinical-events/collector/ledger/lifecycle';
import { actionFields } from '@clinical-events/collector/privacy/actions';
import { type Address, parseAddress } from '../address.js';
import { adoptLog, examineLog, maintainLog, migrateLog, rolesOf } from '../administration.js';
import { openForReading } from '../driver.js';
import { type Quarantine, quarantineLog } from '../quarantine.js';
import { signingDirectory } from '@clinical-events/collector/tree/key-files';
import { openSealKey } from '../shared-keys.js';
import { type GivenOut, logAct, logSharedAccess } from '@clinical-events/collector/commands/access-log';
import { defineCommand, type Definition } from '@clinical-events/collector/commands/define';
import { CommandFailure, EXIT, type ExitCode, usage } from '@clinical-events/collector/commands/exit-codes';
import { alignedTable, findingsTable, jsonText, legible } from '@clinical-events/collector/commands/terminal';
import { printRemarks, version } from '@clinical-events/collector/commands/typed';

const EXAMPLE = 'postgres://collector@db1,db2/collector';

/** Of all commands of the group. */
interface StoreOptions {
  readonly durability?: 'replicated' | 'local';
  readonly adopt?: true;
  readonly json?: true;
  readonly dryRun?: boolean;
}

interface StoreCommand extends Pick<Definition, 'name' | 'description' | 'options'> {
  readonly configuration?: 'store' | 'quarantine';
  /** Its help below the first example. */
  readonly more: string;
  readonly act: (address: Address, options: StoreOptions, config: Config) => Promise<ExitCode | undefined>;
}

/** One command of the group, on the database that is named. */
function storeCommand({ configuration = 'store', more, act, ...definition }: StoreCommand): Definition {
  return defineCommand<StoreOptions>({
    ...definition,
    configuration,
    examples: `  $ collector store ${definition.name} --store ${EXAMPLE}\n${more}`,
    run({ options, config: read }) {
      const config = read();
      if (config.store === '') throw usage('--store: say which database is meant, as postgres://…');
      return act(parseAddress(config.store), options, config);
    },
  });
}

const migrating = storeCommand({
  name: 'migrate',
  description: 'Bring the schema of the database up to date, and begin a log where there is none.',
  options: {
    '--durability <kind>': {
      help: 'of a new log (default: replicated)',
      choices: ['replicated', 'local'],
    },
  },
  more: `
Run it as the role that owns the schema, or may create it. It can be run again at any time, also while collectors run.
--durability stays as the log was begun: with "replicated" an event is accepted when a synchronous standby has flushed
it, with "local" when this server has, which is right only where the storage below it is replicated.`,
  async act(address, { durability }) {
    const done = await migrateLog(address, durability);
    for (const name of done.applied) process.stdout.write(`applied: ${name}\n`);
    process.stdout.write(`The log is ${done.ledgerId}, with durability ${done.durability}.\n`);
    if (durability !== undefined && durability !== done.durability)
      printRemarks([`warning: the log was begun with durability ${done.durability}, which stays`]);
    return EXIT.ok;
  },
});

const roles = storeCommand({
  name: 'roles',
  description: 'Print the SQL of the roles that the log needs.',
  more: '\nNothing is changed: look at it, and give it to psql.',
  act(address) {
    process.stdout.write(rolesOf(address));
    return Promise.resolve(EXIT.ok);
  },
});

const maintaining = storeCommand({
  name: 'maintain',
  description: 'Make the partitions of the months to come, and take erased payloads out.',
  more: '\nOnce a month is enough. When it is forgotten, events go on into the last partition.',
  async act(address) {
    const { months, takenOut } = await logged(address, 'maintain', async (access) => {
      const done = await maintainLog(address);
      access.done = { months: done.months, payloads: done.takenOut };
      return done;
    });
    const what =
      months === 0 ? 'Nothing had to be made' : `Partitions of ${counted(months, 'month')} were made`;
    process.stdout.write(`${what}: there are some for a year ahead.\n`);
    if (takenOut > 0)
      process.stdout.write(
        `${counted(takenOut, 'payload')} of erased events ${takenOut === 1 ? 'was' : 'were'} taken out.\n`,
      );
    return EXIT.ok;
  },
});

const checking = storeCommand({
  name: 'check',
  description: 'Say how the database does, without reading the events.',
  options: {
    '--adopt': 'use the log on this database cluster from now on',
    '--json': 'print the findings as one JSON object',
  },
  more: `
With --adopt a log that was restored into another database cluster may be used there. Compare it with the checkpoints
that were given out first: collector verify --store URL --against SINK.

Exit codes: 0 there is nothing that loses events (there may be warnings), 3 there is.`,
  async act(address, { adopt, json }) {
    if (adopt) await logged(address, 'check --adopt', () => adoptLog(address));
    const findings = await examineLog(address);
    const damaged = findings.some(({ severity }) => severity === 'damage');
    process.stdout.write(json ? jsonText({ damaged, findings }) : findingsTable(findings, process.stdout));
    return damaged ? EXIT.damaged : EXIT.ok;
  },
});

const quarantining = storeCommand({
  name: 'quarantine',
  description: 'Move what no collector has stored out of the way of the log.',
  options: {
    '--dry-run': 'say what would be moved, and change nothing',
    '--json': 'print what was found as one JSON object',
  },
  configuration: 'quarantine',
  more: `  $ collector store quarantine --dry-run --json --store ${EXAMPLE}

When nothing is signed any more because of a batch that no collector has sealed, or an event cannot be stored because its
id stands in event_ids and in no batch: moves such rows into the tables quarantined_batches, quarantined_ids,
quarantined_events and quarantined_places, and deletes nothing. What a collector has sealed, and what has its place in the
log, is never moved. The ids are free afterwards, collectors sign again by themselves, and an entry of the log says what was
moved; the access log says who did it. Look at it with --dry-run first.

Run it as the owner of the schema, where the file <ledger id>.seal of the collectors is in --signing-keys.

Exit codes: 0 done, or there was nothing to do; 3 batches are gone, which nothing here makes good; 1 nothing was moved.`,
  act: quarantine,
});

export const command = defineCommand({
  name: 'store',
  description: 'Look after a log that is kept in a PostgreSQL database.',
  commands: [migrating, roles, maintaining, checking, quarantining],
});

/** Does an act between its two lines in the access log of the database. */
async function logged<Result>(
  address: Address,
  what: string,
  act: (access: GivenOut) => Promise<Result>,
): Promise<Result> {
  const shared = await openForReading(address);
  try {
    return await logAct(shared.accessLog, { command: `store ${what}`, filter: {} }, async (access) => {
      const result = await act(access);
      access.complete = true;
      return result;
    });
  } finally {
    await shared.close();
  }
}

async function quarantine(
  address: Address,
  { dryRun = false, json }: StoreOptions,
  config: Config,
): Promise<ExitCode> {
  const shared = await openForReading(address);
  try {
    const access = await logSharedAccess(shared.accessLog, {
      ...{ command: 'store quarantine', filter: { dry_run: dryRun }, isAct: !dryRun },
    });
    try {
      const done = await quarantineLog(address, {
        ...{ dryRun, version: version() },
        sealKey: (ledgerId, keys, entries) => openSealKey(signingDirectory(config), ledgerId, keys, entries),
        entry: (action) => ownEntry(ENTRY_KINDS.lifecycleAction, WRITER, actionFields(action)),
      });
      access.complete = true;
      const fields = { dry_run: dryRun, action: done.action ?? null, items: done.items, gaps: done.gaps };
      process.stdout.write(json ? jsonText(fields) : quarantineText(done, dryRun));
      return done.gaps.length > 0 ? EXIT.damaged : EXIT.ok;
    } finally {
      await access.end();
    }
  } catch (error) {
    if (!(error instanceof Error) || !/^permission denied/.test(error.message)) throw error;
    throw new CommandFailure(`${error.message}: run it as the owner of the schema`, EXIT.failure, {
      cause: error,
    });
  } finally {
    await shared.close();
  }
}

function quarantineText({ items, gaps, action }: Quarantine, dryRun: boolean): string {
  const rows = items.map(({ kind, lane, batch, entries, ids, why }) => [
    ...[kind, `${lane}`, `${batch}`, `${entries}`, `${ids}`, legible(why)],
  ]);
  const table = alignedTable([['WHAT', 'LANE', 'BATCH', 'ENTRIES', 'IDS', 'WHY'], ...rows], process.stdout);
  const end =
    action === undefined
      ? dryRun && items.length > 0
        ? 'Nothing was moved.'
        : 'There is nothing to move.'
      : `Moved, by action ${action}. Collectors sign again within seconds; see collector verify.`;
  return [...(items.length > 0 ? [table] : []), ...gaps.map((gap) => `${gap}.\n`), `${end}\n`].join('');
}

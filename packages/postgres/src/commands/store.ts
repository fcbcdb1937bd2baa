/** `collector store`: creates, maintains and examines the database of a log. */
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

/** The options of all commands of the group. */
interface StoreOptions {
  readonly durability?: 'replicated' | 'local';
  readonly adopt?: true;
  readonly json?: true;
  readonly dryRun?: boolean;
}

interface StoreCommand extends Pick<Definition, 'name' | 'description' | 'options'> {
  readonly configuration?: 'store' | 'quarantine';
  /** Help text after the first example. */
  readonly more: string;
  readonly act: (address: Address, options: StoreOptions, config: Config) => Promise<ExitCode | undefined>;
}

/** Defines one command of the group. */
function storeCommand({ configuration = 'store', more, act, ...definition }: StoreCommand): Definition {
  return defineCommand<StoreOptions>({
    ...definition,
    configuration,
    examples: `  $ collector store ${definition.name} --store ${EXAMPLE}\n${more}`,
    run({ options, config: read }) {
      const config = read();
      if (config.store === '') throw usage('--store: name the database, as postgres://…');
      return act(parseAddress(config.store), options, config);
    },
  });
}

const migrating = storeCommand({
  name: 'migrate',
  description: 'Update the schema of the database, and begin a log if there is none.',
  options: {
    '--durability <kind>': {
      help: 'durability of a new log (default: replicated)',
      choices: ['replicated', 'local'],
    },
  },
  more: `
Run it as the role that owns the schema, or may create it. You can run it again at any time, also while
collectors run. The durability of a log never changes. With "replicated" an event is accepted when a
synchronous standby has flushed it, with "local" when this server has flushed it, which is safe only on
replicated storage.`,
  async act(address, { durability }) {
    const done = await migrateLog(address, durability);
    for (const name of done.applied) process.stdout.write(`applied: ${name}\n`);
    process.stdout.write(`The log is ${done.ledgerId}, with durability ${done.durability}.\n`);
    if (durability !== undefined && durability !== done.durability)
      printRemarks([`warning: the log keeps its durability ${done.durability}`]);
    return EXIT.ok;
  },
});

const roles = storeCommand({
  name: 'roles',
  description: 'Print the SQL of the roles that the log needs.',
  more: '\nThe command changes nothing: review the SQL, then run it by psql.',
  act(address) {
    process.stdout.write(rolesOf(address));
    return Promise.resolve(EXIT.ok);
  },
});

const maintaining = storeCommand({
  name: 'maintain',
  description: 'Create the partitions of future months, and remove erased payloads.',
  more: '\nOnce a month is enough. If it is not run, events go into the last partition.',
  async act(address) {
    const { months, takenOut } = await logged(address, 'maintain', async (access) => {
      const done = await maintainLog(address);
      access.done = { months: done.months, payloads: done.takenOut };
      return done;
    });
    const what = months === 0 ? '' : `Partitions for ${counted(months, 'month')} were created. `;
    process.stdout.write(`${what}There are partitions for a year ahead.\n`);
    if (takenOut > 0)
      process.stdout.write(
        `${counted(takenOut, 'payload')} of erased events ${takenOut === 1 ? 'was' : 'were'} removed.\n`,
      );
    return EXIT.ok;
  },
});

const checking = storeCommand({
  name: 'check',
  description: 'Examine the database without reading events.',
  options: {
    '--adopt': 'accept the log on this database cluster from now on',
    '--json': 'print the findings as one JSON object',
  },
  more: `
With --adopt a log that was restored into another database cluster may be used there. First compare it with
the published checkpoints: collector verify --store URL --against SINK.

Exit codes: 0 no finding that loses events (there may be warnings), 3 at least one.`,
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
  description: 'Quarantine rows that no collector stored and that block the log.',
  options: {
    '--dry-run': 'report what would be moved, and change nothing',
    '--json': 'print the result as one JSON object',
  },
  configuration: 'quarantine',
  more: `  $ collector store quarantine --dry-run --json --store ${EXAMPLE}

Use it when signing has stopped at a batch that no collector sealed, or when an event cannot be stored because
event_ids has its id and no batch has the event. It moves such rows into the tables quarantined_batches,
quarantined_ids, quarantined_events and quarantined_places, and deletes nothing. Batches that a collector
sealed, and batches that have a place in the log, are never moved. Afterwards the ids are free and collectors
sign again. An entry of the log reports what was moved, and the access log who did it. Run it with --dry-run
first.

Run it as the owner of the schema, with the collectors' file <ledger id>.seal in --signing-keys.

Exit codes: 0 done, or there was nothing to do; 3 batches are missing, which this command cannot repair;
1 nothing was moved.`,
  act: quarantine,
});

export const command = defineCommand({
  name: 'store',
  description: 'Administer a log in a PostgreSQL database.',
  commands: [migrating, roles, maintaining, checking, quarantining],
});

/** Runs an act between its two lines in the access log of the database. */
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
      : `Moved by action ${action}. Collectors sign again within seconds; check with collector verify.`;
  return [...(items.length > 0 ? [table] : []), ...gaps.map((gap) => `${gap}.\n`), `${end}\n`].join('');
}

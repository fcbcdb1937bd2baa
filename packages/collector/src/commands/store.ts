/** `collector store`: makes, looks after and examines the database of a log. */
import { Command, Option } from 'commander';
import type { Config } from '../config.js';
import { counted } from '../quantity.js';
import { storeAdministration, type StoreAdministration } from '../store/administration.js';
import { addConfigOptions, configOf } from './arguments.js';
import { usage, EXIT } from './exit-codes.js';
import { findingsTable } from './terminal.js';

const EXAMPLE = 'postgres://collector@db1,db2/collector';

function subcommand(
  name: string,
  summary: string,
  more: string,
  act: (store: StoreAdministration, options: Options, config: Config) => Promise<void>,
): Command {
  return addConfigOptions(new Command(name).description(summary), 'store')
    .addHelpText('after', `\nExamples:\n  $ collector store ${name} --store ${EXAMPLE}\n${more}`)
    .action((options: Options, self: Command) => {
      const config = configOf(self, 'store');
      if (config.store === '') throw usage('--store: say which database is meant, as postgres://…');
      return act(storeAdministration(config.store), options, config);
    });
}

interface Options {
  readonly durability?: 'replicated' | 'local';
  readonly adopt?: true;
  readonly json?: true;
}

export function command(): Command {
  const migrating = subcommand(
    'migrate',
    'Bring the schema of the database up to date, and begin a log where there is none.',
    `
Run it as the role that owns the schema, or may create it. It can be run again at any time, also while collectors run.
--durability stays as the log was begun: with "replicated" an event is accepted when a synchronous standby has flushed
it, with "local" when this server has, which is right only where the storage below it is replicated.`,
    async (store, { durability }) => {
      const done = await store.migrate(durability);
      for (const name of done.applied) process.stdout.write(`applied: ${name}\n`);
      process.stdout.write(`The log is ${done.ledgerId}, with durability ${done.durability}.\n`);
      if (durability !== undefined && durability !== done.durability) {
        process.stderr.write(
          `collector: warning: the log was begun with durability ${done.durability}, which stays\n`,
        );
      }
    },
  ).addOption(
    new Option('--durability <kind>', 'of a new log (default: replicated)').choices(['replicated', 'local']),
  );
  const roles = subcommand(
    'roles',
    'Print the SQL of the roles that the log needs.',
    '\nNothing is changed: look at it, and give it to psql.',
    async (store) => {
      process.stdout.write(await store.roles());
    },
  );
  const maintaining = subcommand(
    'maintain',
    'Make the partitions of the months to come, and take erased payloads out.',
    '\nOnce a month is enough. When it is forgotten, events go on into the last partition.',
    async (store) => {
      const { months, takenOut } = await store.maintain();
      const what =
        months === 0 ? 'Nothing had to be made' : `Partitions of ${counted(months, 'month')} were made`;
      process.stdout.write(`${what}: there are some for a year ahead.\n`);
      if (takenOut > 0)
        process.stdout.write(
          `${counted(takenOut, 'payload')} of erased events ${takenOut === 1 ? 'was' : 'were'} taken out.\n`,
        );
    },
  );
  const checking = subcommand(
    'check',
    'Say how the database does, without reading the events.',
    `
With --adopt a log that was restored into another database cluster may be used there. Hold it against the checkpoints
that were given out first: collector verify --store URL --against SINK.

Exit codes: 0 there is nothing that loses events (there may be warnings), 3 there is.`,
    async (store, { adopt, json }) => {
      if (adopt) await store.adopt();
      const findings = await store.examine();
      const damaged = findings.some(({ severity }) => severity === 'damage');
      const text = json
        ? `${JSON.stringify({ damaged, findings }, undefined, 2)}\n`
        : findingsTable(findings, process.stdout);
      process.stdout.write(text);
      process.exitCode = damaged ? EXIT.damaged : EXIT.ok;
    },
  )
    .option('--adopt', 'use the log on this database cluster from now on')
    .option('--json', 'print the findings as one JSON object');
  const store = new Command('store').description('Look after a log that is kept in a PostgreSQL database.');
  for (const each of [migrating, roles, maintaining, checking]) store.addCommand(each);
  return store;
}

/** `collector config check`: says what `collector serve` would make of its options, the environment and the file. */
import { Command } from 'commander';
import { ConfigError, type Reading } from '../config.js';
import { addConfigOptions, readingOf } from './config-options.js';
import { configWarnings } from './config-warnings.js';
import { EXIT } from './exit-codes.js';
import { legible, printableJson } from './printable.js';
import { findProvisions } from './provisions.js';
import { startFaults } from './start-faults.js';
import { alignedTable } from './table.js';
import { telemetryWarnings } from './telemetry.js';

const EXAMPLES = `
Takes the options of collector serve and reads the same environment and the same file. It says everything that is
wrong and where that was said; or else prints what every option is and who said so, and warns of what is allowed and
unwise. It starts nothing and changes nothing. Run it as the user that the collector runs as: rights are looked at.

Examples:
  $ collector config check --config /etc/collector/collector.json
  $ collector config check --config new.json && sudo systemctl reload collector
  $ collector config check --json | jq '.settings[] | select(.from != "default")'

Exit codes: 0 it can be used (there may be warnings), 2 it cannot.`;

export function command(): Command {
  const check = new Command('check')
    .summary('check the configuration, and say where each value comes from')
    .description('Check the configuration of collector serve, and say where each value comes from.')
    .option('--json', 'print one JSON object');
  addConfigOptions(check, 'serve')
    .addHelpText('after', EXAMPLES)
    .action(async (options: { json?: true }, self: Command) => {
      process.exitCode = await report(readingOf(self, 'serve'), options.json === true);
    });
  return new Command('config').description('Check the configuration.').addCommand(check);
}

/** @returns the exit code. @throws ConfigError with every fault, unless it is told as JSON. */
async function report(reading: Reading, json: boolean): Promise<number> {
  const { settings } = reading;
  const { found, faults: foundFaults } = await findProvisions(reading);
  const faults = [...foundFaults];
  for (const { option, message } of await startFaults(reading.sound))
    faults.push({ source: settings.find(({ name }) => name === option)?.source ?? option, message });
  const warnings = [...configWarnings(reading, found), ...(await telemetryWarnings())];
  if (json) {
    const told = settings
      // A faulty list of sinks may hold a password.
      .filter(({ source }) => !faults.some((fault) => fault.source === source))
      .map(({ name, value, from, source, reloadable }) => ({ name, value, from, source, reloadable }));
    const answer = { usable: faults.length === 0, faults, warnings, settings: told };
    process.stdout.write(`${printableJson(JSON.stringify(answer, undefined, 2))}\n`);
    return faults.length === 0 ? EXIT.ok : EXIT.usage;
  }
  if (faults.length > 0) throw new ConfigError(faults);
  const rows = settings.map(({ name, shown, from, source, reloadable }) => [
    name,
    legible(shown),
    from === 'environment' || from === 'file' ? legible(source) : from,
    reloadable ? 'yes' : '',
  ]);
  process.stdout.write(alignedTable([['OPTION', 'VALUE', 'FROM', 'RELOAD'], ...rows]));
  for (const { source, message } of warnings) {
    process.stdout.write(`warning: ${legible(source)}: ${legible(message)}\n`);
  }
  return EXIT.ok;
}

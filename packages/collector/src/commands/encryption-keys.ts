/** `collector encryption-keys`: says where the keys of payloads are, and whether every mirror of them is up to date. */
import fs from 'node:fs';
import { Command } from 'commander';
import { counted } from '../quantity.js';
import { exists, nodeFiles } from '../files.js';
import { hasKeys, keyInventory, type KeyInventory, type KeyPlaces } from '../privacy/key-directory.js';
import { readKeyPlaces } from '../store/open.js';
import type { StoreFinding } from '../store/contract.js';
import { addConfigOptions, configOf } from './arguments.js';
import { CommandFailure, EXIT } from './exit-codes.js';
import { findingsTable, printableJson } from './terminal.js';

const EXAMPLES = `
Looks at the key directory and its mirrors. No key is read, and nothing is changed. A mirror that is behind is brought up
to date by the next start of the collector, and by each change of a key.

Examples:
  $ collector encryption-keys status
  $ collector encryption-keys status --json | jq .directories

Exit codes: 0 every directory has all keys (there may be warnings), 3 one of them lacks some, 6 payloads are not
encrypted.`;

export function command(): Command {
  const status = addConfigOptions(
    new Command('status')
      .description('Say where the keys of payloads are, and whether the mirrors are up to date.')
      .option('--json', 'print it as one JSON object'),
    'encryption-keys',
  )
    .addHelpText('after', EXAMPLES)
    .action((options: { json?: true }, self: Command) => {
      process.exitCode = tellStatus(configOf(self, 'encryption-keys').dataDir, options.json === true);
    });
  return new Command('encryption-keys')
    .description('Look after the keys that payloads are encrypted by.')
    .addCommand(status);
}

function tellStatus(dataDir: string, json: boolean): number {
  const places = readKeyPlaces(dataDir);
  if (!hasKeys(nodeFiles, places))
    throw new CommandFailure(`payloads in ${dataDir} are not encrypted: there are no keys`, EXIT.notFound);
  const inventory = keyInventory(nodeFiles, places);
  const findings = findingsOf(dataDir, places, inventory);
  const { ledger, epoch, epochBegun, buckets, directories } = inventory;
  const told = { ledger, kek: places.kek || 'file', epoch, epoch_begun: epochBegun, buckets, directories };
  process.stdout.write(
    json
      ? `${printableJson(JSON.stringify({ ...told, findings }, undefined, 2))}\n`
      : findingsTable(findings, process.stdout),
  );
  return findings.some(({ severity }) => severity === 'damage') ? EXIT.damaged : EXIT.ok;
}

/** What `doctor` says of them; nothing where payloads are not encrypted. @throws KeysUnfit */
export function encryptionFindings(dataDir: string): StoreFinding[] {
  const places = readKeyPlaces(dataDir);
  return hasKeys(nodeFiles, places) ? findingsOf(dataDir, places, keyInventory(nodeFiles, places)) : [];
}

function findingsOf(
  dataDir: string,
  { directories, kek }: KeyPlaces,
  { buckets, epoch, epochBegun, directories: held }: KeyInventory,
): StoreFinding[] {
  const about = (severity: StoreFinding['severity'], message: string): StoreFinding => {
    return { severity, subject: 'encryption', message };
  };
  const findings = [
    about(
      'ok',
      `payloads are encrypted; the keys of ${counted(buckets, 'stretch', 'stretches')} of the log are under epoch ` +
        `${epoch}, begun ${epochBegun.slice(0, 10)}, and ${kek === '' ? 'the file kek beside them' : kek}`,
    ),
  ];
  for (const { directory, isThere, behind } of held) {
    if (!isThere) findings.push(about('damage', `${directory} holds no keys`));
    else if (behind > 0)
      findings.push(
        about('damage', `${directory} lacks the newest keys of ${counted(behind, 'stretch', 'stretches')}`),
      );
    else findings.push(about('ok', `${directory} has all keys`));
  }
  const [first = ''] = directories;
  if (directories.length < 2) {
    findings.push(
      about(
        'warning',
        'the keys are in one directory alone, and without them no payload can be read again: name a mirror on another ' +
          'disk behind it (--encryption-keys DIR,MIRROR)',
      ),
    );
  }
  if (isOnDiskOf(dataDir, first)) {
    findings.push(
      about(
        'warning',
        `${first} is on the disk of the data: who has that disk has the keys (docs/guide/encryption.md)`,
      ),
    );
  }
  return findings;
}

function isOnDiskOf(dataDir: string, directory: string): boolean {
  return exists(directory) && fs.statSync(directory).dev === fs.statSync(dataDir).dev;
}

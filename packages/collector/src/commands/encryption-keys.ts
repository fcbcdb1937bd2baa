/** `collector encryption-keys`: looks after the keys of payloads, where they are and whether every mirror is up to date. */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { Command } from 'commander';
import { counted } from '../quantity.js';
import { exists } from '../files.js';
import {
  assertApart,
  copyKeys,
  hasKeys,
  keyInventory,
  KeysUnfit,
  type KeyInventory,
  type KeyPlaces,
  keysOnDisk,
} from '../privacy/key-directory.js';
import { KekFault } from '../privacy/key-encryption-key.js';
import { begunKeys, noteKeyPlaces, notesKeys, readKeyPlaces } from '../store/key-places.js';
import { isLocked } from '../store/directory-lock.js';
import { isShared } from '../store/open.js';
import { openStore, sharedKeyPlaces } from '../store/open-to-read.js';
import type { StoreFinding } from '../store/findings.js';
import { type GivenOut, logAccess } from './access-log.js';
import { addConfigOptions, configOf, expiryFrom } from './arguments.js';
import { usage, CommandFailure, EXIT } from './exit-codes.js';
import { readMirrorNote } from '../tree/state-files.js';
import { assertCollectorRuns, considered, deliver, lifecycleConfigOf } from './lifecycle/delivery.js';
import { findingsTable, printableJson } from './terminal.js';

const EXAMPLES = `
Examples:
  $ collector encryption-keys status
  $ collector encryption-keys status --json | jq .directories
  $ collector encryption-keys copy --mirror /mnt/keys-mirror/collector
  $ collector encryption-keys copy /media/safe/collector-keys --expires 14d
  $ collector encryption-keys rotate

"status" opens no payload and changes nothing. "copy" is for a safe: no erasure reaches the copy, so it is to be destroyed
when its time is over, and certificates of erasure name that time. Events that came after it do not open by it. "copy
--mirror" makes an empty directory that is there one of the mirrors, which the collector keeps up to date: from its next
start on, or from the next erasure, stretch or epoch if that comes first. "rotate" begins a new epoch: what a disk still holds of
replaced key files opens no more. A collector does so by itself half a day after an erasure, and once a month.

Exit codes: 0 done, or every directory has all keys (there may be warnings), 3 one of them lacks some, 6 payloads are not
encrypted, 9 begun and not at its end because a directory cannot be reached.`;

export function command(): Command {
  const add = (name: string, description: string) =>
    new Command(name).description(description).addHelpText('after', EXAMPLES);
  const status = addConfigOptions(
    add('status', 'Say where the keys of payloads are, and whether the mirrors are up to date.').option(
      '--json',
      'print it as one JSON object',
    ),
    'encryption-keys',
  ).action((options: { json?: true }, self: Command) => {
    process.exitCode = tellStatus(configOf(self, 'encryption-keys').dataDir, options.json === true);
  });
  const copy = addConfigOptions(
    add('copy', 'Copy the keys to a directory that no erasure reaches, or make it a mirror.')
      .argument('<directory>', 'empty, or with --mirror one that was a mirror')
      .option('--expires <when>', 'until when the copy is kept: an instant or a time from now (14d)')
      .option('--mirror', 'make it a mirror, which erasures reach'),
    'encryption-keys',
  ).action((directory: string, options: CopyOptions, self: Command) =>
    copyTo(path.resolve(directory), configOf(self, 'encryption-keys').dataDir, options),
  );
  const rotate = addConfigOptions(add('rotate', 'Begin a new epoch of keys.'), 'lifecycle').action(
    async (_: object, self: Command) => {
      process.exitCode = await rotateKeys(self);
    },
  );
  return new Command('encryption-keys')
    .description('Look after the keys that payloads are encrypted by.')
    .addCommand(status)
    .addCommand(copy)
    .addCommand(rotate);
}

/** @throws CommandFailure when there are none. */
function placesOf(dataDir: string): KeyPlaces {
  const places = readKeyPlaces(dataDir);
  if (sharedKeyPlaces(dataDir) !== undefined)
    throw usage(
      `the keys of this log are in ${places.directories.join()}, which its collectors look after; of those of a mirror see ` +
        'its own directory',
    );
  if (hasKeys(keysOnDisk, places)) return places;
  if (notesKeys(dataDir)) throw new CommandFailure(lost(places), EXIT.damaged);
  const begun = begunKeys(dataDir);
  if (begun !== undefined) throw new CommandFailure(unfinished(begun), EXIT.notFound);
  throw new CommandFailure(`payloads in ${dataDir} are not encrypted: there are no keys`, EXIT.notFound);
}

function lost({ directories }: KeyPlaces): string {
  return `payloads are encrypted, and their keys are not in ${directories.join(', ')}`;
}

function unfinished(directories: readonly string[]): string {
  return (
    `a start has begun to make the keys of payloads in ${directories.join(', ')} and did not finish; no event is ` +
    'encrypted by them, and the next start continues'
  );
}

interface CopyOptions {
  readonly expires?: string;
  readonly mirror?: true;
}

async function copyTo(directory: string, dataDir: string, { expires, mirror }: CopyOptions): Promise<void> {
  if (mirror && expires !== undefined)
    throw usage('--expires: cannot be used with --mirror, which has no end');
  const end = expiryFrom(expires, Date.now());
  if (!mirror && end === undefined) throw usage('--expires: say until when the copy is kept, such as 14d');
  const until = end === undefined ? undefined : new Date(end).toISOString();
  const places = placesOf(dataDir);
  const others = places.directories.filter((each) => each !== directory);
  const isFilled = mirror && hasKeys(keysOnDisk, { directories: [directory], kek: '' });
  if (isFilled && others.length < places.directories.length)
    throw usage(`${directory} is one of the directories already`);
  if (!exists(directory)) throw usage(`there is no directory ${directory}: make it first`);
  if (!isFilled && fs.readdirSync(directory).length > 0)
    throw usage(`${directory} is ${mirror ? 'neither empty nor a mirror of these keys' : 'not empty'}`);
  const sources = mirror ? { ...places, directories: others } : places;
  const filter = { directory, mirror, expires: until };
  let access: GivenOut;
  try {
    assertApart({ ...sources, directories: [...sources.directories, directory] });
    access = logAccess(dataDir, { command: 'encryption-keys copy', filter, isAct: true });
    copyKeys(keysOnDisk, sources, directory, until);
  } catch (error) {
    if (error instanceof KeysUnfit || error instanceof KekFault) throw usage(error.message);
    throw error;
  }
  if (until !== undefined) {
    access.complete = true;
    process.stdout.write(`copied to ${directory}; to be destroyed by ${until.slice(0, 10)}\n`);
    return;
  }
  await noteKeyPlaces(dataDir, { ...places, directories: [...new Set([...places.directories, directory])] });
  access.complete = true;
  const who = isLocked(dataDir) ? ', which the running collector keeps up to date' : '';
  process.stdout.write(`${directory} is a mirror of the keys${who}\n`);
}

async function rotateKeys(self: Command): Promise<number> {
  const config = lifecycleConfigOf(self);
  placesOf(config.dataDir);
  const actions = openStore(config.dataDir).events.actions?.();
  if (actions === undefined) throw usage('the log is in a database, and is not encrypted');
  assertCollectorRuns(config);
  const action = { action: randomUUID(), does: 'keys', epoch: 1 } as const;
  const filter = { action: action.action };
  const access = logAccess(config.dataDir, { command: 'encryption-keys rotate', filter, isAct: true });
  const { state } = await deliver(config, { action, considered: considered(actions) });
  const { epoch } = keyInventory(keysOnDisk, readKeyPlaces(config.dataDir));
  Object.assign(access, { complete: state === 'done', done: { epoch } });
  const which = isShared(config) ? 'a new epoch in the database of keys' : `epoch ${epoch}`;
  process.stdout.write(
    `${which} has begun${state === 'pending' ? ', and a directory still has to follow' : ''}\n`,
  );
  return state === 'pending' ? EXIT.pending : EXIT.ok;
}

function tellStatus(dataDir: string, json: boolean): number {
  const places = placesOf(dataDir);
  const inventory = keyInventory(keysOnDisk, places);
  const findings = findingsOf(dataDir, places, inventory);
  const { ledger, epoch, epochBegun, buckets, directories, copies } = inventory;
  const told = {
    ...{ ledger, kek: places.kek || 'file', epoch, epoch_begun: epochBegun, buckets, directories },
    copies,
  };
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
  if (hasKeys(keysOnDisk, places)) return findingsOf(dataDir, places, keyInventory(keysOnDisk, places));
  const begun = begunKeys(dataDir);
  if (begun !== undefined)
    return [{ severity: 'warning', subject: 'encryption', message: unfinished(begun) }];
  const isLost = notesKeys(dataDir) && sharedKeyPlaces(dataDir) === undefined;
  return isLost ? [{ severity: 'damage', subject: 'encryption', message: lost(places) }] : [];
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
  const right = held.find(({ isThere, kekFault }) => isThere && kekFault === undefined);
  for (const { directory, isThere, behind, kekFault } of held) {
    if (kekFault !== undefined)
      findings.push(
        about(
          'damage',
          right === undefined
            ? `${kekFault}, and no other directory has it`
            : `${kekFault}; that of ${right.directory} is used, and the next start copies it there`,
        ),
      );
    const lacking = behind - Number(kekFault !== undefined);
    if (!isThere)
      findings.push(
        about(
          'damage',
          `${directory} holds no keys: mount it, or fill it again (collector encryption-keys copy --mirror ${directory})`,
        ),
      );
    else if (lacking > 0)
      findings.push(
        about('damage', `${directory} lacks the newest keys of ${counted(lacking, 'stretch', 'stretches')}`),
      );
    else if (kekFault === undefined) findings.push(about('ok', `${directory} has all keys`));
  }
  const [first = ''] = directories;
  // A mirror of a log can be made anew.
  if (directories.length < 2 && readMirrorNote(dataDir) === undefined) {
    findings.push(
      about(
        'warning',
        'the keys are in one directory alone, and without them no payload can be read again: name a mirror on another ' +
          'disk (collector encryption-keys copy --mirror DIR)',
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

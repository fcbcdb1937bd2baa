/**
 * `collector encryption-keys`: manages the payload keys: where they are, and whether every mirror is up to
 * date.
 */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import type { Config } from '../config.js';
import { exists } from '../files.js';
import { exchangeKek, type Rewrapping, rewrapEpochs } from '../privacy/kek-exchange.js';
import {
  assertApart,
  copyKeys,
  eraseKekFiles,
  hasKeys,
  kekFileOf,
  kekOf,
  keyInventory,
  type KeyPlaces,
  vaultOf,
} from '../privacy/key-directories.js';
import { KekFault, kekFault, openKek } from '../privacy/key-encryption-key.js';
import { KeysUnfit, VaultAway } from '../privacy/key-vault.js';
import { begunKeys, noteKeyPlaces, notesKeys, readKeyPlaces } from '../store/key-places.js';
import { isLocked } from '../store/directory-lock.js';
import { isShared } from '../store/open.js';
import { openStore, sharedKeyPlaces } from '../store/open-to-read.js';
import { type GivenOut, logAccess } from './access-log.js';
import { expiryFrom } from './arguments.js';
import { defineCommand } from './define.js';
import { keyFindings, keysLost, keysUnfinished } from './encryption-findings.js';
import { CommandFailure, EXIT, type ExitCode, usage } from './exit-codes.js';
import { assertCollectorRuns, considered, deliver } from './lifecycle/delivery.js';
import { rewrapErasureRecords } from './lifecycle/erasure-record.js';
import { holdDirectory } from './held-directory.js';
import { findingsTable, jsonText } from './terminal.js';

const EXAMPLES = `  $ collector encryption-keys status
  $ collector encryption-keys status --json | jq .directories
  $ collector encryption-keys copy --mirror /mnt/keys-mirror/collector
  $ collector encryption-keys copy /media/safe/collector-keys --expires 14d
  $ collector encryption-keys rotate
  $ collector encryption-keys rewrap command:/usr/local/bin/collector-kms

"status" opens no payload and changes nothing.

"copy" is for a safe. No erasure reaches the copy, so destroy it on its expiry date, which certificates of
erasure state. The copy does not open events that are stored later. "copy --mirror" makes an existing, empty
directory a mirror that the collector keeps up to date, from its next start or from the next erasure, key
range or epoch, if that is earlier.

"rotate" begins a new epoch: replaced key files that are still on a disk need the key of the old epoch, which
is destroyed. A collector rotates half a day after an erasure, and once a month. "rewrap" replaces the key
that wraps the keys, in every directory, and erases the files kek beside them; if it is interrupted, run it
again.

Exit codes: 0 done, or every directory has all keys (warnings are possible), 3 a directory lacks keys, 6
payloads are not encrypted, 8 no epoch was begun because too few directories can be written or the wrapping
key is not available, 9 begun but not finished because a directory cannot be reached.`;

const status = defineCommand<{ readonly json?: true }>({
  name: 'status',
  description: 'Show where the payload keys are and whether the mirrors are up to date.',
  options: { '--json': 'print it as one JSON object' },
  configuration: 'encryption-keys',
  examples: EXAMPLES,
  run: ({ options, config }) => printStatus(config().dataDir, options.json === true),
});

const copy = defineCommand<CopyOptions>({
  name: 'copy',
  description: 'Copy the keys to a directory that erasures do not reach, or make it a mirror.',
  arguments: { '<directory>': 'an empty directory, or with --mirror a former mirror' },
  options: {
    '--expires <when>': 'how long the copy is kept: an instant, or a time from now (14d)',
    '--mirror': 'make it a mirror, which erasures do reach',
  },
  configuration: 'encryption-keys',
  examples: EXAMPLES,
  run: ({ options, config }, directory) => copyTo(path.resolve(directory), config().dataDir, options),
});

const rotate = defineCommand({
  name: 'rotate',
  description: 'Begin a new epoch of keys.',
  configuration: 'lifecycle',
  examples: EXAMPLES,
  run: ({ config }) => rotateKeys(config()),
});

const rewrap = defineCommand({
  name: 'rewrap',
  description: 'Replace the key that wraps the payload keys, while no collector runs.',
  arguments: { '<kek>': 'file: or command: with an absolute path, as for --kek' },
  configuration: 'encryption-keys',
  examples: EXAMPLES,
  run: ({ config }, kek = '') => rewrapKeys(config().dataDir, kek),
});

export const command = defineCommand({
  name: 'encryption-keys',
  description: 'Manage the keys of encrypted payloads.',
  commands: [status, copy, rotate, rewrap],
});

/** @throws CommandFailure if there are no keys. */
function placesOf(dataDir: string): KeyPlaces {
  const places = readKeyPlaces(dataDir);
  if (sharedKeyPlaces(dataDir) !== undefined)
    throw usage(
      `the keys of this log are in ${places.directories.join()} and are managed by its collectors; for the ` +
        'keys of a mirror name its directory',
    );
  if (hasKeys(places)) return places;
  if (notesKeys(dataDir)) throw new CommandFailure(keysLost(places), EXIT.damaged);
  const begun = begunKeys(dataDir);
  if (begun !== undefined) throw new CommandFailure(keysUnfinished(begun), EXIT.notFound);
  throw new CommandFailure(`payloads in ${dataDir} are not encrypted: there are no keys`, EXIT.notFound);
}

interface CopyOptions {
  readonly expires?: string;
  readonly mirror?: true;
}

async function copyTo(directory: string, dataDir: string, { expires, mirror }: CopyOptions): Promise<void> {
  if (mirror && expires !== undefined)
    throw usage('--expires: cannot be combined with --mirror, which does not expire');
  const end = expiryFrom(expires, Date.now());
  if (!mirror && end === undefined) throw usage('--expires: give the end of its use, such as 14d');
  const until = end === undefined ? undefined : new Date(end).toISOString();
  const places = placesOf(dataDir);
  const others = places.directories.filter((each) => each !== directory);
  const isFilled = mirror && hasKeys({ directories: [directory], kek: '' });
  if (isFilled && others.length < places.directories.length)
    throw usage(`${directory} is already one of the key directories`);
  if (!exists(directory)) throw usage(`there is no directory ${directory}: create it first`);
  if (!isFilled && fs.readdirSync(directory).length > 0)
    throw usage(`${directory} is ${mirror ? 'neither empty nor a mirror of these keys' : 'not empty'}`);
  const sources = mirror ? { ...places, directories: others } : places;
  const filter = { directory, mirror, expires: until };
  let access: GivenOut;
  try {
    assertApart({ ...sources, directories: [...sources.directories, directory] });
    access = logAccess(dataDir, { command: 'encryption-keys copy', filter, isAct: true });
    await copyKeys(sources, directory, until);
  } catch (error) {
    if (error instanceof KeysUnfit || error instanceof KekFault) throw usage(error.message);
    if (error instanceof VaultAway) throw new CommandFailure(error.message, EXIT.failure, { cause: error });
    throw error;
  }
  if (until !== undefined) {
    access.complete = true;
    process.stdout.write(`copied to ${directory}; destroy the copy by ${until.slice(0, 10)}\n`);
    return;
  }
  await noteKeyPlaces(dataDir, { ...places, directories: [...new Set([...places.directories, directory])] });
  access.complete = true;
  const who = isLocked(dataDir) ? ', which the running collector keeps up to date' : '';
  process.stdout.write(`${directory} is a mirror of the keys${who}\n`);
}

async function rotateKeys(config: Config): Promise<ExitCode> {
  placesOf(config.dataDir);
  const actions = openStore(config.dataDir).events.actions?.();
  if (actions === undefined) throw usage('the log is in a database and is not encrypted');
  assertCollectorRuns(config);
  const action = { action: randomUUID(), does: 'rotate', epoch: 1 } as const;
  const filter = { action: action.action };
  const access = logAccess(config.dataDir, { command: 'encryption-keys rotate', filter, isAct: true });
  const { state } = await deliver(config, { action, considered: considered(actions) });
  const { epoch } = keyInventory(readKeyPlaces(config.dataDir));
  Object.assign(access, { complete: state === 'done', done: { epoch } });
  const which = isShared(config) ? 'a new epoch in the database of keys' : `epoch ${epoch}`;
  process.stdout.write(
    `${which} has begun${state === 'pending' ? ', but a key directory has not followed yet' : ''}\n`,
  );
  return state === 'pending' ? EXIT.pending : EXIT.ok;
}

/**
 * An interruption at any point leaves keys that the recorded KEK opens; the next run completes the change.
 */
async function rewrapKeys(dataDir: string, newKek: string): Promise<void> {
  const fault = kekFault(newKek);
  if (fault !== undefined) throw usage(`kek: ${fault}`);
  const places = placesOf(dataDir);
  const beside = places.directories.map((directory) => `file:${kekFileOf(directory)}`);
  if (beside.includes(newKek))
    throw usage('kek: the file kek beside the keys is erased by this command; name another file');
  const lock = holdDirectory(
    dataDir,
    ': stop the collector, run this again, then start the collector with the new --kek',
  );
  try {
    const filter = { kek: newKek };
    const access = logAccess(dataDir, { command: 'encryption-keys rewrap', filter, isAct: true });
    const vault = vaultOf(places);
    const rewrap = async (rewrapping: Rewrapping) => {
      await rewrapEpochs(vault, rewrapping);
      await rewrapErasureRecords(dataDir, rewrapping);
    };
    const note = () => noteKeyPlaces(dataDir, { ...places, kek: newKek });
    await exchangeKek([kekOf(places, vault), openKek(newKek)], rewrap, note);
    eraseKekFiles(places);
    access.complete = true;
  } catch (error) {
    if (error instanceof KekFault) throw usage(error.message);
    if (error instanceof VaultAway)
      throw new CommandFailure(`${error.message}: run it again once it can`, EXIT.pending, {
        cause: error,
      });
    throw error;
  } finally {
    lock.release();
  }
  process.stdout.write(`the keys are wrapped by ${newKek} only; start the collector with --kek ${newKek}\n`);
}

function printStatus(dataDir: string, json: boolean): ExitCode {
  const places = placesOf(dataDir);
  const inventory = keyInventory(places);
  const findings = keyFindings(dataDir, places, inventory);
  const { ledger, epoch, epochBegun, buckets, directories, copies } = inventory;
  const status = {
    ...{ ledger, kek: places.kek || 'file', epoch, epoch_begun: epochBegun, buckets, directories },
    ...{ copies, findings },
  };
  process.stdout.write(json ? jsonText(status) : findingsTable(findings, process.stdout));
  return findings.some(({ severity }) => severity === 'damage') ? EXIT.damaged : EXIT.ok;
}

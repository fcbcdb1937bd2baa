/** `collector proof`: a file by which anybody can check that one event is in the log, without the log; and the tree. */
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { SALT_BYTES } from '@clinical-events/protocol';
import { checkProof, formatProof, rootFromInclusion } from '@clinical-events/protocol/verify';
import { Catalogue, CatalogueFault, catalogueDirectory } from '../catalogue/catalogue.js';
import { type Config, inQuotes, ownCommand } from '../config.js';
import { createDurably, exists } from '../files.js';
import { HASH_BYTES, TilesIncomplete, commitmentOf, inclusionProof, leafHash } from '../tree/merkle.js';
import type { SoughtId, StoredEntry } from '../store/contract/events.js';
import type { TreeReader } from '../store/contract/tree.js';
import { counted } from '../quantity.js';
import { systemCode } from '../system-code.js';
import type { GivenOut } from './access-log.js';
import { defineCommand } from './define.js';
import { CommandFailure, EXIT, usage } from './exit-codes.js';
import { type LogReading, readLog } from './log-reading.js';
import { LOG_DIRECTORIES } from './regular-files.js';
import { printable, ProgressBar } from './terminal.js';
import { exportTiles } from './tiles.js';
import {
  type SignedCheckpoint,
  cosigners,
  newestCheckpoint,
  newestCosigned,
} from './verify/log-checkpoints.js';
import { idFrom, newPlaceFrom, notThere, organisationFrom } from './arguments.js';

/*
 * Makes the proof of one event from what stands in a data directory, beside a running collector or without one.
 *
 * Before anybody gets it the proof is checked, against the keys of the log and as its reader will: so a damaged tree,
 * or an event that was changed, never yields one.
 */

/** How long an event's checkpoint is waited for. */
const PATIENCE_MS = 5000;
const LOOK_EVERY_MS = 100;

export interface EventProof {
  readonly event: StoredEntry;
  /** The proof file. */
  readonly proof: string;
  readonly checkpoint: SignedCheckpoint;
  /** The key of the log that signed the checkpoint. */
  readonly verifierKey: string;
  /** Who else has, by name and key id. */
  readonly cosignedBy: readonly string[];
}

/**
 * Waits for the collector, if one runs, to sign a checkpoint when none covers the event yet.
 * @param eventId lower-case text form.
 * @throws CommandFailure when there is no such event, more than one, or no proof of it that holds.
 */
export async function proveEvent(
  reading: ProvenLog,
  eventId: string,
  organisation?: string,
): Promise<EventProof> {
  const known = organisation === undefined ? knownOrganisations(reading) : [];
  return proofOf(reading, await theEvent(reading, { eventId, organisation, known }));
}

type ProvenLog = Omit<LogReading, 'givenOut' | 'claimed'>;

/** @throws CommandFailure when there is none, or more than one. */
async function theEvent({ dataDir, place, tree, events }: ProvenLog, sought: SoughtId): Promise<StoredEntry> {
  const { eventId, organisation } = sought;
  // Before the log is read: what was signed by then can be found in it.
  const signed = (await newestCheckpoint(dataDir, tree))?.newest.checkpoint.size ?? 0;
  const found = await events.withId(sought);
  const [event, another] = found.entries;
  if (another !== undefined) {
    const names = found.entries.map((each) => each.organisation).sort();
    throw usage(
      `several organisations have an event ${eventId}: give --organisation, one of ${names.join(', ')}`,
    );
  }
  if (event === undefined && found.nextSequence <= signed) {
    throw new CommandFailure(
      `the log can be read up to entry ${found.nextSequence - 1} only, and a checkpoint was signed over ${signed}; ` +
        'see collector verify',
      EXIT.damaged,
    );
  }
  if (event === undefined) {
    throw notThere({ what: 'event', id: eventId, dataDir: place, isNarrowed: organisation !== undefined });
  }
  if (event.payloadState === 'encrypted') {
    throw new CommandFailure(
      `the payload of event ${eventId} is encrypted, and its key is not here: there is nothing to prove the body by`,
      EXIT.failure,
    );
  }
  return event;
}

/** Where an event is looked for first: a hint, so that the log does not have to be read for it. */
function knownOrganisations({ dataDir, files }: ProvenLog): string[] {
  const directory = catalogueDirectory(dataDir);
  if (files === undefined || !exists(directory)) return [];
  let catalogue: Catalogue | undefined;
  try {
    catalogue = Catalogue.open({ directory, ledgerId: files.ledgerId, names: files.names });
    return catalogue.organisations();
  } catch (error) {
    if (error instanceof CatalogueFault) return [];
    throw error;
  } finally {
    catalogue?.close();
  }
}

/** @throws CommandFailure when no checkpoint covers the event, or the proof does not hold. */
async function proofOf(log: ProvenLog, event: StoredEntry): Promise<EventProof> {
  const { tree } = log;
  const { checkpoint, keys } = await checkpointOver(log, event);
  const index = event.sequence - 1;
  const isErased = event.payloadState === 'erased';
  const auditPath = await pathOf(event, checkpoint, tree);
  const proof = formatProof({
    extra: Buffer.concat([
      event.envelope,
      isErased ? event.commitment : event.salted.subarray(0, SALT_BYTES),
    ]),
    index,
    path: auditPath,
    checkpoint: checkpoint.note,
  });
  // The newest first: it is the one to be named when several have signed.
  const vkeys = keys.map(({ vkey }) => vkey).reverse();
  const verdict = await checkProof({ proof, keys: vkeys, ...(!isErased && { body: event.body }) });
  if (!verdict.valid) {
    const { reason, message } = verdict;
    const damage =
      reason === 'event-differs' ? await damageOf(event, checkpoint, tree, auditPath) : undefined;
    throw notProvable(event, damage ?? message);
  }
  return {
    ...{ event, proof, checkpoint, verifierKey: verdict.signedBy },
    cosignedBy: cosigners(checkpoint.note, { keys }),
  };
}

/** Waits for the collector to sign one when there is none yet. */
async function checkpointOver({ dataDir, tree, mayBeSigned }: ProvenLog, { sequence, eventId }: StoredEntry) {
  const warn = (message: string) => process.stderr.write(`collector: warning: ${message}\n`);
  for (let waited = 0; ; waited += LOOK_EVERY_MS) {
    const found = await newestCheckpoint(dataDir, tree);
    if (found !== undefined && found.newest.checkpoint.size >= sequence) {
      const { history, newest } = found;
      return { keys: history.keys, checkpoint: newestCosigned(dataDir, history, sequence, warn) ?? newest };
    }
    const running = mayBeSigned();
    if (!running || waited >= PATIENCE_MS) {
      throw new CommandFailure(
        `event ${sequence} (${eventId}) is not under a checkpoint yet, ` +
          (running
            ? `although ${PATIENCE_MS / 1000} s were waited for one: try again, and look at the collector's log`
            : 'and no collector runs: the next start of one signs it'),
        EXIT.failure,
      );
    }
    await sleep(LOOK_EVERY_MS);
  }
}

async function pathOf(
  event: StoredEntry,
  { checkpoint }: SignedCheckpoint,
  tree: TreeReader,
): Promise<Buffer[]> {
  try {
    return await inclusionProof(tree, event.sequence - 1, checkpoint.size);
  } catch (error) {
    if (error instanceof TilesIncomplete) throw notProvable(event, error.message, error);
    throw error;
  }
}

/** What it is that does not lead to the signed root: the tree, if it is not the event. Undefined when both do. */
async function damageOf(
  { sequence, envelope, salted, commitment }: StoredEntry,
  { checkpoint: { size, root } }: SignedCheckpoint,
  tree: TreeReader,
  auditPath: readonly Buffer[],
): Promise<string | undefined> {
  const stored = await tree.hashes(0, sequence - 1, 1);
  const reached = await rootFromInclusion(stored, sequence - 1, size, auditPath);
  const found = commitmentOf(salted);
  if (reached !== undefined && Buffer.from(root).equals(reached)) {
    const own = Buffer.alloc(HASH_BYTES);
    leafHash(envelope, found, own, 0);
    return own.equals(stored)
      ? undefined
      : `event ${sequence}, as it is stored, is not the one that was signed`;
  }
  return found.equals(commitment)
    ? `the hashes in tree/ do not lead from event ${sequence} to the signed root`
    : `neither event ${sequence} nor the hashes in tree/ are what was signed`;
}

function notProvable({ sequence, eventId }: StoredEntry, reason: string, cause?: unknown): CommandFailure {
  return new CommandFailure(
    `event ${sequence} (${eventId}) cannot be proved: ${reason.replace(/\.$/, '')}; see collector verify`,
    EXIT.damaged,
    { cause },
  );
}

const EXAMPLES = `  $ collector proof 6f9b2c4e-8a51-4d8e-9f0c-2b7a1e5d3c10 --out event.tlog-proof
  $ collector events --event 6f9b2c4e-8a51-4d8e-9f0c-2b7a1e5d3c10 | jq -j .body > body.json
  $ collector check-proof event.tlog-proof --event body.json --key log.vkey
  $ collector proof --tiles /srv/log

The proof (C2SP tlog-proof) holds hashes, a signed checkpoint, who sent the event and when it was received, and the
event's salt, but not its body: the second line gets that, byte for byte. It stays true however the log grows. The
checkpoint is the newest that a witness has cosigned, else the newest. An event that came just now is under one within
a second or so; for that the command waits.

Give a proof only to those who may have the body: with the salt one can try whether a guess at the body is right.

--tiles writes what the newest checkpoint covers as a static directory in the layout of C2SP tlog-tiles: any web server
can serve it, and independent tools can read and audit it. Run again, it continues from there, and the checkpoint is
always the last to change: anyone who reads meanwhile finds everything that the checkpoint they got needs. The entries
are the leaves of the tree. They hold nothing of what was sent or by whom, but tell how many events came and when; and
anyone who knows an event's id and who sent it can find its leaf.

Each run is logged in access.log in the data directory, or in the database, as an access.

Exit codes: 6 there is no such event, 2 several organisations have one (say which by --organisation), 1 no checkpoint
covers it yet, 3 what is stored is damaged, and no proof is given out. Of an event that was erased the proof says that it
was stored, when, and from whom; it is checked without a body. "collector erase --list" names the entry of the action that
erased it, which is proved like an event, by its id. With --tiles: 6 there is no ledger, 2 the directory holds something
else or the tiles of another log, 1 nothing is signed yet, 3 what is stored is damaged, or the tiles are of a log that
went on differently; then their checkpoint is not changed.`;

interface ProofOptions {
  readonly organisation?: string;
  readonly out?: string;
  readonly tiles?: string;
  readonly json?: true;
}

/** No progress bar for fewer. */
const BAR_FROM_ENTRIES = 200_000;

export const command = defineCommand<ProofOptions>({
  name: 'proof',
  description: 'Write a proof that an event is in the log, or the whole tree, to be checked without the log.',
  arguments: { '[event-id]': 'the id of the event' },
  options: {
    '--organisation <name>': 'whose event, when several organisations have one with this id',
    '--out <file>': 'write the proof there, into a new file (default: standard output)',
    '--tiles <directory>': 'write the tree, its entries and a checkpoint there as static files',
    '--json': 'print the proof and what it is of, or what was written, as one JSON object',
  },
  configuration: 'proof',
  examples: EXAMPLES,
  async run(call, id?: string) {
    const config = call.config();
    const { tiles, organisation, out } = call.options;
    if (tiles === undefined && id === undefined) throw usage('event id: give one, or --tiles DIR');
    if (tiles === undefined) return prove(config, idFrom('event id', id ?? ''), call.options);
    if ((id ?? organisation ?? out) !== undefined)
      throw usage('--tiles: is of the whole log; give no event id, --organisation or --out with it');
    await writeTiles(config, path.resolve(tiles), call.options);
  },
});

async function prove(config: Config, eventId: string, options: ProofOptions): Promise<void> {
  const organisation =
    options.organisation === undefined ? undefined : organisationFrom(options.organisation);
  if (options.out !== undefined) newPlaceFrom(options.out);
  const access = { command: 'proof', filter: { event: eventId, organisation } };
  await readLog(config, access, async (reading) =>
    give(await proveEvent(reading, eventId, organisation), reading.givenOut, options),
  );
}

async function writeTiles(config: Config, directory: string, { json }: ProofOptions): Promise<void> {
  const wanted = json !== true && process.stderr.isTTY;
  const bar = new ProgressBar({ wanted, unit: 'entries', per: 1, from: BAR_FROM_ENTRIES });
  const work = async ({ givenOut, ...log }: LogReading) => {
    const onProgress = (entries: number, of: number) => {
      givenOut.events = entries;
      bar.show(entries, of);
    };
    const {
      before,
      written,
      checkpoint: { origin, size },
    } = await exportTiles(log, directory, onProgress).finally(() => bar.clear());
    givenOut.events = size;
    givenOut.complete = true;
    const done = { directory, origin, tree_size: size, tree_size_before: before, files_written: written };
    const since = before === 0 ? '' : `, of which ${before} were there`;
    process.stdout.write(
      json
        ? `${JSON.stringify(done, undefined, 2)}\n`
        : `${directory} holds the tiles of ${counted(size, 'entry', 'entries')} of ${printable(origin)}${since}. ` +
            `${counted(written, 'file')} written.\n`,
    );
  };
  await readLog(config, { command: 'proof', filter: { tiles: directory } }, work, LOG_DIRECTORIES);
}

function give(proved: EventProof, givenOut: GivenOut, options: ProofOptions): void {
  const out = options.out === undefined ? undefined : path.resolve(options.out);
  if (out !== undefined) writeNew(out, proved.proof);
  if (options.json) process.stdout.write(`${JSON.stringify(described(proved), undefined, 2)}\n`);
  else if (out === undefined) process.stdout.write(proved.proof);
  givenOut.events = 1;
  givenOut.complete = true;
  if (options.json || !process.stderr.isTTY) return;
  const file = options.out === undefined ? 'FILE' : inQuotes(options.out);
  const key = inQuotes(proved.verifierKey);
  const isErased = proved.event.payloadState === 'erased';
  if (isErased)
    process.stderr.write(
      'Its content was erased: what can be proved is that it was stored (collector erase --list)\n',
    );
  const body = isErased ? '' : ' --event BODY';
  process.stderr.write(`Check it with: ${ownCommand()} check-proof ${file}${body} --key ${key}\n`);
}

/** For scripts; the names are a promise. */
function described({ event, proof, checkpoint, verifierKey, cosignedBy }: EventProof): object {
  return {
    event_id: event.eventId,
    sequence: event.sequence,
    index: event.sequence - 1,
    tree_size: checkpoint.checkpoint.size,
    origin: checkpoint.checkpoint.origin,
    verifier_key: verifierKey,
    cosigned_by: cosignedBy,
    proof,
  };
}

/** Whole or not at all, and for its owner alone: it holds the salt. */
function writeNew(file: string, text: string): void {
  try {
    createDurably(file, text);
  } catch (error) {
    const code = systemCode(error) ?? String(error);
    if (code === 'EEXIST') throw usage(`--out: ${file} is there already, and is not written over`);
    throw new CommandFailure(`--out: ${file} cannot be written (${code})`, EXIT.failure, { cause: error });
  }
}

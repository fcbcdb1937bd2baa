/**
 * `collector proof`: writes a file that proves, without the log, that an event is in it; or exports the tree.
 */
import path from 'node:path';
import { type Config, inQuotes, ownCommand } from '../config.js';
import { createDurably } from '../files.js';
import { counted } from '../quantity.js';
import { systemCode } from '../system-code.js';
import type { GivenOut } from './access-log.js';
import { defineCommand } from './define.js';
import { CommandFailure, EXIT, usage } from './exit-codes.js';
import { type LogReading, readLog } from './log-reading.js';
import { LOG_DIRECTORIES } from './regular-files.js';
import { printable, ProgressBar } from './terminal.js';
import { exportTiles } from './tiles.js';
import { type EventProof, proveEvent } from './event-proof.js';
import { idFrom, newPlaceFrom, organisationFrom } from './arguments.js';

const EXAMPLES = `  $ collector proof 6f9b2c4e-8a51-4d8e-9f0c-2b7a1e5d3c10 --out event.tlog-proof
  $ collector events --event 6f9b2c4e-8a51-4d8e-9f0c-2b7a1e5d3c10 | jq -j .body > body.json
  $ collector check-proof event.tlog-proof --event body.json --key log.vkey
  $ collector proof --tiles /srv/log

The proof (C2SP tlog-proof) has hashes, a signed checkpoint, the event's sender, time of receipt and salt, but
not its body; the second line extracts the body byte for byte. The proof stays valid as the log grows. Its
checkpoint is the newest that a witness has cosigned, or else the newest. A new event is covered within about
a second; the command waits.

Give a proof only to people who may have the body: the salt allows them to test guesses of it.

--tiles writes everything the newest checkpoint covers as static files in the layout of C2SP tlog-tiles: any
web server can serve them, and independent tools can read and audit them. A later run continues, and replaces
the checkpoint last, so a reader always finds everything that its checkpoint needs. The entries are the leaves
of the tree. They contain neither contents nor senders, but show how many events arrived and when; someone who
knows the id and the sender of an event can find its leaf.

Each run is logged as an access in access.log in the data directory, or in the database.

For an erased event, the proof shows that it was stored, when, and from whom; it is checked without a body.
"collector erase --list" shows the action that erased it, which is proved like an event, by its id.

Exit codes: 6 there is no such event, 2 several organisations have one (give --organisation), 1 no checkpoint
covers it yet, 3 stored data is damaged and no proof is written. With --tiles: 6 there is no ledger, 2 the
directory holds something else or the tiles of another log, 1 nothing is signed yet, 3 stored data is damaged,
or the tiles belong to a log that continued differently; their checkpoint is then not changed.`;

interface ProofOptions {
  readonly organisation?: string;
  readonly out?: string;
  readonly tiles?: string;
  readonly json?: true;
}

/** Number of entries from which a progress bar is shown. */
const BAR_FROM_ENTRIES = 200_000;

export const command = defineCommand<ProofOptions>({
  name: 'proof',
  description: 'Write a proof that an event is in the log, or export the tree, for checks without the log.',
  arguments: { '[event-id]': 'the id of the event' },
  options: {
    '--organisation <name>': 'organisation of the event, if several have one with this id',
    '--out <file>': 'write the proof to a new file (default: standard output)',
    '--tiles <directory>': 'write the tree, its entries and a checkpoint to this directory as static files',
    '--json': 'print the proof and its facts, or what was written, as one JSON object',
  },
  configuration: 'proof',
  examples: EXAMPLES,
  async run(call, id?: string) {
    const config = call.config();
    const { tiles, organisation, out } = call.options;
    if (tiles === undefined && id === undefined) throw usage('event id: give one, or --tiles DIR');
    if (tiles === undefined) return prove(config, idFrom('event id', id ?? ''), call.options);
    if ((id ?? organisation ?? out) !== undefined)
      throw usage('--tiles: exports the whole log; omit the event id, --organisation and --out');
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
    const since = before === 0 ? '' : `, ${before} of which it already had`;
    process.stdout.write(
      json
        ? `${JSON.stringify(done, undefined, 2)}\n`
        : `${directory} holds the tiles of ${counted(size, 'entry', 'entries')} of ` +
            `${printable(origin)}${since}. ${counted(written, 'file')} written.\n`,
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
      'The content of the event was erased: the proof shows that it was stored (collector erase --list)\n',
    );
  const body = isErased ? '' : ' --event BODY';
  process.stderr.write(`Check it with: ${ownCommand()} check-proof ${file}${body} --key ${key}\n`);
}

/** The output for programs, which rely on the names. */
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

/** Writes the proof atomically. Only its owner can read the file, because it contains the salt. */
function writeNew(file: string, text: string): void {
  try {
    createDurably(file, text);
  } catch (error) {
    const code = systemCode(error) ?? String(error);
    if (code === 'EEXIST') throw usage(`--out: ${file} exists and is not overwritten`);
    throw new CommandFailure(`--out: ${file} cannot be written (${code})`, EXIT.failure, { cause: error });
  }
}

/** `collector proof`: a file by which anybody can check that one event is in the log, without the log. */
import path from 'node:path';
import { Command } from 'commander';
import { inQuotes, ownCommand, type Config } from '../config.js';
import { exists } from '../files.js';
import { createDurably } from '../transparency/private-keys.js';
import { systemCode } from '../system-code.js';
import { addConfigOptions, configOf } from './config-options.js';
import { idFrom, organisationFrom } from './event-arguments.js';
import { proveEvent, type EventProof } from './event-proof.js';
import { CommandFailure, EXIT } from './exit-codes.js';
import { usage } from './key-arguments.js';
import { noteReading } from './noted-reading.js';
import { assertReadable } from './regular-files.js';

const EXAMPLES = `
Examples:
  $ collector proof 6f9b2c4e-8a51-4d8e-9f0c-2b7a1e5d3c10 --out event.tlog-proof
  $ collector events --event 6f9b2c4e-8a51-4d8e-9f0c-2b7a1e5d3c10 | jq -j .body > body.json
  $ collector check-proof event.tlog-proof --event body.json --key log.vkey

The proof (C2SP tlog-proof) holds hashes, a signed checkpoint, who sent the event and when it was received, and the
event's salt, but not its body: the second line gets that, byte for byte. It stays true however the log grows. The
checkpoint is the newest that a witness has cosigned, else the newest. An event that came just now is under one within
a second or so; for that the command waits.

Give a proof only to those who may have the body: with the salt one can try whether a guess at the body is right.

That the proof was made is noted in access.log in the data directory, as a reading of the event.

Exit codes: 6 there is no such event, 2 several organisations have one (say which by --organisation), 1 no checkpoint
covers it yet, 3 what is stored is damaged, and no proof is given out.`;

interface ProofOptions {
  readonly organisation?: string;
  readonly out?: string;
  readonly json?: true;
}

export function command(): Command {
  const proof = new Command('proof')
    .description('Write a proof that an event is in the log, to be checked without the log.')
    .argument('<event-id>', 'the id of the event')
    .option('--organisation <name>', 'whose event, when several organisations have one with this id')
    .option('--out <file>', 'write the proof there, into a new file (default: standard output)')
    .option('--json', 'print the proof and what it is of as one JSON object');
  return addConfigOptions(proof, 'proof')
    .addHelpText('after', EXAMPLES)
    .action(async (id: string, options: ProofOptions, self: Command) => {
      await prove(configOf(self, 'proof'), idFrom('event id', id), options);
    });
}

async function prove({ dataDir }: Config, eventId: string, options: ProofOptions): Promise<void> {
  const organisation =
    options.organisation === undefined ? undefined : organisationFrom(options.organisation);
  const out = options.out === undefined ? undefined : path.resolve(options.out);
  if (out !== undefined) assertRoom(out);
  assertReadable(dataDir);
  const givenOut = noteReading(dataDir, { command: 'proof', filter: { event: eventId, organisation } });
  const proved = await proveEvent(dataDir, eventId, organisation);
  if (out !== undefined) writeNew(out, proved.proof);
  if (options.json) process.stdout.write(`${JSON.stringify(described(proved), undefined, 2)}\n`);
  else if (out === undefined) process.stdout.write(proved.proof);
  givenOut.events = 1;
  givenOut.complete = true;
  if (options.json || !process.stderr.isTTY) return;
  const file = options.out === undefined ? 'FILE' : inQuotes(options.out);
  const key = inQuotes(proved.verifierKey);
  process.stderr.write(`Check it with: ${ownCommand()} check-proof ${file} --event BODY --key ${key}\n`);
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

function alreadyThere(file: string): CommandFailure {
  return usage(`--out: ${file} is there already, and is not written over`);
}

/** Before anything is read and noted. */
function assertRoom(file: string): void {
  const directory = path.dirname(file);
  if (!exists(directory)) throw usage(`--out: there is no directory ${directory}`);
  if (exists(file)) throw alreadyThere(file);
}

/** Whole or not at all, and for its owner alone: it holds the salt. */
function writeNew(file: string, text: string): void {
  try {
    createDurably(file, text);
  } catch (error) {
    const code = systemCode(error) ?? String(error);
    if (code === 'EEXIST') throw alreadyThere(file);
    throw new CommandFailure(`--out: ${file} cannot be written (${code})`, EXIT.failure, { cause: error });
  }
}

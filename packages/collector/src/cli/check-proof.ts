/** `collector check-proof`: whether a proof holds, by the files that it is given and by nothing else. */
import fs from 'node:fs';
import path from 'node:path';
import { buffer } from 'node:stream/consumers';
import {
  checkProof,
  KeyMalformed,
  NoteForged,
  NoteUnsigned,
  parseProof,
  parseVerifierKey,
  splitNotes,
  type ProofCheck,
  type ProofVerdict,
} from '@clinical-events/protocol/verify';
import { Command } from 'commander';
import { NOTE_ED25519, noteKey, verifyCosignature, type NoteKey } from '../integrity/note-signing.js';
import { CommandFailure, EXIT } from './exit-codes.js';
import { usage } from './key-arguments.js';
import { printableJson } from './printable.js';
import { describe, report, type Cosigned } from './proof-report.js';

const EXAMPLES = `
Examples:
  $ collector check-proof event.tlog-proof --event body.json --key log.vkey
  $ collector check-proof event.tlog-proof --event body.json --key first.vkey --rotations rotations/
  $ collector check-proof event.tlog-proof --event body.json --key log.vkey --witness witness.vkey
  $ collector events --event 6f9b2c4e-8a51-4d8e-9f0c-2b7a1e5d3c10 | jq -j .body |
      collector check-proof event.tlog-proof --event - --key log.vkey

Needs no data directory and no network, and takes no settings from the environment. The body has to be the event as it
was sent, byte for byte. The key is the log's verifier key, from "collector signing-key show", and must have come to
you by another way than the proof: it is what everything rests on. When the log has changed its key since you got
yours, its rotation notes lead from the one to the other. A witness that has cosigned tells by its own clock when it
knew the tree, and that the log has shown it no other history.

Exit codes: 0 the proof holds, 3 it does not, 2 a key is none or the command line is wrong, 6 a file is not there.`;

interface CheckOptions {
  readonly event: string;
  readonly key: readonly string[];
  readonly rotations?: readonly string[];
  readonly witness?: readonly string[];
  readonly json?: true;
}
const STANDARD_INPUT = '-';

export function command(): Command {
  const collect = (value: string, before: readonly string[] = []) => [...before, value];
  return new Command('check-proof')
    .description('Check the proof of an event, without the log and without a network.')
    .argument('<proof>', 'the file that "collector proof" wrote; - is standard input')
    .requiredOption(
      '--event <body>',
      '(required) the file with the exact body of the event; - is standard input',
    )
    .requiredOption(
      '--key <vkey>',
      '(required) a verifier key of the log that you trust, or a file with one; may be given again',
      collect,
    )
    .option(
      '--rotations <path>',
      'rotation notes of the log: a file or a directory; may be given again',
      collect,
    )
    .option(
      '--witness <vkey>',
      'a witness that must have cosigned the checkpoint: its verifier key, or a file; may be given again',
      collect,
    )
    .option('--json', 'print the verdict as one JSON object')
    .addHelpText('after', EXAMPLES)
    .action(async (file: string, options: CheckOptions) => {
      process.exitCode = await check(file, options);
    });
}

/** @returns the exit code. */
async function check(file: string, options: CheckOptions): Promise<number> {
  const { event, json } = options;
  if (file === STANDARD_INPUT && event === STANDARD_INPUT) {
    throw usage('the proof and the body cannot both be standard input');
  }
  const keys = options.key.flatMap((key) => keysFrom('--key', key));
  const witnesses = (options.witness ?? []).flatMap((key) => keysFrom('--witness', key)).map(witnessKey);
  const rotations = (options.rotations ?? []).flatMap(rotationsIn);
  const proof = proofText(await contentOf(file));
  const body = await contentOf(event);
  const given = { proof, body, keys, rotations };
  const verdict = await checkProof(given);
  if (verdict.valid) {
    const cosigned = cosignaturesOn(parseProof(proof).checkpoint, witnesses);
    if ('message' in cosigned) return notValid('not-cosigned', cosigned.message, json);
    process.stdout.write(
      json ? asJson(describe(verdict, body, cosigned)) : report(verdict, body, proof, cosigned),
    );
    return EXIT.ok;
  }
  const { reason, message } = verdict;
  if (reason === 'key-unusable') throw usage(`--key: ${message}`);
  if (isPrintedEvent(body)) {
    const name = event === STANDARD_INPUT ? 'standard input' : event;
    throw usage(
      `--event: ${name} is a line of "collector events", and not the body in it; get that with: jq -j .body`,
    );
  }
  const why = [message, ...(await hints(given, verdict))].join(' ');
  return notValid(reason, why, json);
}

function notValid(reason: string, message: string, json: true | undefined): number {
  process.stdout.write(json ? asJson({ valid: false, reason, message }) : `NOT VALID\n\n${message}\n`);
  return EXIT.damaged;
}

/** @returns what each of the witnesses said, or why one of them has said nothing that counts. */
function cosignaturesOn(checkpoint: string, witnesses: readonly NoteKey[]): Cosigned[] | { message: string } {
  const cosigned: Cosigned[] = [];
  for (const witness of witnesses) {
    try {
      cosigned.push({ witness, time: verifyCosignature(checkpoint, witness).time });
    } catch (error) {
      if (!(error instanceof NoteUnsigned || error instanceof NoteForged)) throw error;
      return { message: `The log's part of the proof holds, but ${witness.name}: ${error.message}.` };
    }
  }
  return cosigned;
}

function witnessKey(vkey: string): NoteKey {
  try {
    const key = noteKey(vkey);
    if (key.type === NOTE_ED25519) throw new KeyMalformed('that is the key of a log and not of a witness');
    return key;
  } catch (error) {
    if (error instanceof KeyMalformed) throw usage(`--witness: ${error.message}`);
    throw error;
  }
}

async function contentOf(file: string): Promise<Buffer> {
  if (file === STANDARD_INPUT) return buffer(process.stdin);
  return reading(file, () => fs.readFileSync(file));
}

/** @throws CommandFailure when there is no such file, or it is a directory. */
function reading<Content>(file: string, read: () => Content): Content {
  try {
    return read();
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : undefined;
    if (code === 'ENOENT') {
      throw new CommandFailure(`there is no file ${file}`, EXIT.notFound, { cause: error });
    }
    if (code === 'EISDIR') throw usage(`${file} is a directory`);
    throw error;
  }
}

/** Bytes that are no text become U+FFFD, which no proof of ours has. */
function proofText(bytes: Buffer): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
}

/** What was given is never repeated in a message: it may be another key, and a secret one. */
function keysFrom(option: string, given: string): string[] {
  const named = given.startsWith('@') ? given.slice(1) : undefined;
  if (named === undefined && !fs.existsSync(given)) {
    return [verifierKey(option, given, 'it is no file either, and')];
  }
  const file = named ?? given;
  const lines = reading(file, () => fs.readFileSync(file, 'utf8')).split('\n');
  const keys = lines.map((line) => line.trim()).filter((line) => line !== '');
  if (keys.length === 0) throw usage(`${option}: ${file} is empty`);
  return keys.map((key) => verifierKey(option, key, `${file}:`));
}

function verifierKey(option: string, text: string, where: string): string {
  try {
    parseVerifierKey(text);
    return text;
  } catch (error) {
    if (error instanceof KeyMalformed)
      throw usage(`${option}: that is no verifier key; ${where} ${error.message}`);
    throw error;
  }
}

/** In a directory, those whose names end in `.note`, by name; in a file, one after another. */
function rotationsIn(given: string): string[] {
  const isDirectory = reading(given, () => fs.statSync(given)).isDirectory();
  const files = isDirectory
    ? fs
        .readdirSync(given)
        .filter((name) => name.endsWith('.note'))
        .sort()
        .map((name) => path.join(given, name))
    : [given];
  return files.flatMap((file) => splitNotes(fs.readFileSync(file, 'utf8')));
}

/** Whether it is what `collector events` prints for an event: easily taken for the event. */
function isPrintedEvent(body: Buffer): boolean {
  let value: unknown;
  try {
    value = JSON.parse(body.toString());
  } catch {
    return false;
  }
  if (typeof value !== 'object' || value === null) return false;
  const has = (name: string, type: string) => typeof (value as Record<string, unknown>)[name] === type;
  return (
    has('body', 'string') && has('sha256', 'string') && has('sequence', 'number') && has('key_id', 'string')
  );
}

/** What may have gone wrong on the way, in whole sentences. */
async function hints(given: ProofCheck, { reason }: ProofVerdict & { valid: false }): Promise<string[]> {
  const { proof, body, rotations = [] } = given;
  if (reason === 'proof-malformed' && proof.trimStart().startsWith('{')) {
    return ['It seems to be the output of "collector proof --json": get the proof in it with jq -j .proof.'];
  }
  if (reason === 'untrusted-key' && rotations.length === 0) {
    return ['If the log has changed its key since yours, give its rotation notes by --rotations.'];
  }
  const LINE_BREAK = 0x0a;
  if (reason === 'event-differs' && body.at(-1) === LINE_BREAK) {
    const without = await checkProof({ ...given, body: body.subarray(0, -1) });
    if (without.valid)
      return ['It does hold for the body without the line break at its end, which was not sent.'];
  }
  return [];
}

function asJson(value: object): string {
  return `${printableJson(JSON.stringify(value, undefined, 2))}\n`;
}

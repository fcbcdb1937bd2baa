/** `collector check-proof`: checks a proof using only the files that it is given. */
import { hash } from 'node:crypto';
import fs from 'node:fs';
import { buffer } from 'node:stream/consumers';
import { type Door, ENTRY_KINDS } from '@clinical-events/protocol';
import {
  KeyMalformed,
  NoteForged,
  NoteUnsigned,
  type ProofCheck,
  type ProofVerdict,
  checkProof,
  decodeEnvelope,
  followRotations,
  keyIdText,
  parseCheckpoint,
  parseNote,
  parseProof,
  parseRotation,
  parseVerifierKey,
} from '@clinical-events/protocol/verify';
import { HASH_BYTES } from '../tree/merkle.js';
import { NOTE_ED25519, type NoteKey, noteKey, verifyCosignature, verifyNote } from '../tree/note-signing.js';
import { actionIn, eventsOf } from '../privacy/actions.js';
import { counted } from '../quantity.js';
import { uuidText } from '../store/text.js';
import { defineCommand } from './define.js';
import { EXIT, type ExitCode, usage } from './exit-codes.js';
import { jsonText, printable, wrappedFor } from './terminal.js';
import { keysFrom, reading, trustedFrom } from './given-keys.js';

/* How `check-proof` reports a valid proof, to programs and to people. */

type Valid = Extract<ProofVerdict, { valid: true }>;

/** A witness that cosigned the checkpoint, and the time of its own clock: seconds since 1970 UTC. */
export interface Cosigned {
  readonly witness: NoteKey;
  readonly time: number;
}

function instant(ms: number): string {
  const date = new Date(ms);
  // A log can sign any number, but dates end in the year 275760.
  return Number.isNaN(date.getTime()) ? `${ms} ms after 1970` : date.toISOString();
}

function runIdIn({ envelope }: Valid): string | undefined {
  return envelope.runId.every((byte) => byte === 0) ? undefined : uuidText(envelope.runId);
}

/** The output for programs, which rely on the names. */
export function describe(verdict: Valid, body: Buffer | undefined, cosigned: readonly Cosigned[]): object {
  const { envelope, index, checkpoint, signedBy } = verdict;
  return {
    valid: true,
    event_id: uuidText(envelope.eventId),
    run_id: runIdIn(verdict) ?? null,
    kind: envelope.kind,
    profile: envelope.profile,
    door: envelope.door,
    organisation: envelope.organisation,
    key_id: envelope.keyId,
    received_at: instant(envelope.receivedAt),
    content: verdict.content,
    sha256: body === undefined ? null : hash('sha256', body),
    sequence: index + 1,
    index,
    tree_size: checkpoint.size,
    root: Buffer.from(checkpoint.root).toString('base64'),
    origin: checkpoint.origin,
    signed_by: signedBy,
    cosigned_by: cosigned.map(({ witness, time }) => ({ key: witness.vkey, at: instant(time * 1000) })),
  };
}

const DOOR_WORDS: Readonly<Record<Door, string>> = {
  endpoint: 'an endpoint for events',
  import: 'an import, according to its sender',
  otlp: 'OTLP; the collector made the event from a span or a log record',
};

/** The output for people, who may not know how the proof works. */
export function report(
  verdict: Valid,
  body: Buffer | undefined,
  proof: string,
  cosigned: readonly Cosigned[],
): string {
  const { envelope, index, checkpoint, signedBy } = verdict;
  const run = runIdIn(verdict);
  const origin = printable(checkpoint.origin);
  const [kind, from] =
    typeof envelope.kind === 'number'
      ? [ofTheLog(envelope.kind, body), 'the collector itself']
      : [
          `${envelope.kind}, under the profile ${envelope.profile}`,
          `API key ${printable(envelope.keyId)} of organisation ${printable(envelope.organisation)}
    by            ${DOOR_WORDS[envelope.door]}`,
        ];
  const what =
    body === undefined
      ? `An event was stored as entry ${index + 1} of the log ${origin}. Its content has been erased
  since, and nothing is proved about it:`
      : `The ${body.length} bytes given, exactly as they are (SHA-256 ${hash('sha256', body)}),
  are entry ${index + 1} of the log ${origin}:`;
  return `VALID

Proved:
  ${what}
    event id      ${uuidText(envelope.eventId)}
    run           ${run ?? 'none'}
    kind          ${kind}
    received at   ${instant(envelope.receivedAt)}, by the collector's clock
    from          ${from}
  The log had ${counted(checkpoint.size, 'entry', 'entries')} when it signed this tree, with the key
    ${printable(signedBy)}
${cosigned.map(witnessed).join('')}
Not proved:
  That the event is true, who used the API key, and that the collector's clock was right.
  That the log shows this tree to everyone: compare it with checkpoints kept elsewhere.
${unchecked(proof, [signedBy, ...cosigned.map(({ witness }) => witness.vkey)])}`;
}

/** Describes an entry that the log wrote itself. */
function ofTheLog(kind: number, body: Buffer | undefined): string {
  const says = kind === ENTRY_KINDS.lifecycleAction && body !== undefined ? actionIn(body) : undefined;
  if (says?.does !== 'erase') return `an entry of the log itself (${kind})`;
  const erased = counted(eventsOf(says.keys).size, 'event');
  return `an action: ${says.action}
    says          ${erased} erased, with the reason ${says.reason}`;
}

function witnessed({ witness, time }: Cosigned): string {
  return `  The witness ${printable(witness.name)} had seen this tree, and no other history of the log, at
    ${instant(time * 1000)} by its own clock.
`;
}

/** Lists unchecked signatures, so that their names do not look as if they vouched for anything. */
function unchecked(proof: string, checked: readonly string[]): string {
  const keys = checked.map(parseVerifierKey);
  const others = parseNote(parseProof(proof).checkpoint)
    .signatures.filter(({ name, keyId }) => !keys.some((key) => key.name === name && key.keyId === keyId))
    .map(({ name, keyId }) => `${printable(name)} (${keyIdText(keyId)})`);
  return others.length === 0
    ? ''
    : `  The validity of the other signatures on the checkpoint: ${others.join(', ')}.\n`;
}

const EXAMPLES = `  $ collector check-proof event.tlog-proof --event body.json --key log.vkey
  $ collector check-proof event.tlog-proof --event body.json --key first.vkey --key rotations/
  $ collector check-proof event.tlog-proof --event body.json --key log.vkey --witness witness.vkey
  $ collector events --event 6f9b2c4e-8a51-4d8e-9f0c-2b7a1e5d3c10 | jq -j .body |
      collector check-proof event.tlog-proof --event - --key log.vkey

It needs no data directory and no network, and reads no settings from the environment. The body must be the
event as sent, byte for byte. --key is the log's verifier key, from "collector signing-key show"; obtain it
separately from the proof, because everything depends on it. If the log has changed its key since you got
yours, its rotation notes link the two. A witness that cosigned attests, by its own clock, when it saw the
tree and that the log showed it no other history.

Exit codes: 0 the proof holds, 3 it does not, 2 a key is malformed or the command line is wrong, 6 a file is
missing.`;

interface CheckOptions {
  readonly event?: string;
  readonly key: readonly string[];
  readonly witness?: readonly string[];
  readonly json?: true;
}
const STANDARD_INPUT = '-';

export const command = defineCommand<CheckOptions>({
  name: 'check-proof',
  description: 'Check the proof of an event, without the log and without a network.',
  arguments: { '<proof>': 'file written by "collector proof"; - for standard input' },
  options: {
    '--event <body>':
      'file with the exact body of the event, or - for standard input; omit it for an erased event',
    '--key <vkey>': {
      help: '(required) verifier key of the log, a file with keys, or a file or directory of rotation notes; repeatable',
      ...{ isRequired: true, isRepeatable: true },
    },
    '--witness <vkey>': {
      help: 'a witness that must have cosigned the checkpoint: its verifier key, or a file; repeatable',
      isRepeatable: true,
    },
    '--json': 'print the verdict as one JSON object',
  },
  examples: EXAMPLES,
  run: ({ options }, file = '') => check(file, options),
});

async function check(file: string, options: CheckOptions): Promise<ExitCode> {
  const { event, json } = options;
  if (file === STANDARD_INPUT && event === STANDARD_INPUT) {
    throw usage('the proof and the body cannot both be standard input');
  }
  const { keys, rotations } = trustedFrom(options.key, wellFormed);
  if (keys.length === 0) throw usage('--key: give a verifier key of the log, besides rotation notes');
  const witnesses = (options.witness ?? [])
    .flatMap((key) => keysFrom('--witness', key, wellFormed))
    .map(witnessKey);
  const content = await contentOf(file);
  const proof = proofText(content);
  const body = event === undefined ? undefined : await contentOf(event);
  if (body === undefined && !isOfErased(proof))
    throw usage('--event: give the file with the exact body of the event');
  const given = { proof, body, keys, rotations };
  const verdict = await checkProof(given);
  if (verdict.valid) {
    const cosigned = cosignaturesOn(parseProof(proof).checkpoint, witnesses);
    if ('message' in cosigned) return notValid('not-cosigned', cosigned.message, json);
    process.stdout.write(
      json ? jsonText(describe(verdict, body, cosigned)) : report(verdict, body, proof, cosigned),
    );
    return EXIT.ok;
  }
  const { reason, message } = verdict;
  if (reason === 'key-unusable') throw usage(`--key: ${message}`);
  if (body !== undefined && isPrintedEvent(body)) {
    const name = event === STANDARD_INPUT ? 'standard input' : event;
    throw usage(
      `--event: ${name} is a line of "collector events", not the body in it; extract it with: jq -j .body`,
    );
  }
  const said = reason === 'untrusted-key' ? untrusted(given) : message;
  const why = [said, ...(await hints(given, verdict))].join(' ');
  return notValid(reason, why, json);
}

function notValid(reason: string, message: string, json: true | undefined): ExitCode {
  const text = () => `NOT VALID\n\n${wrappedFor(process.stdout, message)}\n`;
  process.stdout.write(json ? jsonText({ valid: false, reason, message }) : text());
  return EXIT.damaged;
}

/** @returns the cosignature of each witness, or why one of them is missing or invalid. */
function cosignaturesOn(checkpoint: string, witnesses: readonly NoteKey[]): Cosigned[] | { message: string } {
  const cosigned: Cosigned[] = [];
  for (const witness of witnesses) {
    try {
      cosigned.push({ witness, time: verifyCosignature(checkpoint, witness).time });
    } catch (error) {
      if (!(error instanceof NoteUnsigned || error instanceof NoteForged)) throw error;
      return { message: `The log's part of the proof is valid, but ${witness.name}: ${error.message}.` };
    }
  }
  return cosigned;
}

/** Checks the form only; the check of the proof reports a key that cannot be used. @throws KeyMalformed */
function wellFormed(vkey: string): string {
  parseVerifierKey(vkey);
  return vkey;
}

function witnessKey(vkey: string): NoteKey {
  try {
    const key = noteKey(vkey);
    if (key.type === NOTE_ED25519) throw new KeyMalformed('this is the key of a log, not of a witness');
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

/** Whether the body was erased before the proof was made: such a proof has no salt. */
function isOfErased(proof: string): boolean {
  try {
    const { extra } = parseProof(proof);
    return extra.length - decodeEnvelope(extra).size === HASH_BYTES;
  } catch {
    // The check reports what is wrong with the proof.
    return true;
  }
}

/** Invalid UTF-8 becomes U+FFFD, which no proof contains. */
function proofText(bytes: Buffer): string {
  return new TextDecoder('utf-8', { ignoreBOM: true }).decode(bytes);
}

/** Whether it is a line printed by `collector events`, which is easily mistaken for the event. */
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

/** Lists keys by id. */
function idsOf(keys: readonly { readonly keyId: number }[]): string {
  const ids = [...new Set(keys.map(({ keyId }) => keyIdText(keyId)))];
  const most = 8;
  const listed = ids.slice(0, most).join(', ') + (ids.length > most ? ' and more' : '');
  return `${ids.length === 1 ? 'key' : 'keys'} ${listed}`;
}

/** The message for a checkpoint that no trusted key has signed. */
function untrusted({ proof, keys }: ProofCheck): string {
  const { text, signatures } = parseNote(parseProof(proof).checkpoint);
  const { origin } = parseCheckpoint(text);
  const ofLog = signatures.filter(({ name }) => name === origin);
  const signers = idsOf(ofLog.length > 0 ? ofLog : signatures);
  const given = idsOf(keys.map(parseVerifierKey)).replace(/^keys? /, '');
  return `No trusted key has signed the checkpoint. It is signed by ${signers}; you gave ${given}.`;
}

/** The key that signed the checkpoint, if rotation notes lead from it to a given key. */
async function earlierSigner({ proof, keys, rotations = [] }: ProofCheck): Promise<string | undefined> {
  const note = parseProof(proof).checkpoint;
  const candidates = new Set(rotations.map((each) => parseRotation(parseNote(each).text).oldKey));
  for (const vkey of candidates) {
    try {
      const reached = await followRotations([vkey], rotations);
      if (!keys.some((key) => reached.has(key))) continue;
      verifyNote(note, [noteKey(vkey)]);
      return keyIdText(parseVerifierKey(vkey).keyId);
    } catch {
      // An invalid note proves nothing.
    }
  }
  return undefined;
}

/** Likely causes of an invalid proof, as whole sentences. */
async function hints(given: ProofCheck, { reason }: ProofVerdict & { valid: false }): Promise<string[]> {
  const { proof, body, rotations = [] } = given;
  if (reason === 'proof-malformed' && proof.trimStart().startsWith('{')) {
    return ['This looks like the output of "collector proof --json": extract the proof with jq -j .proof.'];
  }
  if (reason === 'untrusted-key') {
    if (rotations.length === 0) {
      return ['If the log has changed its key since you got yours, give its rotation notes with --key too.'];
    }
    const earlier = await earlierSigner(given);
    return earlier === undefined
      ? []
      : [
          `According to the rotation notes, ${earlier} is older than the key you gave: check with ` +
            `${earlier}, obtained separately from the proof.`,
        ];
  }
  const LINE_BREAK = 0x0a;
  if (reason === 'event-differs' && body?.at(-1) === LINE_BREAK) {
    const without = await checkProof({ ...given, body: body.subarray(0, -1) });
    if (without.valid)
      return ['It holds for the body without the line break at its end, which was not sent.'];
  }
  return [];
}

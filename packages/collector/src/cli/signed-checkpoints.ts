/** Which of the notes that `collector verify` was given are checkpoints of this log, and by what keys that is known. */
import fs from 'node:fs';
import {
  KeyMalformed,
  parseCheckpoint,
  parseNote,
  parseRotation,
  type Checkpoint,
} from '@clinical-events/protocol/verify';
import { keyChain } from '../integrity/key-chain.js';
import { NOTE_ED25519, noteKey, verifyNote, type NoteKey } from '../integrity/note-signing.js';
import type { SignedRoot } from '../integrity/rooted-tree.js';
import { hasHistory, originKeyPath, readHistory, rotationPaths } from '../signing/key-history.js';
import { SigningKeyFault } from '../signing/signing-key-fault.js';
import { counted } from '../store/embedded/inspection.js';
import type { GivenNote } from './given-checkpoints.js';
import type { VerifyFindings } from './verify-findings.js';

/** A checkpoint of this log. */
export interface CheckedRoot extends SignedRoot {
  readonly origin: string;
  /** Where it was found first. */
  readonly source: string;
  readonly file: string;
  /** Whether it, or another one that says the same, was kept outside of the data directory. */
  outside: boolean;
}

/** The keys by which checkpoints are believed. */
export interface LogKeys {
  readonly from: 'data-dir' | 'given';
  readonly keys: readonly NoteKey[];
  /** Keys of the log from before those that were given. */
  readonly earlier: readonly NoteKey[];
}

/** A verifier key of a log. @throws KeyMalformed. */
export function logKey(vkey: string): NoteKey {
  const key = noteKey(vkey);
  if (key.type !== NOTE_ED25519)
    throw new KeyMalformed('it is the key of a witness, and no log signs with it');
  return key;
}

/**
 * The keys that the data directory tells, or when any are given, those and the ones that they have handed over to.
 * @param given verifier keys.
 */
export function keysOf(dataDir: string, given: readonly string[], findings: VerifyFindings): LogKeys {
  const told = toldKeys(dataDir, findings);
  if (given.length === 0) return { from: 'data-dir', keys: told, earlier: [] };
  const rotations = rotationPaths(dataDir).map((file) => fs.readFileSync(file, 'utf8'));
  const keys = given.flatMap((vkey) => followed(vkey, rotations));
  const first = told.findIndex(({ vkey }) => given.includes(vkey));
  return { from: 'given', keys, earlier: told.slice(0, Math.max(0, first)) };
}

/** As far as each follows from the one before. */
function toldKeys(dataDir: string, findings: VerifyFindings): readonly NoteKey[] {
  try {
    return readHistory(dataDir).keys;
  } catch (error) {
    if (!(error instanceof SigningKeyFault)) throw error;
    if (error.reason === 'no-log') return [];
    const file = 'checkpoints/origin.vkey';
    if (!hasHistory(dataDir)) {
      const message = `${file} is missing, the verifier key that the log began with: put it back, or give it by --key`;
      findings.add({ kind: 'checkpoint_missing', file, message });
      return [];
    }
    findings.add({ kind: 'checkpoint_invalid', file, message: error.message });
    const rotations = rotationPaths(dataDir).map((file) => fs.readFileSync(file, 'utf8'));
    return longestChain(fs.readFileSync(originKeyPath(dataDir), 'utf8').trimEnd(), rotations);
  }
}

function longestChain(first: string, rotations: readonly string[]): readonly NoteKey[] {
  for (let count = rotations.length; count >= 0; count--) {
    try {
      return keyChain(first, rotations.slice(0, count)).keys;
    } catch {
      // One note less.
    }
  }
  return [];
}

/** The key, and those that it handed over to. */
function followed(vkey: string, rotations: readonly string[]): readonly NoteKey[] {
  const from = rotations.findIndex((note) => {
    try {
      return parseRotation(parseNote(note).text).oldKey === vkey;
    } catch {
      return false;
    }
  });
  return from < 0 ? [logKey(vkey)] : longestChain(vkey, rotations.slice(from));
}

export class SignedCheckpoints {
  /** Each size and root once. */
  readonly roots: CheckedRoot[] = [];
  /** Notes that are checkpoints of this log. */
  checked = 0;
  /** The largest of the data directory. */
  newest: CheckedRoot | undefined;
  readonly #byContent = new Map<string, CheckedRoot>();
  /** Notes that could not be checked, as there is no key. */
  #unchecked = 0;
  /** Where those are that only an earlier key has signed. */
  readonly #earlier: string[] = [];

  constructor(
    private readonly keys: LogKeys,
    private readonly findings: VerifyFindings,
  ) {}

  take(given: GivenNote): void {
    const { note, source, file, outside } = given;
    if (this.keys.keys.length === 0) {
      this.#unchecked++;
      return;
    }
    let judged: { checkpoint: Checkpoint; earlier: boolean };
    try {
      judged = this.#judge(given);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      const cut = isMalformed(note) ? given.cutBecause?.() : undefined;
      const message =
        cut === undefined
          ? `${source} is not a checkpoint of this log: ${reason}`
          : `${source} is cut short, and passed over: ${cut}`;
      this.findings.add({ kind: cut === undefined ? 'checkpoint_invalid' : 'note', file, message });
      return;
    }
    const { origin, size, root: bytes } = judged.checkpoint;
    const root = Buffer.from(bytes);
    this.checked++;
    if (judged.earlier) this.#earlier.push(source);
    const content = `${size} ${root.toString('base64')}`;
    const known = this.#byContent.get(content);
    if (known !== undefined) {
      known.outside ||= outside;
      return;
    }
    const checked = { size, root, origin, source, file, outside };
    this.#byContent.set(content, checked);
    this.roots.push(checked);
    if (!outside && size >= (this.newest?.size ?? 0)) this.newest = checked;
  }

  /** To be called when all are taken. */
  finish(): void {
    if (this.#unchecked > 0) {
      const message = `${counted(this.#unchecked, 'checkpoint')} cannot be checked: there is no key of the log`;
      this.findings.add({ kind: 'checkpoint_invalid', message });
    }
    const [first] = this.#earlier;
    if (first === undefined) return;
    const { newest } = this;
    if (newest !== undefined && this.#earlier.includes(newest.source)) {
      const message =
        `${newest.source} is signed by a key from before those given, and by none of them; ` +
        "give the log's first key, or wait for the next checkpoint";
      this.findings.add({ kind: 'checkpoint_invalid', file: newest.file, message });
    }
    const others = this.#earlier.length === 1 ? '' : ` and ${this.#earlier.length - 1} more`;
    const message = `${first}${others}: signed by keys from before those given, and held against the log all the same`;
    this.findings.add({ kind: 'note', message });
  }

  /** @throws when the note is no checkpoint of this log, in words that follow a colon. */
  #judge({ note, size }: GivenNote): { checkpoint: Checkpoint; earlier: boolean } {
    const checkpoint = parseCheckpoint(parseNote(note).text);
    const { keys, earlier } = this.keys;
    if (!keys.some(({ name }) => name === checkpoint.origin)) {
      throw new Error(`it is of the log ${checkpoint.origin}`);
    }
    if (size !== undefined && size !== checkpoint.size) {
      throw new Error(`it speaks of ${checkpoint.size} events, and its name of ${size}`);
    }
    const { signedBy } = verifyNote(note, [...keys, ...earlier]);
    const believed = signedBy.filter(({ name }) => name === checkpoint.origin);
    if (believed.length === 0) throw new Error('the key that signed it is of another log');
    return { checkpoint, earlier: !believed.some((key) => keys.includes(key)) };
  }
}

function isMalformed(note: string): boolean {
  try {
    parseCheckpoint(parseNote(note).text);
    return !note.endsWith('\n');
  } catch {
    return true;
  }
}

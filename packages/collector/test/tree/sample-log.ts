/** A log with a key, whose checkpoints go to sinks. */
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { formatCheckpoint } from '@clinical-events/protocol/verify';
import { onTestFinished } from 'vitest';
import type { HashSource } from '../../src/tree/merkle.js';
import { noteKey, verifierKeyOf, type NoteKey } from '../../src/tree/note-signing.js';
import { signNote } from './sign-note.js';
import { checkpointOf, type LogView } from '../../src/tree/log-view.js';
import { SinkHelper } from '../../src/tree/program-sink.js';
import type { Attempt, Published } from '../../src/tree/sink.js';
import { leafOf, mth } from '../../../protocol/test/verify/rfc-tree.js';
import { leaves, levelsOf } from '../tree/rfc-tree.js';

/** Compiled, because a process does not start from the sources as Vitest runs them. */
const COMPILED = new URL('../../dist/tree/', import.meta.url);

export function scratchHelper(answerMs?: number): SinkHelper {
  const helper = new SinkHelper(COMPILED, answerMs);
  onTestFinished(() => helper.kill());
  return helper;
}

export const ORIGIN = 'log.example/ward-7';

export interface SampleKey {
  readonly privateKey: KeyObject;
  readonly key: NoteKey;
}

export function newKey(origin = ORIGIN): SampleKey {
  const { privateKey, publicKey } = generateKeyPairSync('ed25519');
  return { privateKey, key: noteKey(verifierKeyOf(origin, publicKey)) };
}

/** How many leaves a sample log has. */
const LEAVES = 300;

export class SampleLog implements LogView {
  readonly tree: LogView['tree'];
  /** How many entries the stored head covers. */
  signed = 0;
  readonly logKeys = (): readonly NoteKey[] => [this.signer.key];
  /** The size of the ledger: that of the newest checkpoint, unless it is set. */
  held = 0;
  readonly entries = (): number => this.held;

  constructor(
    readonly signer: SampleKey = newKey(),
    private readonly stored: readonly Buffer[] = leaves(LEAVES),
    private readonly origin = ORIGIN,
  ) {
    const levels: HashSource = levelsOf(stored);
    this.tree = {
      hashes: (...range) => levels.hashes(...range),
      head: () => Promise.resolve(this.note(this.signed)),
    };
  }

  /** The log with the same key whose leaves are others from this index on. */
  forkedAt(index: number): SampleLog {
    const other = this.stored.map((leaf, i) => (i < index ? leaf : leafOf(Buffer.from(`other ${i}`))));
    return new SampleLog(this.signer, other, this.origin);
  }

  /** The checkpoint over the first `size` leaves. */
  note(size: number, ...others: readonly SampleKey[]): string {
    const text = formatCheckpoint({ origin: this.origin, size, root: mth(this.stored.slice(0, size)) });
    const signers = [this.signer, ...others].map(({ privateKey }) => ({ name: this.origin, privateKey }));
    return signNote(text, signers);
  }

  published(size: number): Published {
    const note = this.note(size);
    return { note, checkpoint: checkpointOf(note) };
  }
}

/** A try of a sink that has accepted nothing before. */
export function attempt(more: Partial<Attempt> = {}): Attempt {
  const { signal } = new AbortController();
  return { signal, delivered: undefined, lost: () => undefined, ...more };
}

export function scratchDirectory(): string {
  const directory = mkdtempSync(path.join(tmpdir(), 'collector-sinks-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** The error with which a promise is rejected. */
export async function rejection(promise: Promise<unknown>): Promise<Error> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof Error) return error;
  }
  throw new Error('it was not rejected with an error');
}

/** A log with a key, for sinks to be given its checkpoints. */
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { formatCheckpoint } from '@clinical-events/protocol/verify';
import { onTestFinished } from 'vitest';
import type { HashSource } from '../../src/tree/merkle.js';
import { noteKey, signNote, verifierKeyOf, type NoteKey } from '../../src/tree/note-signing.js';
import { checkpointOf, type LogView, rootIn } from '../../src/tree/sink-queue.js';
import type { Attempt, Published } from '../../src/tree/sink.js';
import { leafOf, mth } from '../../../protocol/test/verify/rfc-tree.js';
import { leaves, levelsOf } from '../tree/rfc-tree.js';

/** Compiled, because a process does not start from the sources as Vitest runs them. */
export const SINK_PROCESS = new URL('../../dist/tree/sink-process.js', import.meta.url);

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
  readonly tiles: HashSource;
  readonly rootAt = (size: number): Promise<Buffer> => rootIn(this.tiles, size);
  readonly logKeys = (): readonly NoteKey[] => [this.signer.key];
  /** What the ledger is to hold that has come no further than the newest checkpoint, unless it is set. */
  held = 0;
  readonly entries = (): number => this.held;

  constructor(
    readonly signer: SampleKey = newKey(),
    private readonly stored: readonly Buffer[] = leaves(LEAVES),
    private readonly origin = ORIGIN,
  ) {
    this.tiles = levelsOf(stored);
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

/** A try without a time limit, in a ledger that has come no further than these notes. */
export function attemptFor(notes: readonly Published[]): Attempt {
  const newest = notes.at(-1);
  if (newest === undefined) throw new Error('nothing to deliver');
  const { signal } = new AbortController();
  return {
    newest: newest.checkpoint,
    signal,
    progress: () => undefined,
    alsoHolds: () => undefined,
    lost: () => undefined,
  };
}

export function scratchDirectory(): string {
  const directory = mkdtempSync(path.join(tmpdir(), 'collector-sinks-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

/** What a promise is rejected with. */
export async function rejection(promise: Promise<unknown>): Promise<Error> {
  try {
    await promise;
  } catch (error) {
    if (error instanceof Error) return error;
  }
  throw new Error('it was not rejected with an error');
}

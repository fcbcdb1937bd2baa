import * as fs from 'node:fs';
import { wordAt } from './sorted-run-format.js';
import path from 'node:path';
import { receiveMessageOnPort, workerData, type MessagePort } from 'node:worker_threads';
import { Merge, nextMerge, RunWriter, type Files } from './sorted-run-writer.js';
import { RecentTable, WORDS_PER_ENTRY, Run, type RunImage } from './sorted-run.js';
import type { FingerprintKey } from './sorted-run-format.js';

/*
 * The thread that writes runs: frozen tables first, merges in between. It deletes a file only after the index
 * has confirmed that it no longer opens it, and reports a run only when it is durable under its final name.
 */

export interface RunThreadData {
  readonly port: MessagePort;
  /** Number of answers posted, so that the index can wait for one without its event loop. */
  readonly answers: SharedArrayBuffer;
  readonly directory: string;
  readonly key: FingerprintKey;
  readonly filterMemory: number;
  /** The chain at opening, in the order of the log. */
  readonly images: readonly RunImage[];
  /** The module with the calls of `Files`: `node:fs`, or a failing one in tests. */
  readonly files: string;
}

export type RunRequest =
  | { kind: 'write'; table: SharedArrayBuffer; count: number; from: number; to: number }
  /** The index no longer opens these files. */
  | { kind: 'delete'; names: readonly string[] }
  | { kind: 'close' };

export type RunAnswer =
  /** A run was published. It replaces these runs or, if the list is empty, the last table sent. */
  | { kind: 'published'; image: RunImage; replaces: readonly string[] }
  /**
   * `code` is the system's code (ENOSPC), or `corrupt` with the run; an Error would lose both between
   * threads.
   */
  | { kind: 'failed'; what: 'write' | 'merge'; message: string; code: string; run: string | undefined };

/** Entries merged between two checks of the port: a full table waits a few milliseconds for a merge. */
const MERGE_STEP = 16_384;

class RunThread {
  readonly #signal: Int32Array;
  readonly #requests: RunRequest[] = [];
  readonly #runs: Run[];
  #merge: Merge | null = null;
  /** False after a failed merge until a table is written, because the disk is full or broken. */
  #mergeable = true;
  #sorted: Uint32Array | null = null;

  constructor(
    private readonly data: RunThreadData,
    private readonly files: Files,
  ) {
    this.#signal = new Int32Array(data.answers);
    this.#runs = data.images.map((image) => Run.share(data.directory, image));
    data.port.on('message', (request: RunRequest) => {
      this.#requests.push(request);
      this.#work();
    });
    this.#work();
  }

  #work(): void {
    for (;;) {
      for (;;) {
        const received = receiveMessageOnPort(this.data.port) as { message: RunRequest } | undefined;
        if (received === undefined) break;
        this.#requests.push(received.message);
      }
      const request = this.#requests.shift();
      if (request?.kind === 'close') {
        this.#merge?.discard();
        this.data.port.close();
        return;
      }
      if (request?.kind === 'write') this.#write(request);
      else if (request?.kind === 'delete') this.#delete(request.names);
      else if (!this.#mergeStep()) return;
    }
  }

  #write({ table, count, from, to }: RunRequest & { kind: 'write' }): void {
    let writer: RunWriter | null = null;
    try {
      const frozen = new RecentTable(table.byteLength / (WORDS_PER_ENTRY * 4), table);
      if (this.#sorted === null) this.#sorted = new Uint32Array(frozen.limit * WORDS_PER_ENTRY);
      const sorted = this.#sorted;
      frozen.sorted(sorted);
      const { k0, k1 } = this.data.key;
      writer = new RunWriter(this.files, this.data.directory, { level: 0, k0, k1, count, from, to });
      for (let at = 0; at < count * WORDS_PER_ENTRY; at += WORDS_PER_ENTRY) {
        const [low, high] = [wordAt(sorted, at + 2), wordAt(sorted, at + 3)];
        writer.add(wordAt(sorted, at), wordAt(sorted, at + 1), low, high);
      }
      writer.finish();
      this.#publish(writer.name, []);
      this.#mergeable = true;
    } catch (error) {
      writer?.discard();
      this.#fail('write', error);
    }
  }

  /** Continues the current merge or begins the next one; false if there is none. */
  #mergeStep(): boolean {
    try {
      if (this.#merge === null) {
        const inputs = this.#mergeable ? nextMerge(this.#runs) : null;
        if (inputs === null) return false;
        this.#merge = new Merge(this.files, this.data.directory, inputs);
      }
      if (this.#merge.step(MERGE_STEP)) {
        this.#publish(this.#merge.name, this.#merge.inputs);
        this.#merge = null;
      }
    } catch (error) {
      this.#merge?.discard();
      this.#merge = null;
      this.#mergeable = false;
      this.#fail('merge', error);
    }
    return true;
  }

  #publish(name: string, replaces: readonly Run[]): void {
    const run = Run.open(this.data.directory, name, this.data.filterMemory);
    const at = replaces[0] ? this.#runs.indexOf(replaces[0]) : this.#runs.length;
    this.#runs.splice(at, replaces.length, run);
    for (const replaced of replaces) replaced.close();
    // Transferred, not shared: this thread does not use it, and both garbage collectors would have to release
    // it.
    const transfer = run.image.filter ? [run.image.filter] : [];
    this.#answer(
      { kind: 'published', image: run.image, replaces: replaces.map((old) => old.image.name) },
      transfer,
    );
  }

  #delete(names: readonly string[]): void {
    for (const name of names) {
      try {
        this.files.unlinkSync(path.join(this.data.directory, name));
      } catch {
        // The file costs space until the next start removes it; the run that replaced it reaches further.
      }
    }
  }

  #fail(what: 'write' | 'merge', error: unknown): void {
    const { message, code, run } = error as Error & { code?: string; run?: string };
    this.#answer({ kind: 'failed', what, message, code: code ?? '', run });
  }

  #answer(answer: RunAnswer, transfer: ArrayBuffer[] = []): void {
    this.data.port.postMessage(answer, transfer);
    Atomics.add(this.#signal, 0, 1);
    Atomics.notify(this.#signal, 0);
  }
}

const data = workerData as RunThreadData;
const files = data.files === 'node:fs' ? fs : ((await import(data.files)) as Files);
new RunThread(data, files);

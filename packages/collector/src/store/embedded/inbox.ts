/** Requests of commands to the collector of a data directory: durable files in `lifecycle/inbox`. */
import fs from 'node:fs';
import path from 'node:path';
import { exists, type Files, makeFile, nodeFiles } from '../../files.js';
import { systemCode } from '../../system-code.js';
import { KEPT_ANSWER_MS, type Requests } from '../contract/requests.js';

/**
 * The name of a request. It is renamed when it is begun and removed when it is withdrawn; only one of the two
 * can succeed.
 */
const REQUEST = /^([0-9a-f-]{36})\.(?:request|begun)\.json$/;
const ASKED = /\.compact$/;

function inboxOf(dataDir: string): string {
  return path.join(dataDir, 'lifecycle', 'inbox');
}

export class Inbox implements Requests {
  readonly #directory: string;

  constructor(
    dataDirectory: string,
    private readonly files: Files = nodeFiles,
  ) {
    this.#directory = inboxOf(dataDirectory);
  }

  async lay(id: string, request: string): Promise<void> {
    this.files.makeDirectory(this.#directory);
    await this.files.replace(this.#fileOf(id, 'request'), Buffer.from(request));
  }

  waiting(): Promise<{ id: string; request: string }[]> {
    if (!exists(this.#directory)) return Promise.resolve([]);
    const names = fs.readdirSync(this.#directory).sort();
    for (const name of names) this.#clear(name);
    const found = names.flatMap((name) => {
      const id = REQUEST.exec(name)?.[1];
      const file = path.join(this.#directory, name);
      const request = id === undefined ? undefined : ifThere(() => fs.readFileSync(file, 'utf8'));
      return id === undefined || request === undefined ? [] : [{ id, request }];
    });
    return Promise.resolve(found);
  }

  begin(id: string): Promise<boolean> {
    const begun = this.#fileOf(id, 'begun');
    ifThere(() => this.files.rename(this.#fileOf(id, 'request'), begun));
    return Promise.resolve(exists(begun));
  }

  withdraw(id: string): Promise<boolean> {
    const isWithdrawn = ifThere(() => {
      fs.unlinkSync(this.#fileOf(id, 'request'));
      // Without a flush it could return after a power failure.
      this.files.syncDirectory(this.#directory);
      return true;
    });
    return Promise.resolve(isWithdrawn ?? false);
  }

  take(id: string): Promise<void> {
    for (const state of ['request', 'begun'] as const) this.files.remove(this.#fileOf(id, state));
    return Promise.resolve();
  }

  async answer(id: string, answer: string): Promise<void> {
    if (exists(this.#directory)) await this.files.replace(this.#fileOf(id, 'answer'), Buffer.from(answer));
  }

  answerTo(id: string): Promise<string | undefined> {
    const file = this.#fileOf(id, 'answer');
    return Promise.resolve(exists(file) ? fs.readFileSync(file, 'utf8') : undefined);
  }

  /** Removes an answer that was kept long enough. */
  #clear(name: string): void {
    if (!name.endsWith('.answer.json')) return;
    const file = path.join(this.#directory, name);
    const { mtimeMs = Date.now() } = fs.statSync(file, { throwIfNoEntry: false }) ?? {};
    if (Date.now() - mtimeMs > KEPT_ANSWER_MS) fs.rmSync(file, { force: true });
  }

  #fileOf(id: string, state: 'request' | 'begun' | 'answer'): string {
    return path.join(this.#directory, `${id}.${state}.json`);
  }
}

/** @returns undefined if the file does not exist: another process has removed or renamed it. */
function ifThere<Result>(act: () => Result): Result | undefined {
  try {
    return act();
  } catch (error) {
    if (systemCode(error) !== 'ENOENT') throw error;
    return undefined;
  }
}

/**
 * Asks the collector of a data directory to compact it immediately.
 * @param action the id of the asking action.
 */
export function askForCompaction(dataDir: string, action: string): void {
  nodeFiles.makeDirectory(inboxOf(dataDir));
  makeFile(askedFile(dataDir, action));
}

/** Whether a compaction that an action requested is still pending. */
export function isCompactionAsked(dataDir: string, action: string): boolean {
  return exists(askedFile(dataDir, action));
}

/** The files that ask for a compaction; they are removed when it is done. */
export function askedIn(dataDir: string): string[] {
  const inbox = inboxOf(dataDir);
  if (!exists(inbox)) return [];
  return nodeFiles.list(inbox).flatMap((name) => (ASKED.test(name) ? [path.join(inbox, name)] : []));
}

function askedFile(dataDir: string, action: string): string {
  return path.join(inboxOf(dataDir), `${action}.compact`);
}

/** What commands ask of the log of a data directory: files in `lifecycle/inbox`, on stable storage when they are there. */
import fs from 'node:fs';
import path from 'node:path';
import { exists, nodeFiles } from '../../files.js';
import { KEPT_ANSWER_MS, type Requests } from '../contract/requests.js';

const REQUEST = /^([0-9a-f-]{36})\.request\.json$/;

export class Inbox implements Requests {
  readonly #directory: string;

  constructor(dataDirectory: string) {
    this.#directory = path.join(dataDirectory, 'lifecycle', 'inbox');
  }

  async lay(id: string, request: string): Promise<void> {
    nodeFiles.makeDirectory(this.#directory);
    await nodeFiles.replace(this.#requestOf(id), Buffer.from(request));
  }

  waiting(): Promise<{ id: string; request: string }[]> {
    if (!exists(this.#directory)) return Promise.resolve([]);
    const names = fs.readdirSync(this.#directory).sort();
    for (const name of names) this.#clear(name);
    const ids = names.flatMap((name) => REQUEST.exec(name)?.[1] ?? []);
    return Promise.resolve(ids.map((id) => ({ id, request: fs.readFileSync(this.#requestOf(id), 'utf8') })));
  }

  take(id: string): Promise<void> {
    fs.rmSync(this.#requestOf(id), { force: true });
    return Promise.resolve();
  }

  async answer(id: string, answer: string): Promise<void> {
    if (exists(this.#directory)) await nodeFiles.replace(this.#answerOf(id), Buffer.from(answer));
  }

  answerTo(id: string): Promise<string | undefined> {
    const file = this.#answerOf(id);
    return Promise.resolve(exists(file) ? fs.readFileSync(file, 'utf8') : undefined);
  }

  /** Of an answer that who asked had the time to take. */
  #clear(name: string): void {
    if (!name.endsWith('.answer.json')) return;
    const file = path.join(this.#directory, name);
    const { mtimeMs = Date.now() } = fs.statSync(file, { throwIfNoEntry: false }) ?? {};
    if (Date.now() - mtimeMs > KEPT_ANSWER_MS) fs.rmSync(file, { force: true });
  }

  #requestOf(id: string): string {
    return path.join(this.#directory, `${id}.request.json`);
  }

  #answerOf(id: string): string {
    return path.join(this.#directory, `${id}.answer.json`);
  }
}

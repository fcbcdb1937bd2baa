/** A log in PostgreSQL for each test, on one server for all tests of a file, and the commands that work on it. */
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, expect } from 'vitest';
import {
  keyFrom,
  outcomeEvent,
  postEvent,
  run,
  type Running,
  start,
  temporaryDirectory,
} from '../../../collector/test/running/collector-process.js';
import { PostgresServer, signed } from '../running/postgres-server.js';

/** Runs a command, which must end with 0 and print no error. @returns its output. */
export async function succeeds(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await run(args);
  const expected = /collector: (?!warning|to see what it would erase|no room|waiting|\d+ events? by)/;
  expect(stderr, args.join(' ')).not.toMatch(expected);
  expect(code, args.join(' ')).toBe(0);
  return stdout;
}

export class SharedLog {
  /** Filled in before the first test. */
  server!: PostgresServer;
  /** Filled in before each test: the value of `--store`. */
  store = '';
  schema = '';
  #directory = '';

  /** To be called when a test begins. */
  async make(schema: string): Promise<void> {
    this.#directory = temporaryDirectory();
    this.schema = schema;
    this.store = `${this.server.url()}?schema=${schema}`;
    await succeeds('store', 'migrate', '--store', this.store, '--durability', 'local');
  }

  /** A path of this test alone. */
  readonly place = (name: string): string => path.join(this.#directory, name);

  readonly succeeds = succeeds;

  /** A collector on the log, with a sink that keeps its checkpoints. All have one signing key. */
  readonly collector = (name: string, ...more: readonly string[]): Promise<Running> => {
    const sink = ['--checkpoint-sink', `file:${this.place(`${name}.sink`)}`];
    const signing = ['--signing-keys', this.place('signing-keys')];
    return start(this.place(name), ['--store', this.store, ...signing, ...sink, ...more]);
  };

  /** Resolves when each sent event has its place and is signed. */
  readonly signed = (entries: number): Promise<void> => signed(this.server, this.schema, entries);

  /** Two collectors, a key, and 20 events that both have accepted. */
  async filled(
    ofOne: readonly string[] = [],
    ofOther = ofOne,
  ): Promise<{ one: Running; other: Running; key: string; ids: string[] }> {
    const one = await this.collector('one', ...ofOne);
    const key = await keyFrom(one);
    const other = await this.collector('other', ...ofOther);
    const events = Array.from({ length: 20 }, () => outcomeEvent());
    const answers = await Promise.all(
      events.map((event, i) => postEvent(i % 2 === 0 ? one : other, key, event)),
    );
    expect(answers.map(({ status }) => status)).toEqual(events.map(() => 201));
    await this.signed(20);
    return { one, other, key, ids: events.map(({ event_id: id }) => id) };
  }

  /** The checkpoints of its sink; empty before the first one. */
  checkpointsOf(name: string): string {
    const sink = this.place(`${name}.sink`);
    return fs.existsSync(sink) ? fs.readFileSync(sink, 'utf8') : '';
  }
}

/** Call at the top of a test file. */
export function sharedLog(): SharedLog {
  const log = new SharedLog();
  let schemas = 0;
  beforeAll(async () => {
    log.server = await PostgresServer.start();
  });
  afterAll(() => log.server.remove());
  beforeEach(() => log.make(`log_${schemas++}`));
  return log;
}

/** A round of a back-up that ends at any of its writing calls: what it leaves, and what the next one does with it. */
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { verifyLog } from '../../src/commands/verify/verification.js';
import { nodeFiles } from '../../src/files.js';
import { fillSigned, loggedEvent } from '../commands/signed-directory.js';
import { temporaryDirectory } from '../running/collector-process.js';
import { round } from './round.js';

const WRITING = ['write', 'datasync', 'truncate', 'rename', 'remove', 'syncDirectory', 'replace'] as const;
const EARLIER = 60;
const LATER = 200;

class Ended extends Error {}

let scratch: string;
let dataDir: string;
/** The back-up of the log when it held the earlier events. */
let earlier: string;

const batches = (events: number) =>
  Array.from({ length: events / 20 }, () => Array.from({ length: 20 }, () => loggedEvent('x'.repeat(1200))));

async function eventsIn(directory: string): Promise<number> {
  const options = {
    dataDir: directory,
    files: nodeFiles,
    against: [],
    keys: [],
    onProgress: () => undefined,
  };
  const { findings, events } = await verifyLog(options);
  expect(findings.intact, JSON.stringify(findings.listed)).toBe(true);
  return events;
}

beforeAll(async () => {
  scratch = temporaryDirectory();
  dataDir = path.join(scratch, 'data');
  earlier = path.join(scratch, 'earlier');
  await fillSigned(dataDir, batches(EARLIER));
  await round(dataDir, earlier);
  await fillSigned(dataDir, batches(LATER - EARLIER));
  return () => fs.rmSync(scratch, { recursive: true, force: true });
});

afterEach(() => vi.restoreAllMocks());

/** Has the writing call of this number end the round, before it takes effect or after it. @returns the calls so far. */
function endAt(number: number, isDone: boolean): () => number {
  let calls = 0;
  for (const name of WRITING) {
    const real = nodeFiles[name].bind(nodeFiles) as (...args: unknown[]) => unknown;
    const ending = (...args: unknown[]): unknown => {
      if (++calls < number) return real(...args);
      const result = isDone && calls === number ? real(...args) : undefined;
      return result instanceof Promise ? result.then(fail) : fail();
    };
    vi.spyOn(nodeFiles, name).mockImplementation(ending);
  }
  return () => calls;
}

function fail(): never {
  throw new Ended();
}

test.each([
  ['before it takes effect', false],
  ['after it takes effect', true],
])(
  '[R-811] that ends at any call, %s, leaves the back-up whole, and the next round completes it',
  async (_, isDone) => {
    const target = path.join(scratch, 'target');
    onTestFinished(() => fs.rmSync(target, { recursive: true, force: true }));
    for (let number = 1; ; number++) {
      fs.rmSync(target, { recursive: true, force: true });
      fs.cpSync(earlier, target, { recursive: true });
      const calls = endAt(number, isDone);
      const ended = await round(dataDir, target).then(
        () => false,
        (error: unknown) => error instanceof Ended,
      );
      const made = calls();
      vi.restoreAllMocks();
      if (!ended) {
        expect(made).toBe(number - 1);
        expect(made).toBeGreaterThan(15);
        return;
      }
      expect(await eventsIn(target), `ended at call ${number}`).toBeGreaterThanOrEqual(EARLIER);
      await round(dataDir, target);
      expect(await eventsIn(target), `completed after call ${number}`).toBe(LATER);
    }
  },
);

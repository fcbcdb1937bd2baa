/** A round of a back-up that ends at any of its writing calls: what it leaves, and what the next one makes of it. */
import fs from 'node:fs';
import path from 'node:path';
import { afterEach, beforeAll, expect, onTestFinished, test, vi } from 'vitest';
import { checkpointIn, newestCheckpoint } from '../../src/commands/verify/log-checkpoints.js';
import { verifyLog } from '../../src/commands/verify/verification.js';
import { nodeFiles } from '../../src/files.js';
import { dataDirectory, standingNotes } from '../../src/replica/data-directory.js';
import { backUp, checkpointThere } from '../../src/replica/replica.js';
import { copiedLog } from '../../src/store/open-to-audit.js';
import { openStore } from '../../src/store/open-to-read.js';
import { fillSigned, loggedEvent } from '../commands/signed-directory.js';
import { temporaryDirectory } from '../running/collector-process.js';

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

async function round(directory: string): Promise<void> {
  const agreed = checkpointThere(directory)?.size ?? 0;
  const standing = standingNotes(dataDir);
  const found = await newestCheckpoint(dataDir, openStore(dataDir).tree);
  const log = found && copiedLog(dataDir, { signed: found.newest.checkpoint.size, agreed });
  if (log === undefined) throw new Error('there is no log');
  const { history, newest } = found;
  const checkNote = (note: string) => void checkpointIn(note, history);
  const source = dataDirectory({ dataDir, history, newest, log, standing, checkNote, signingKeys: undefined });
  await backUp(directory, source, new Date().toISOString(), () => undefined);
}

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
  await round(earlier);
  await fillSigned(dataDir, batches(LATER - EARLIER));
  return () => fs.rmSync(scratch, { recursive: true, force: true });
});

afterEach(() => vi.restoreAllMocks());

/** Has the writing call of this number end the round, before it takes effect or behind it. @returns the calls so far. */
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
  ['when it took effect', true],
])(
  '[R-811] that ends at any call, %s, leaves the back-up whole, and the next round completes it',
  async (_, isDone) => {
    const target = path.join(scratch, 'target');
    onTestFinished(() => fs.rmSync(target, { recursive: true, force: true }));
    for (let number = 1; ; number++) {
      fs.rmSync(target, { recursive: true, force: true });
      fs.cpSync(earlier, target, { recursive: true });
      const calls = endAt(number, isDone);
      const ended = await round(target).then(
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
      await round(target);
      expect(await eventsIn(target), `completed after call ${number}`).toBe(LATER);
    }
  },
);

/** What becomes of a request when its command or its collector is stopped, and what the command reports. */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest';
import { deliver } from '../../src/commands/lifecycle/delivery.js';
import type { Config } from '../../src/config.js';
import { nodeFiles } from '../../src/files.js';
import type { LifecycleAnswer } from '../../src/ledger/lifecycle.js';
import { SequenceSet } from '../../src/privacy/sequence-set.js';
import { lockDirectory } from '../../src/store/directory-lock.js';
import { Inbox } from '../../src/store/embedded/inbox.js';
import { openStore } from '../../src/store/open-to-read.js';
import { launch, start, temporaryDirectory } from '../running/collector-process.js';
import { copyOf } from '../running/scratch.js';

let dataDir: string;
let inbox: Inbox;
/** Releases the lock of a collector that does not look for requests. */
let release: () => void;
const template = temporaryDirectory();

beforeAll(async () => {
  await (await start(template, ['--no-listen'])).stop();
});
afterAll(() => fs.rmSync(template, { recursive: true }));
beforeEach(() => {
  dataDir = copyOf(template);
  inbox = new Inbox(dataDir);
  let lock: { release(): void } | undefined = lockDirectory(dataDir);
  release = () => {
    lock?.release();
    lock = undefined;
  };
  onTestFinished(release);
});

/** The id of the one request. */
async function laid(): Promise<string> {
  await expect.poll(() => inbox.waiting()).toHaveLength(1);
  const [{ id } = { id: '' }] = await inbox.waiting();
  return id;
}

async function held(): Promise<string[]> {
  const log = openStore(dataDir).events;
  const logged = log.actions?.().logged ?? [];
  await log.close();
  return logged.flatMap(({ said }) => (said.does === 'hold' ? [said.action] : []));
}

describe('[R-1550] [R-1335] the request of a command', () => {
  const withdrawn = 'withdrawn: nothing was changed';
  const begun = 'a collector has begun the request';

  test.each([
    ['is interrupted', false, 'SIGINT', 130, withdrawn],
    ['is interrupted', true, 'SIGTERM', 9, begun],
    ['has lost its collector', false, 'gone', 2, withdrawn],
    ['has lost its collector', true, 'gone', 9, begun],
    ['is killed', false, 'SIGKILL', null, ''],
    ['is killed', true, 'SIGKILL', null, ''],
  ] as const)('that %s is either withdrawn or done (begun: %s)', async (_, isBegun, stop, code, says) => {
    const hold = ['hold', 'add', 'CASE-1', '--organisation', 'icu', '--data-dir', dataDir];
    const { process: child, exited, output } = launch(hold);
    const id = await laid();
    if (isBegun) await inbox.begin(id);
    if (stop === 'gone') release();
    else child.kill(stop);
    expect(await exited).toBe(code);
    expect(output.stderr.replace(/\s+/g, ' ')).toContain(says);
    const left = code === 130 || code === 2 ? [] : [id];
    expect((await inbox.waiting()).map((each) => each.id)).toEqual(left);
    release();
    const collector = await start(dataDir, ['--no-listen']);
    await expect.poll(async () => [await held(), await inbox.waiting()]).toEqual([left, []]);
    expect(await collector.stop()).toBe(0);
    expect(await held()).toEqual(left);
  });
});

/** An erasure as commands request it; the test acts for the collector. */
function erasing(signal = new AbortController().signal): { action: string; end: Promise<unknown> } {
  const action = randomUUID();
  const keys = [{ tag: 1, organisation: 'icu', sequences: SequenceSet.of([1]) }];
  const request = {
    action: { action, does: 'erase', reason: 'test-data', part: 1, parts: 1, keys },
    considered: { policy: null, holds: [] },
  } as const;
  const end = deliver({ dataDir, store: '' } as Config, request, { signal }).catch((error: unknown) => error);
  return { action, end };
}

describe('an erasure', () => {
  test.each([false, true])(
    '[R-1550] that is interrupted says what becomes of it (begun: %s)',
    async (isBegun) => {
      const stop = new AbortController();
      const { action, end } = erasing(stop.signal);
      await laid();
      if (isBegun) await inbox.begin(action);
      stop.abort();
      const see = `collector erase --certificate ${action}`;
      expect(await end).toMatchObject({
        exitCode: isBegun ? 9 : 130,
        message: expect.stringContaining(isBegun ? see : 'withdrawn: nothing was erased') as string,
      });
      // A late answer is no error.
      await inbox.answer(action, JSON.stringify({ state: 'done' }));
    },
  );

  test('[R-1550] that is answered while it is interrupted returns the answer', async () => {
    const stop = new AbortController();
    const { action, end } = erasing(stop.signal);
    await laid();
    await inbox.begin(action);
    const withdraw = vi.spyOn(Inbox.prototype, 'withdraw').mockImplementationOnce(async () => {
      await inbox.take(action);
      await inbox.answer(action, JSON.stringify({ state: 'done' }));
      return false;
    });
    onTestFinished(() => withdraw.mockRestore());
    stop.abort();
    expect(await end).toEqual({ state: 'done' });
  });

  test('[R-1550] that cannot be withdrawn says that it may be done', async () => {
    const stop = new AbortController();
    const { action, end } = erasing(stop.signal);
    await laid();
    const withdraw = vi
      .spyOn(Inbox.prototype, 'withdraw')
      .mockRejectedValueOnce(new Error('no way to the disk'));
    onTestFinished(() => withdraw.mockRestore());
    stop.abort();
    const message = expect.stringMatching(`could not be withdrawn .no way to the disk.*${action}`) as string;
    expect(await end).toMatchObject({ exitCode: 1, message });
  });

  test.each(['before', 'behind'])(
    '[R-1335] leaves no request on a full disk (%s the rename)',
    async (when) => {
      const full = Object.assign(new Error('ENOSPC: no space left on device'), { code: 'ENOSPC' });
      const real = nodeFiles.replace.bind(nodeFiles);
      const replace = vi.spyOn(nodeFiles, 'replace').mockImplementationOnce(async (...given) => {
        if (when === 'behind') await real(...given);
        throw full;
      });
      onTestFinished(() => replace.mockRestore());
      expect(await erasing().end).toMatchObject({ message: expect.stringContaining('ENOSPC') as string });
      expect(fs.readdirSync(path.join(dataDir, 'lifecycle', 'inbox'))).toEqual([]);
    },
  );

  test.each([
    [{ state: 'refused', because: 'changed', reason: 'a hold has begun meanwhile: plan again' }, 10],
    [{ state: 'refused', because: 'partly', reason: 'only a part of it was erased' }, 8],
    [{ state: 'refused', because: 'impossible', reason: 'not encrypted' }, 8],
  ] as [LifecycleAnswer & { reason: string }, number][])(
    '[R-1550] that is refused reports the reason: %o',
    async (answer, exitCode) => {
      const { action, end } = erasing();
      await laid();
      await inbox.answer(action, JSON.stringify(answer));
      expect(await end).toMatchObject({ exitCode, message: answer.reason });
    },
  );

  test('[R-1550] that waits for a directory of keys names it, and the command for its certificate', async () => {
    const written = vi.spyOn(process.stderr, 'write').mockReturnValue(true);
    onTestFinished(() => written.mockRestore());
    const { action, end } = erasing();
    await inbox.answer(await laid(), JSON.stringify({ state: 'pending', unreached: ['/mnt/keys'] }));
    expect(await end).toMatchObject({ state: 'pending' });
    for (const part of ['/mnt/keys', `collector erase --certificate ${action}\n`])
      expect(written.mock.calls.join('')).toContain(part);
  });
});

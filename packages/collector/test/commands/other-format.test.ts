/** A data directory of another version: refused in one sentence, and not changed. */
import fs from 'node:fs';
import path from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { describe, expect, test } from 'vitest';
import { run } from '../running/collector-process.js';
import { contents } from '../running/directory-contents.js';
import { issueKey } from '../running/issued-keys.js';
import { scratch } from '../running/scratch.js';
import { fillSigned, loggedEvent } from './signed-directory.js';
import { framesIn, putFrames, resealHeader, sealed } from './tampering.js';

const VERSION_OF_FRAME = 8;

const on = (dataDir: string, ...args: readonly string[]) => run([...args, '--data-dir', dataDir]);
const serve = (dataDir: string) => on(dataDir, 'serve', '--port', '0');

async function aLog(): Promise<{ readonly dataDir: string; readonly segment: string }> {
  const dataDir = scratch();
  await fillSigned(dataDir, [[loggedEvent('one'), loggedEvent('two')]]);
  return { dataDir, segment: path.join(dataDir, 'ledger', '0000000000000001.segment') };
}

/** @param isFrame whether the frames have the version too. */
function setVersion(segment: string, version: number, isFrame: boolean): void {
  const frames = framesIn(segment);
  for (const frame of isFrame ? frames : []) frame[VERSION_OF_FRAME] = version;
  putFrames(segment, isFrame ? frames.map(sealed) : frames);
  const bytes = fs.readFileSync(segment);
  bytes.writeUInt32LE(version, 12);
  fs.writeFileSync(segment, bytes);
}

describe('a log', () => {
  test('[R-2031] of a later format gets no verdict, and systemd does not retry it', async () => {
    const { dataDir, segment } = await aLog();
    setVersion(segment, 2, true);
    resealHeader(segment);
    const before = contents(path.join(dataDir, 'ledger'));
    const later = 'was written by a later version of the collector; this version reads format 1 only';
    for (const command of ['verify', 'doctor']) {
      const { code, stdout, stderr } = await on(dataDir, command);
      expect([code, stdout], command).toEqual([1, '']);
      expect(stderr).toBe(`collector: no verdict: ledger/0000000000000001.segment: the segment ${later}\n`);
    }
    const { code, stderr } = await serve(dataDir);
    expect([code, stderr.includes(later)]).toEqual([2, true]);
    expect((await on(dataDir, 'events')).code).toBe(2);
    expect(contents(path.join(dataDir, 'ledger'))).toEqual(before);
    const unit = fs.readFileSync('deploy/systemd/collector.service', 'utf8');
    expect(unit).toMatch(/^RestartPreventExitStatus=2 3$/m);
  });

  test.each([
    ['whose version alone was altered', 2, false],
    ['whose version was altered, with a checksum that fits', 2, true],
    ['of version 0', 0, true],
  ])('[R-907] %s is not intact', async (_, version, fits) => {
    const { dataDir, segment } = await aLog();
    setVersion(segment, version, false);
    if (fits) resealHeader(segment);
    const { code, stdout } = await on(dataDir, 'verify', '--json');
    expect(code).toBe(3);
    const { findings } = JSON.parse(stdout) as { findings: { kind: string; message: string }[] };
    expect(findings).toContainEqual(
      expect.objectContaining({
        kind: 'altered',
        message: expect.stringMatching(
          `^ledger/0{15}1.segment: .*the segment header names format ${version}, which is wrong$`,
        ) as string,
      }),
    );
    expect((await serve(dataDir)).code).toBe(3);
  });
});

describe('API keys', () => {
  const changed = async (sql: string) => {
    const { dataDir } = await aLog();
    await issueKey(dataDir);
    const database = new DatabaseSync(path.join(dataDir, 'keys.db'));
    database.exec(sql);
    database.close();
    return dataDir;
  };

  test('[R-2055] of a later schema are refused with 2, and doctor has no verdict', async () => {
    const dataDir = await changed('PRAGMA user_version = 99');
    const refusal = /keys\.db cannot be used: it was written by a newer collector \(schema 99/;
    for (const [code, command] of [
      [2, ['serve', '--port', '0']],
      [2, ['keys', 'list']],
      [1, ['doctor']],
    ] as const)
      expect(await on(dataDir, ...command)).toMatchObject({
        code,
        stderr: expect.stringMatching(refusal) as string,
      });
  });

  test('[R-2055] whose schema was altered to 0 are damaged', async () => {
    const dataDir = await changed('PRAGMA user_version = 0');
    const damage = /keys\.db cannot be used: their schema is 0, which no collector writes/;
    expect(await serve(dataDir)).toMatchObject({ code: 3, stderr: expect.stringMatching(damage) as string });
    expect(await on(dataDir, 'doctor')).toMatchObject({
      code: 3,
      stdout: expect.stringMatching(damage) as string,
    });
  });

  test('[R-2055] in a database of another program are refused with 2', async () => {
    const dataDir = await changed('PRAGMA user_version = 0; PRAGMA application_id = 0');
    expect(await serve(dataDir)).toMatchObject({
      code: 2,
      stderr: expect.stringContaining(
        'keys.db cannot be used: it is a database of another program',
      ) as string,
    });
  });
});

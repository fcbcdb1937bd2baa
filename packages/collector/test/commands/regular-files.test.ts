import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import { run } from '../running/collector-process.js';
import { scratch } from '../running/scratch.js';
import { fillSigned, loggedEvent } from './signed-directory.js';

test.each(['checkpoints/latest', 'ledger/0000000000000002.segment', 'index/0000000000000000-1.run'])(
  'no reader waits at a pipe that has the name %s, or notes a reading',
  async (name) => {
    const dataDir = scratch();
    const elsewhere = scratch();
    const eventId = randomUUID();
    await fillSigned(dataDir, [[loggedEvent('one', { eventId })]]);
    const pipe = path.join(dataDir, name);
    fs.rmSync(pipe, { force: true });
    execFileSync('mkfifo', [pipe]);
    const commands: readonly (readonly string[])[] = [
      ['events'],
      ['records'],
      ['report', '--out', path.join(elsewhere, 'report.html')],
      ['proof', eventId],
      ['proof', '--tiles', path.join(elsewhere, 'tiles')],
    ];
    // Two of them look up nothing by its id.
    const readers = name.startsWith('index') ? commands.slice(1, 4) : commands;
    for (const command of readers) {
      expect(await run([...command, '--data-dir', dataDir]), command[0]).toMatchObject({
        code: 1,
        stdout: '',
        stderr: expect.stringMatching(
          new RegExp(`^collector: ${pipe} .*\\bregular file\\b.*\\bnot opened\n$`),
        ) as string,
      });
    }
    expect(fs.existsSync(path.join(dataDir, 'access.log'))).toBe(false);
    expect(fs.readdirSync(elsewhere)).toEqual([]);
  },
);

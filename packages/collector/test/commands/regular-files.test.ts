import { execFileSync } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { run, start } from '../running/collector-process.js';
import { scratch } from '../running/scratch.js';
import { fillSigned, loggedEvent } from './signed-directory.js';

test.each(['checkpoints/latest', 'ledger/0000000000000002.segment', 'index/0000000000000000-1.run'])(
  'no reader waits at a pipe that has the name %s, or logs a reading',
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
    // Two of them do not look up an id.
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

describe('a data directory before the first start', () => {
  test.each([
    ['serve', '--port', '0'],
    ['keys', 'create', '--permissions', 'all'],
  ])('is refused if it holds something else, and is not changed: %s %s', async (...command) => {
    const directory = scratch();
    fs.writeFileSync(path.join(directory, 'SHA256SUMS'), '');
    for (const name of ['ledger', 'sbom']) fs.mkdirSync(path.join(directory, name));
    expect(await run([...command, '--data-dir', directory])).toEqual({
      code: 2,
      stdout: '',
      stderr:
        `collector: ${directory} holds SHA256SUMS and no log, so it is not a data directory: give a new ` +
        'directory or an empty one with --data-dir\n',
    });
    expect(fs.readdirSync(directory).sort()).toEqual(['SHA256SUMS', 'ledger', 'sbom']);
  });

  test('may have other files beside its own', async () => {
    const made = scratch();
    expect((await run(['keys', 'create', '--permissions', 'all', '--data-dir', made])).code).toBe(0);
    fs.writeFileSync(path.join(made, 'token'), '');
    const mounted = scratch();
    fs.mkdirSync(path.join(mounted, 'lost+found'));
    fs.writeFileSync(path.join(mounted, '.gitignore'), '');
    const lost = scratch();
    fs.writeFileSync(path.join(lost, 'access-2027.log'), '');
    for (const dataDir of [made, mounted, lost]) {
      const collector = await start(dataDir);
      expect(await collector.stop()).toBe(0);
    }
  });
});

/** Content that events name by a URI, in a record that a person reads. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { beforeEach, describe, expect, test } from 'vitest';
import {
  ContentDirectory as Stored,
  contentUri,
  sha256Of,
} from '../../../client/src/content/content-store.js';
import { ContentDirectory } from '../../src/commands/records/content.js';
import { id } from '../records/run-events.js';
import { run } from '../running/collector-process.js';
import { scratch } from '../running/scratch.js';
import { candidate } from '../store/candidate.js';
import { fillDirectory } from '../store/embedded/filled-directory.js';

const PNG = Buffer.from('\x89PNG\r\n\x1a\n\0\0\0', 'latin1');

let root: string;
let directory: string;

beforeEach(() => {
  root = scratch();
  directory = path.join(root, 'content');
  fs.mkdirSync(path.join(directory, 'notes'), { recursive: true });
  fs.writeFileSync(path.join(directory, 'notes', 'a b%.txt'), 'Größe: 3 cm\nstable');
  fs.writeFileSync(path.join(directory, 'scan.png'), PNG);
  fs.writeFileSync(path.join(root, 'secret.txt'), 'of another patient');
  fs.symlinkSync(path.join(root, 'secret.txt'), path.join(directory, 'link.txt'));
  fs.symlinkSync(root, path.join(directory, 'up'));
  fs.symlinkSync(path.join('notes', 'a b%.txt'), path.join(directory, 'inner.txt'));
});

const NOTE = { text: 'Größe: 3 cm\nstable' };

describe('content by reference', () => {
  test('[R-1862] content of a client is found by its hash, in its directory or in a copy of a bucket, and checked', async () => {
    const bytes = Buffer.from('Take it at night.');
    const sha256 = sha256Of(bytes);
    const uri = contentUri(sha256);
    await new Stored(directory).put(bytes, sha256);
    expect(new ContentDirectory(directory).read(uri, undefined)).toEqual({ text: 'Take it at night.' });
    const flat = path.join(root, 'bucket');
    fs.mkdirSync(flat);
    fs.writeFileSync(path.join(flat, sha256), bytes);
    expect(new ContentDirectory(flat).read(uri, undefined)).toEqual({ text: 'Take it at night.' });
    fs.writeFileSync(path.join(flat, sha256), 'Take two at night.');
    const changed = new ContentDirectory(flat);
    const note = expect.stringContaining(sha256Of(Buffer.from('Take two at night.'))) as string;
    expect(changed.read(uri, undefined)).toEqual({ note });
    expect(changed.warning).toContain(flat);
  });

  test.each<[string, (of: string) => string]>([
    ['a name', () => 'notes/a%20b%25.txt'],
    ['a name with a percent sign that is not an escape', () => 'notes/a b%.txt'],
    ['a name that leaves a directory and returns', () => './notes/../notes/a%20b%25.txt'],
    ['a path', (of) => path.join(of, 'notes', 'a%20b%25.txt')],
    ['a file: URI', (of) => pathToFileURL(path.join(of, 'notes', 'a b%.txt')).href],
    [
      'a file: URI with the host localhost',
      (of) => `file://localhost${path.join(of, 'notes', 'a%20b%25.txt')}`,
    ],
    ['a link inside', () => 'inner.txt'],
  ])('[R-1862] %s is read within the directory', (_, uriIn) => {
    const content = new ContentDirectory(directory);
    expect([content.read(uriIn(directory), undefined), content.warning]).toEqual([NOTE, undefined]);
  });

  test.each<[string, (of: string) => string]>([
    ['a name that goes up', () => '../secret.txt'],
    ['an escaped name that goes up', () => '%2e%2e%2fsecret.txt'],
    ['a path', () => '/etc/hostname'],
    ['a file: URI', (of) => pathToFileURL(path.join(of, 'secret.txt')).href],
    ['a file: URI that goes up', (of) => `file://${of}/content/../secret.txt`],
    ['a link', () => 'link.txt'],
    ['a file in a linked directory', () => 'up/secret.txt'],
    ['the directory itself', () => '.'],
    ['a directory with a similar name', () => '../content2/x'],
    ['nothing', () => ''],
    ['another host', () => 'file://archive/notes/a.txt'],
    ['a NUL', () => 'file:///notes%00'],
    ['an escaped slash', () => 'file:///notes%2Fa'],
    ['an https: URL', () => 'https://records.test.example/1'],
    ['a missing file', () => 'notes/b.txt'],
    ['a missing hash', () => `sha256:${'ab'.repeat(32)}`],
    ['a name that moves the cursor', () => '\u001b[2J'],
    ['a directory inside', () => 'notes'],
    ['a path through a file', () => 'scan.png/x'],
  ])('[R-1862] %s is not read, and a note says so', (_, uriIn) => {
    const content = new ContentDirectory(directory);
    // eslint-disable-next-line no-control-regex -- it is what is looked for
    const note = expect.not.stringMatching(/another patient|\u001b/) as string;
    expect(content.read(uriIn(root), undefined)).toEqual({ note });
    expect(content.warning).toContain(directory);
  });

  test('[R-1862] a pipe is not waited for; binary content is described by size and type; a urn: names no file', () => {
    expect(spawnSync('mkfifo', [path.join(directory, 'pipe')]).status).toBe(0);
    const content = new ContentDirectory(directory);
    expect(content.read('pipe', undefined)).toEqual({ note: expect.stringContaining('pipe') as string });
    expect(content.read('scan.png', undefined)).toEqual({ note: '11 bytes of image/png, not shown' });
    expect(content.read('scan.png', 'image/x')).toEqual({ note: '11 bytes of image/x, not shown' });
    expect(content.read(`urn:uuid:${id(1)}`, undefined)).toBeUndefined();
    expect(content.warning).toContain('1 of 3 URIs');
  });
});

describe('records --full --content', () => {
  let dataDir: string;

  beforeEach(async () => {
    dataDir = path.join(root, 'data');
    const base = { run_id: id(1), timestamp: '2026-03-01T00:00:00Z', protocol_version: '0.0.1' };
    const sent = (
      n: number,
      kind: 'inference-start' | 'internal-artifact' | 'human-output' | 'outcome',
      said: object,
    ) => candidate({ eventId: id(n), runId: id(1), kind, body: { ...base, event_id: id(n), ...said } });
    const artifact = { artifact_type: 'other', artifact_uri: 'file:/nowhere/x', mime_type: 'image/png' };
    await fillDirectory(dataDir, [
      [
        sent(1, 'inference-start', {
          ...{ inputs: { input_uri: 'notes/a%20b%25.txt' }, target_identity: { target_id: 'p-1' } },
        }),
        sent(2, 'internal-artifact', { artifact }),
        sent(3, 'human-output', { output: { output_uri: 'scan.png' } }),
        sent(4, 'outcome', { outcome: { outcome_type: 'partial', evidence_uri: '../secret.txt' } }),
      ],
    ]);
  });

  const records = (...args: readonly string[]) => run(['records', '--data-dir', dataDir, ...args]);

  test('[R-1862] shows the content of each URI, says how many could not be read, and is logged', async () => {
    const plain = await records('--run', id(1), '--full');
    const { code, stdout, stderr } = await records('--run', id(1), '--full', '--content', directory);
    expect([code, stderr]).toEqual([0, expect.stringContaining('2 of 4 URIs')]);
    expect(stdout).toContain('    content of input_uri:\n        Größe: 3 cm\n        stable\n');
    expect(stdout).toContain('    content of output_uri: 11 bytes of image/png');
    const without = stdout.replaceAll(/^ {4}content of \w+:.*\n( {8}.*\n)*/gm, '');
    // Nothing else is changed.
    expect(without).toBe(plain.stdout);
    expect(stdout).not.toContain('another patient');
    const log = fs.readFileSync(path.join(dataDir, 'access.log'), 'utf8');
    expect(log).toContain(`"filter":{"run":"${id(1)}","content":"${directory}"}`);
    const subjects = path.join(root, 'subject.txt');
    fs.writeFileSync(subjects, 'p-1\n');
    const asked = await records('--subject-file', subjects, '--full', '--content', directory);
    expect(asked.stdout).toBe(stdout);
    expect(asked.stderr).toContain('2 of 4 URIs');
  });

  test.each([
    [['--content', '.']],
    [['--full', '--content', 'nowhere']],
    [['--full', '--content', 'package.json']],
  ])('[R-1862] %j is refused, and nothing is read', async (args) => {
    const { code, stdout, stderr } = await records('--run', id(1), ...args);
    expect([code, stdout, stderr]).toEqual([2, '', expect.stringContaining('--content')]);
    expect(fs.existsSync(path.join(dataDir, 'access.log'))).toBe(false);
  });
});

/** The spools of test/vectors/spool, which the clients of all languages are tested with. */
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect, test } from 'vitest';
import { temporaryDirectory } from '../running/hurried-client.js';
import { openSpool } from '../../src/spool/disk-spool.js';
import { nodeFiles } from '../../src/spool/files.js';
import { readSpool } from '../../src/spool/inspection.js';
import { Neighbours } from '../../src/spool/process-directory.js';
import type { SpooledEvent } from '../../src/spool/spool.js';
import { type Case, caseOf, laidOut, NAMES, VECTORS } from './corpus.js';

function filesIn(root: string): string[] {
  const entries = fs.readdirSync(root, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => !entry.isDirectory() || entry.name.endsWith('.segment'))
    .map((entry) => path.relative(root, path.join(entry.parentPath, entry.name)))
    .filter((file) => !/^damaged\/|\/lock$|^\w{26}\/owner$/.test(file))
    .sort();
}

const shown = ({ kind, capturedAt, body }: SpooledEvent) => {
  const [bytes, text] = [Buffer.from(body), Buffer.from(body).toString()];
  const as = Buffer.from(text).equals(bytes) ? { event: text } : { event_base64: bytes.toString('base64') };
  return { kind, captured_at: new Date(capturedAt).toISOString(), ...as };
};

async function found(root: string, said: Case, open = openSpool): Promise<Case['expect']> {
  const key = said.key === undefined ? {} : { key: Buffer.from(said.key, 'hex') };
  const damaged: { file: string; bytes: number }[] = [];
  let missing = 0;
  const spool = await open({
    ...{ directory: root, durability: 'os', ...key },
    ...(said.expect.watched && { patienceMs: 0 }),
    onDamage: (damage) => {
      missing += damage.missing;
      if (damage.kept !== undefined && damage.lost)
        damaged.push({ file: path.basename(damage.kept), bytes: damage.lost.bytes });
    },
  });
  const taking = spool.take(1000, 1 << 30);
  // Damage without events is found by reading too, and only the findings show when that is done.
  if (said.expect.events.length === 0) {
    const { cut, missing: absent, damaged: kept } = said.expect;
    const seen = () => [spool.state.waiting, spool.state.cut, missing, damaged.length];
    await expect.poll(seen, { timeout: 120_000 }).toEqual([0, cut, absent, kept.length]);
    await spool.close();
  }
  const events = await taking;
  for (const event of events) spool.done(event);
  await spool.flush();
  const { cut } = spool.state;
  // The part of this spool is gone once it is closed.
  await spool.close();
  return { events: events.map(shown), cut, missing, damaged, left: filesIn(root) };
}

test.each(NAMES)('[R-1720] a spool is read as the corpus says: %s', async (name) => {
  const said = caseOf(name);
  const { watched, refused, ...expected } = said.expect;
  const { file, from, to } = said.truncate ?? { file: '', from: 0, to: 0 };
  for (let length = from; length <= to; length++) {
    const root = await laidOut(name, said);
    if (said.truncate) fs.truncateSync(path.join(root, file), length);
    if (watched) expect(await new Neighbours(nodeFiles, root, () => undefined).abandoned()).toEqual([]);
    if (refused) {
      await expect(found(root, said)).rejects.toThrow(
        refused === 'key' ? 'is encrypted with another key' : 'has an earlier format',
      );
      expect(filesIn(root)).toEqual(expected.left);
      continue;
    }
    if (said.key === undefined || !name.includes('other')) {
      const { cut } = await readSpool(
        root,
        said.key === undefined ? undefined : Buffer.from(said.key, 'hex'),
      ).catch(() => expected);
      expect(cut).toBe(expected.cut);
    }
    expect(await found(root, said)).toEqual(expected);
  }
});

/** The spool of the built client, with one place of one file changed. */
async function mutated(file: string, from: string, to: string): Promise<typeof openSpool> {
  const [copy, client] = [temporaryDirectory(), path.resolve(import.meta.dirname, '../..')];
  fs.cpSync(path.join(client, 'dist'), path.join(copy, 'dist'), { recursive: true });
  fs.copyFileSync(path.join(client, 'package.json'), path.join(copy, 'package.json'));
  fs.symlinkSync(path.resolve(client, '../../node_modules'), path.join(copy, 'node_modules'));
  const at = path.join(copy, 'dist/spool', file);
  const text = fs.readFileSync(at, 'utf8');
  expect(text.split(from)).toHaveLength(2);
  fs.writeFileSync(at, text.replace(from, to));
  const built = (await import(pathToFileURL(path.join(copy, 'dist/spool/disk-spool.js')).href)) as {
    openSpool: typeof openSpool;
  };
  return built.openSpool;
}

test.each([
  [
    'that skips the checksum',
    'damaged-middle',
    'segment.js',
    'checksum !== source.readUInt32LE(offset)',
    'false',
  ],
  ['that trusts the end frame', 'missing-none', 'backlog.js', 'segment.own && !segment.complete && ', ''],
  ['that ignores marks', 'marks-some', 'segment.js', 'done.add(file.readUInt32LE(at))', '0'],
  ['that reports a cut write as damage', 'torn-large', 'segment.js', 'cut && !this.#ended', 'false'],
])('[R-1720] the corpus finds a reader %s', async (_fault, name, file, from, to) => {
  const said = caseOf(name);
  expect(await found(await laidOut(name, said), said)).toEqual(said.expect);
  const faulty = await mutated(file, from, to);
  expect(await found(await laidOut(name, said), said, faulty)).not.toEqual(said.expect);
});

test('the corpus is what its script makes', () => {
  const made = temporaryDirectory();
  const script = path.resolve(VECTORS, '../../../scripts/spool-corpus.mjs');
  execFileSync(process.execPath, [script, made]);
  const contents = (root: string) =>
    fs
      .readdirSync(root, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && entry.name !== 'README.md')
      .map((entry) => path.join(entry.parentPath, entry.name))
      .map((file) => [path.relative(root, file), fs.readFileSync(file).toString('latin1')])
      .sort();
  expect(contents(made)).toEqual(contents(VECTORS));
});

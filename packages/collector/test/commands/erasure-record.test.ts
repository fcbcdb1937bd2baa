/** The record of who requested an erasure, and why: beside the log, for those who have its keys. */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { beforeEach, describe, expect, test } from 'vitest';
import {
  type ErasureFacts,
  erasureRecordOf,
  keepErasureRecord,
} from '../../src/commands/lifecycle/erasure-record.js';
import { dropRecord } from '../../src/commands/lifecycle/holds.js';
import { scratch } from '../running/scratch.js';
import { encryptionIn, fillDirectory } from '../store/embedded/filled-directory.js';

const ACTION = randomUUID();
const FACTS: ErasureFacts = {
  ...{ action: ACTION, case: 'DSR-2026/0042', mentions: 1, unread: 0 },
  setByHand: { marked: 1, unmarked: 0 },
  planner: { name: 'Ada Privacy', isProven: false, at: '2026-11-27T10:00:00.000Z' },
  applier: { name: 'Bob Operator', isProven: true, at: '2026-11-27T11:00:00.000Z' },
  left: [{ why: 'hold', of: 'CASE-7', events: 2 }],
  overridden: [{ of: 'ward', until: '2027-01-01T00:00:00.000Z', events: 3 }],
};

let dataDir: string;
const fileOf = (action: string) => path.join(dataDir, 'lifecycle', 'erasures', `${action}.json`);

beforeEach(async () => {
  dataDir = scratch();
  await fillDirectory(dataDir, [], undefined, encryptionIn(dataDir));
});

describe('[R-1344] the record of an erasure', () => {
  test('is read as it was written, by its owner alone, and holds no name in the clear', async () => {
    const record = await keepErasureRecord(dataDir, FACTS);
    expect(erasureRecordOf(dataDir, ACTION, record)).toEqual({
      ...FACTS,
      salt: expect.any(String) as string,
    });
    expect(fs.statSync(fileOf(ACTION)).mode & 0o777).toBe(0o600);
    const text = fs.readFileSync(fileOf(ACTION), 'latin1');
    const sealed = (JSON.parse(text) as { sealed: string }).sealed;
    for (const word of ['DSR-2026', 'Ada Privacy', 'Bob Operator', 'CASE-7'])
      expect(text + Buffer.from(sealed, 'base64').toString('latin1')).not.toContain(word);
  });

  test('has another hash and another key each time, so that neither reveals its content', async () => {
    const first = await keepErasureRecord(dataDir, FACTS);
    const { key, sealed } = JSON.parse(fs.readFileSync(fileOf(ACTION), 'utf8')) as Record<string, string>;
    expect(await keepErasureRecord(dataDir, FACTS)).not.toBe(first);
    expect(JSON.parse(fs.readFileSync(fileOf(ACTION), 'utf8'))).not.toMatchObject({ key });
    expect(JSON.parse(fs.readFileSync(fileOf(ACTION), 'utf8'))).not.toMatchObject({ sealed });
  });

  test('is not available if it is missing, changed or of another action, or if its key is missing', async () => {
    const record = await keepErasureRecord(dataDir, FACTS);
    const other = randomUUID();
    const otherRecord = await keepErasureRecord(dataDir, { ...FACTS, action: other });
    const text = fs.readFileSync(fileOf(ACTION), 'utf8');
    // Of the same log, under the same key-encryption key.
    fs.copyFileSync(fileOf(other), fileOf(ACTION));
    for (const hash of [record, otherRecord]) expect(erasureRecordOf(dataDir, ACTION, hash)).toBeUndefined();
    for (const changed of [
      '',
      '{}',
      'null',
      text.slice(0, 99),
      text.replace('"sealed":"', '"sealed":"AAAA'),
    ]) {
      fs.writeFileSync(fileOf(ACTION), changed);
      expect(erasureRecordOf(dataDir, ACTION, record), changed).toBeUndefined();
    }
    fs.writeFileSync(fileOf(ACTION), text);
    expect(erasureRecordOf(dataDir, ACTION, 'f'.repeat(64))).toBeUndefined();
    expect(erasureRecordOf(dataDir, ACTION, record)).toBeDefined();
    fs.renameSync(path.join(dataDir, 'encryption-keys'), path.join(dataDir, 'away'));
    expect(erasureRecordOf(dataDir, ACTION, record)).toBeUndefined();
  });

  test('is removed when the erasure was refused, also the second time', async () => {
    const record = await keepErasureRecord(dataDir, FACTS);
    dropRecord(dataDir, 'erasures', ACTION);
    dropRecord(dataDir, 'erasures', ACTION);
    expect(fs.readdirSync(path.dirname(fileOf(ACTION)))).toEqual([]);
    expect(erasureRecordOf(dataDir, ACTION, record)).toBeUndefined();
  });
});

/** What the soak (bench/soak) makes of a log that is not as it has to be. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { FATE, Fates } from '../bench/soak/fates.mjs';
import { checkLedger } from '../bench/soak/ledger-check.mjs';
import { SoakEvents } from '../bench/soak/soak-events.mjs';

const FILL = path.resolve(import.meta.dirname, '../bench/fill.mjs');
const KEY_ID = 'soakcheck234';

test('[R-601] the soak finds what is lost, changed, refused or never sent', async () => {
  const directory = mkdtempSync(path.join(tmpdir(), 'soak-check-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const events = new SoakEvents();
  const bodies = [
    ...[0, 1, 2, 3].map((number) => events.body(0, number)),
    events.contradiction(0, 4),
    new SoakEvents().body(0, 5),
  ];
  const lines = bodies.map((body, number) => `{"kind":"${events.kindOf(number)}","event":${body}}\n`);
  const file = path.join(directory, 'events.ndjson');
  writeFileSync(file, lines.join(''));
  const data = path.join(directory, 'data');
  const { stderr, status } = spawnSync(process.execPath, [FILL, data, file, KEY_ID]);
  expect(status, String(stderr)).toBe(0);
  const fates = new Fates();
  for (const [number, fate] of [
    [0, FATE.accepted | FATE.refused],
    [1, FATE.refused],
    [3, FATE.unanswered],
    [4, FATE.accepted],
    [6, FATE.accepted],
    [7, FATE.unanswered],
  ] as const)
    fates.note(number, fate);
  const senders = [{ keyId: KEY_ID, organisation: 'default' }];
  const found = await checkLedger(data, events, senders, [fates.bytes]);
  expect(found).toMatchObject({
    ...{ stored: 6, acknowledged: 3, unanswered: 1 },
    lost: { first: [events.id(0, 6)] },
    twice: { count: 0 },
    changed: { first: [events.id(0, 4)] },
    refused: { first: [events.id(0, 1)] },
    notSent: { count: 2 },
  });
});

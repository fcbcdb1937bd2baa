/** Random erasures, many of them cut off, with compactions between: nothing comes back, and nothing else goes. */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { SALT_BYTES } from '@clinical-events/protocol';
import { random, runs } from '../../../../../test/property-runs.js';
import { nodeFiles } from '../../../src/files.js';
import { layRequest, Lifecycle } from '../../../src/ledger/lifecycle.js';
import { KeyReader, keysOnDisk } from '../../../src/privacy/key-directory.js';
import { SequenceSet } from '../../../src/privacy/sequence-set.js';
import { compactLog } from '../../../src/store/embedded/compacted-segment.js';
import { EmbeddedStore } from '../../../src/store/embedded/embedded-store.js';
import { Inbox } from '../../../src/store/embedded/inbox.js';
import { noteKeyPlaces } from '../../../src/store/key-places.js';
import { LogReader } from '../../../src/store/embedded/log-reader.js';
import { candidate } from '../candidate.js';
import { encryptionIn } from './filled-directory.js';
import { killedAt } from './killed-files.js';

const ERASURES = runs(1000, 100);
const EVENTS = 6000;
const KILL_EACH = 2;
const COMPACT_EACH = ERASURES / 10;

test('[R-1335] of many erasures, half of them killed, each is done or none of it is', async () => {
  const root = fs.mkdtempSync(
    path.join(fs.existsSync('/dev/shm') ? '/dev/shm' : os.tmpdir(), 'collector-erasures-'),
  );
  onTestFinished(() => fs.rmSync(root, { recursive: true, force: true }));
  const dataDir = path.join(root, 'data');
  const places = { directories: ['keys', 'mirror'].map((name) => path.join(root, name)), kek: '' };
  const open = async (files = nodeFiles) => {
    const store = await EmbeddedStore.open({
      ...{ directory: dataDir, segmentBytes: 256 << 10, files, onTrouble: () => undefined },
      encryption: encryptionIn(dataDir, { directories: places.directories, files }),
    });
    const lifecycle = new Lifecycle({
      ...{
        requests: new Inbox(dataDir),
        actions: store.actions,
        keys: store.keys,
        onTrouble: () => undefined,
      },
      keysIn: (lists, signal) => store.keysIn(lists, signal),
      append: async (entry) => {
        await store.append([entry]);
      },
    });
    return { store, lifecycle };
  };
  const sent = Array.from({ length: EVENTS }, (_, i) =>
    candidate({ organisation: i % 3 === 0 ? 'icu' : 'ed', body: { text: `Lactate ${i}` } }),
  );
  let opened = await open();
  await noteKeyPlaces(dataDir, places);
  for (let at = 0; at < EVENTS; at += 100) await opened.store.append(sent.slice(at, at + 100));
  // Sequences, and the tags of their buckets.
  const log = new LogReader(dataDir, nodeFiles);
  const tags = new Map<number, { tag: number; organisation: string }>();
  for await (const batch of log.pass())
    for (const { sequence, organisation, bucket = 0 } of batch)
      tags.set(sequence, { tag: bucket, organisation });
  await log.close();

  for (let erasure = 1; erasure <= ERASURES; erasure++) {
    const sequences = Array.from({ length: 1 + random.below(4) }, () => 1 + random.below(EVENTS));
    const keys = ['icu', 'ed'].flatMap((organisation) => {
      const own = sequences.filter((sequence) => tags.get(sequence)?.organisation === organisation);
      const tag = tags.get(own[0] ?? 0)?.tag;
      return tag === undefined ? [] : [{ tag, organisation, sequences: SequenceSet.of(own) }];
    });
    const action = {
      action: randomUUID(),
      does: 'retire',
      reason: 'test-data',
      part: 1,
      parts: 1,
      keys,
    } as const;
    await layRequest(new Inbox(dataDir), { action, considered: { policy: null, holds: [] } });
    if (erasure % KILL_EACH === 0) {
      await opened.store.close();
      try {
        const killed = await open(killedAt(1 + random.below(60)).files);
        await killed.lifecycle.look();
        await killed.store.close();
      } catch {
        // It was killed while it was opened or closed.
      }
      opened = await open();
    }
    await opened.lifecycle.look();
    if (erasure % COMPACT_EACH === 0)
      await compactLog(dataDir, opened.store.actions.retired, () => undefined);
  }
  expect(opened.store.actions.undone()).toEqual([]);
  const { retired } = opened.store.actions;
  await opened.store.close();
  expect(retired.size).toBeGreaterThan(ERASURES);

  const reader = new LogReader(dataDir, nodeFiles);
  onTestFinished(() => reader.close());
  const keys = KeyReader.open(keysOnDisk, places);
  let [opens, gone] = [0, 0];
  for await (const batch of reader.entries()) {
    for (const { sequence, kind, payloadState, salted } of batch) {
      if (typeof kind === 'number') continue;
      const { tag = 0, organisation = '' } = tags.get(sequence) ?? {};
      if (retired.has(sequence)) {
        gone++;
        expect([sequence, payloadState]).toEqual([sequence, 'retired']);
        expect(keys?.keyOf(tag, organisation, sequence)).toBeUndefined();
      } else {
        opens++;
        expect(salted.toString('utf8', SALT_BYTES)).toBe(sent[sequence - 1]?.body.toString());
      }
    }
  }
  expect([opens + gone, gone]).toEqual([EVENTS, retired.size]);
});

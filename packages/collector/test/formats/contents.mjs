// The content of a directory of the formats test as the collector reads it, in the form that decoder.py prints.
import { createHash, createSecretKey } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { encodeLeaf, LEAF_BYTES, SALT_BYTES } from '../../../protocol/dist/index.js';
import { Actions } from '../../dist/privacy/actions.js';
import { readKeys } from '../../dist/privacy/key-directories.js';
import { unwrapped } from '../../dist/privacy/opened-vault.js';
import { openKek } from '../../dist/privacy/key-encryption-key.js';
import { decodeKeyState, keyStateHeader } from '../../dist/privacy/key-state.js';
import { KeyTree } from '../../dist/privacy/key-tree.js';
import { nodeFiles } from '../../dist/files.js';
import * as compacted from '../../dist/store/embedded/compacted-segment.js';
import {
  decodeFrame,
  envelopeEnd,
  frameActionBefore,
  frameDurableBefore,
} from '../../dist/store/embedded/frame.js';
import { readFrames } from '../../dist/store/embedded/log-frames.js';
import { bucketOf, FrameOpener } from '../../dist/store/embedded/sealed-frame.js';
import { listSegments } from '../../dist/store/embedded/segment.js';
import { encodedLeafHash, hashNode } from '../../dist/tree/merkle.js';

const sha256 = (bytes) => createHash('sha256').update(bytes).digest();
const hex = (bytes) => Buffer.from(bytes).toString('hex');
const latin1 = (text) => Buffer.from(text, 'latin1').toString('hex');

/** @param directory has `ledger` and, for encrypted payloads, `keys` with the file `kek`. */
export async function contentsOf(directory) {
  const segments = listSegments(compacted.segmentFiles, path.join(directory, 'ledger'));
  const keys = path.join(directory, 'keys');
  const hasKeys = fs.existsSync(keys);
  const opener = new FrameOpener(() => (hasKeys ? readKeys({ directories: [keys], kek: '' }) : undefined), {
    asksTag: true,
  });
  const entries = [];
  const actions = new Actions();
  for (const frame of readFrames(compacted.segmentFiles, segments)) {
    const entry = entryOf(frame, opener);
    entry.segment = segments.findLastIndex(({ base }) => base <= frame.address);
    entries.push(entry);
    if (entry.kind === 0x80) actions.add(entry.sequence, entry.received_at, Buffer.from(entry.body));
  }
  return {
    segments: segments.map(segmentOf),
    entries,
    root: hex(rootOf(entries.map((entry) => Buffer.from(entry.leaf_hash, 'hex')))),
    actions: actions.logged.map(actionOf),
    keys: hasKeys ? statesIn(keys) : {},
    notes: hasKeys ? jsonIn(path.join(keys, 'actions')) : [],
  };
}

function entryOf({ buffer, offset, size, address }, opener) {
  const state = ['plain', 'encrypted', 'erased'][buffer[offset + 9]];
  const bucket = bucketOf(buffer, offset);
  const suite = bucket === undefined ? undefined : buffer.readUInt32LE(envelopeEnd(buffer, offset));
  const opening = opener.open(buffer, offset, size);
  const entry = decodeFrame(buffer, offset);
  const leaf = Buffer.alloc(LEAF_BYTES);
  encodeLeaf(leaf, 0, entry.envelope, sha256(entry.envelope), entry.commitment);
  const leafHash = Buffer.alloc(32);
  encodedLeafHash(leaf, leafHash, 0);
  const before = frameActionBefore(buffer, offset);
  return {
    ...{ sequence: entry.sequence, durable_before: frameDurableBefore(buffer, offset), size },
    ...{ kind: entry.kind, profile: entry.profile, door: entry.door, received_at: entry.receivedAt },
    ...{ event_id: entry.eventId, run_id: entry.runId ?? null, parent_id: entry.parentId ?? null },
    ...{ organisation: entry.organisation, key_id: entry.keyId },
    ...{ state, commitment: hex(entry.commitment), leaf: hex(leaf), leaf_hash: hex(leafHash) },
    ...(bucket !== undefined && { bucket: bucket.toString(16).padStart(8, '0') }),
    ...(suite !== undefined && { suite }),
    ...(before !== undefined && { action_before: before }),
    ...(opening === 'plain' && {
      salt: hex(entry.salted.subarray(0, SALT_BYTES)),
      body: entry.body.toString(),
    }),
    address,
  };
}

function segmentOf({ path: file, base, firstSequence, ledgerId, ownBefore, actionBefore }) {
  return {
    ...{ name: path.basename(file), compactions: compactionsIn(file), address: base },
    ...{ first_sequence: firstSequence, created: Number(fs.readFileSync(file).readBigUInt64LE(32)) },
    ...{ ledger: ledgerId, own_before: ownBefore, action_before: actionBefore },
  };
}

function compactionsIn(file) {
  return compacted
    .compactionsOf(nodeFiles, file)
    .map(({ through, at, entryId }) => ({ through, at, entry_id: entryId }));
}

/** RFC 6962, section 2.1. */
function rootOf(hashes) {
  if (hashes.length === 1) return hashes[0];
  let half = 1;
  while (half * 2 < hashes.length) half *= 2;
  const root = Buffer.alloc(32);
  hashNode(Buffer.concat([rootOf(hashes.slice(0, half)), rootOf(hashes.slice(half))]), 0, root, 0);
  return root;
}

function actionOf({ sequence, said }) {
  const erased = said.keys?.map(({ organisation, sequences }) => ({
    ...{ organisation, sequences: [...sequences].flatMap(numbersOf) },
  }));
  return { sequence, action: said.action, does: said.does, ...(erased && { erased }) };
}

const numbersOf = ({ first, end }) => Array.from({ length: end - first }, (_, i) => first + i);

function statesIn(directory) {
  const kek = openKek(`file:${path.join(directory, 'kek')}`);
  const epochs = new Map(
    jsonIn(path.join(directory, 'epochs')).map((record) => [
      record.epoch,
      createSecretKey(unwrapped(kek, record)),
    ]),
  );
  const names = fs.readdirSync(directory, { recursive: true, encoding: 'utf8' });
  return Object.fromEntries(
    names
      .filter((name) => name.endsWith('.keys'))
      .sort()
      .map((name) => [name, stateOf(fs.readFileSync(path.join(directory, name)), epochs)]),
  );
}

function stateOf(bytes, epochs) {
  const { kind, ledgerId, bucketId, firstSequence, generation, epoch, trees } = decodeKeyState(
    bytes,
    epochs.get(keyStateHeader(bytes).epoch),
  );
  const listed = [...trees];
  const nodes = listed.map(([name, list]) => [
    name,
    list.map(({ level, index, value }) => ({ level, index, value: latin1(value) })),
  ]);
  const first = (list) => latin1Or(new KeyTree(bucketId, list).keyAt(0));
  const keys = listed.map(([name, list]) => [name, first(list)]);
  return {
    ...{ kind: ['bucket', 'hold', 'names'][kind - 1], ledger: ledgerId, bucket_id: hex(bucketId) },
    ...{ first_sequence: firstSequence, generation, epoch, trees: Object.fromEntries(nodes) },
    ...(kind !== 1 && { keys: Object.fromEntries(keys) }),
  };
}

const latin1Or = (key) => (key === undefined ? null : latin1(key));

function jsonIn(directory) {
  if (!fs.existsSync(directory)) return [];
  return fs
    .readdirSync(directory)
    .sort()
    .map((name) => JSON.parse(fs.readFileSync(path.join(directory, name), 'utf8')));
}

if (process.argv[1] === import.meta.filename)
  process.stdout.write(JSON.stringify(await contentsOf(process.argv[2] ?? '')));

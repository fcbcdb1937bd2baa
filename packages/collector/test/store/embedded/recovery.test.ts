import fs from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { nodeFiles } from '../../../src/files.js';
import { encodeFrame, frameSize, HEADER_BYTES } from '../../../src/store/embedded/frame.js';
import { judgeTail, type Tail } from '../../../src/store/embedded/segment.js';
import { temporaryDirectory } from '../../running/collector-process.js';
import { candidate } from '../candidate.js';
import { growth, LINEAR } from '../../running/growth.js';

function judged(bytes: Buffer): Tail {
  const directory = temporaryDirectory();
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  const file = path.join(directory, 'tail');
  fs.writeFileSync(file, bytes);
  const fd = fs.openSync(file, 'r');
  try {
    return judgeTail(nodeFiles, fd, 0, 7);
  } finally {
    fs.closeSync(fd);
  }
}

function frame(sequence: number, durableBefore: number): Buffer {
  const event = candidate({});
  const bytes = Buffer.alloc(frameSize(event));
  encodeFrame(bytes, 0, event, sequence, durableBefore);
  return bytes;
}

test('a frame that proves the unreadable one was durable is found after any number of others', () => {
  const batch = Array.from({ length: 500 }, (_, i) => frame(8 + i, 7));
  expect(judged(Buffer.concat([Buffer.from('cut'), ...batch])).state).toBe('torn');
  expect(judged(Buffer.concat([Buffer.from('cut'), ...batch, frame(508, 508)]))).toEqual({
    state: 'damaged',
    witnessSequence: 508,
  });
});

test('headers of nested frames count as damage, and are judged in linear time', () => {
  const judge = (bytes: number) => {
    const nested = Buffer.alloc(bytes);
    for (let at = 1; at + HEADER_BYTES <= nested.length; at += HEADER_BYTES) {
      nested.writeUInt32LE(nested.length - at, at + 4);
      nested[at + 8] = 1;
      nested.writeUInt32LE(nested.length - at - HEADER_BYTES, at + 12);
      nested.writeUInt32LE(9, at + 16);
      nested.writeUInt32LE(9, at + 24);
    }
    expect(judged(nested)).toEqual({ state: 'damaged', witnessSequence: 9 });
  };
  expect(growth(judge, 1 << 19)).toBeLessThan(LINEAR);
});

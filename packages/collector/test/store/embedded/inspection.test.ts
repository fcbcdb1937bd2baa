import fs from 'node:fs';
import { beforeEach, expect, onTestFinished, test } from 'vitest';
import { nodeFiles } from '../../../src/files.js';
import { frameSize } from '../../../src/store/embedded/frame.js';
import { inspectLedger } from '../../../src/store/embedded/inspection.js';
import { temporaryDirectory } from '../../running/collector-process.js';
import { candidate } from '../candidate.js';
import { fillDirectory } from './filled-directory.js';

let dataDir: string;

beforeEach(() => {
  dataDir = temporaryDirectory();
  onTestFinished(() => fs.rmSync(dataDir, { recursive: true, force: true }));
});

test.each([1, 40, 700])(
  'of %d events, progress counts their bytes and not the room behind them',
  async (count) => {
    const events = Array.from({ length: count }, () => candidate({ body: { filler: 'x'.repeat(20_000) } }));
    const batches = Array.from({ length: Math.ceil(count / 10) }, (_, i) =>
      events.slice(i * 10, i * 10 + 10),
    );
    await fillDirectory(dataDir, batches, 8 << 20);
    const told: [number, number][] = [];
    const findings = [...inspectLedger(dataDir, nodeFiles, (bytes, of) => told.push([bytes, of]))];
    expect(findings[0]?.message).toMatch(new RegExp(`^${count} events? in `));
    const used = events.reduce((bytes, event) => bytes + frameSize(event), 0);
    for (const [bytes, of] of told) {
      expect(Math.abs(of - used)).toBeLessThanOrEqual(4096);
      expect(bytes).toBeLessThanOrEqual(of);
    }
    expect(told.at(-1)?.[0]).toBe(told.at(-1)?.[1]);
    expect(told.length).toBeGreaterThan(used / (1 << 20));
  },
);

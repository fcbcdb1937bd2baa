/** One collector for all tests of a file, on a data directory that is deleted with it. */
import fs from 'node:fs';
import { afterAll, beforeAll } from 'vitest';
import { limits, start, temporaryDirectory, type Running } from './collector-process.js';
import { issueKey } from './issued-keys.js';

export interface OneCollector {
  readonly dataDir: string;
  readonly port: number;
  readonly pid: number;
  /** Of the organisation `default`, with all permissions. */
  readonly key: string;
  readonly running: Running;
}

/**
 * Call at the top of a test file. What is returned is filled in before the first test runs.
 * @param prepare runs on the data directory before the collector starts.
 */
export function oneCollector(
  args: readonly string[] = [],
  prepare: (dataDir: string) => Promise<void> = () => Promise.resolve(),
): OneCollector {
  const collector: { -readonly [Name in keyof OneCollector]: OneCollector[Name] } = {
    dataDir: '',
    port: 0,
    pid: 0,
    key: '',
    running: undefined as unknown as Running,
  };
  beforeAll(async () => {
    collector.dataDir = temporaryDirectory();
    collector.key = (await issueKey(collector.dataDir)).text;
    await prepare(collector.dataDir);
    // Small segments: each reading of the log looks through all of the last one.
    const segments = args.includes('--config') ? [] : limits({ 'segment-bytes': '2MiB' });
    collector.running = await start(collector.dataDir, [...segments, ...args]);
    collector.port = collector.running.port;
    collector.pid = collector.running.process.pid ?? 0;
  });
  afterAll(async () => {
    // SIGTERM: every file also tests that it ends in order, with everything that the tests left open.
    await collector.running.stop();
    fs.rmSync(collector.dataDir, { recursive: true, force: true });
  });
  return collector;
}

/**
 * In CI, where a machine is shared and may be late with anything, a failed test is run once more, except one in a
 * file that checks acknowledged events after a kill, a fault, a restart or a repair: there one failure in a
 * thousand runs is a lost event.
 */
import { readFileSync } from 'node:fs';
import { expect, vi } from 'vitest';

const ROOMS = /\/(postgres\/test|store|ledger|tree|catalogue|backup|privacy|spool|verify)\//;
// A process that is killed when its test is over is no fault.
const WORDS =
  /SIGKILL|(?<!=> (?:void )?[\w.]+)\.kill\((?!'SIGHUP')|fsync|flush|\b(torn|faults?|lost|verify|doctor)\b|recover|restore|acknowledge|spool|stored(Events|Bodies)|property-runs/i;

const { testPath = '' } = expect.getState();
if (process.env['CI'] === 'true' && !ROOMS.test(testPath) && !WORDS.test(readFileSync(testPath, 'utf8')))
  vi.setConfig({ retry: 1 } as Parameters<typeof vi.setConfig>[0]);

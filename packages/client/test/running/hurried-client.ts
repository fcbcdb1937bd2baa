/** Clients for tests, with short delays. They are closed when the test is finished. */
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Profile } from '@clinical-events/protocol';
import { onTestFinished } from 'vitest';
import { Client, type SendingPace } from '../../src/client.js';
import type { QuarantinedEvent, RefusedCapture } from '../../src/listeners.js';
import type { ClientOptions } from '../../src/options.js';

/** A long wait for answers: on a busy machine, which both ends share, they may be late. */
const PACE: SendingPace = { backoff: { firstMs: 5, longestMs: 100 }, slowMs: 200, patienceMs: 600_000 };

export function temporaryDirectory(): string {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'client-'));
  onTestFinished(() => fs.rmSync(directory, { recursive: true, force: true }));
  return path.join(directory, 'spool');
}

export interface HurriedClient<P extends Profile> {
  readonly log: Client<P>;
  readonly troubles: string[];
  readonly refusals: RefusedCapture[];
  readonly quarantined: QuarantinedEvent[];
}

export function hurriedClient<P extends Profile = 'minimum'>(
  options: Pick<ClientOptions<P>, 'url'> & Partial<ClientOptions<P>>,
  pace: SendingPace = {},
): HurriedClient<P> {
  const [troubles, refusals, quarantined]: [string[], RefusedCapture[], QuarantinedEvent[]] = [[], [], []];
  const log = new Client<P>(
    {
      ...{ apiKey: 'key', spool: { durability: 'memory' } },
      onTrouble: (what) => troubles.push(what),
      onRefused: (refused) => refusals.push(refused),
      onQuarantine: (event) => quarantined.push(event),
      ...options,
    },
    { ...PACE, ...pace },
  );
  // A busy machine takes longer than an application waits.
  const flush = log.flush.bind(log);
  log.flush = (timeoutMs?: number) => flush(timeoutMs ?? 1_200_000);
  onTestFinished(async () => {
    await log.close({ timeoutMs: 0 });
  });
  return { log, troubles, refusals, quarantined };
}

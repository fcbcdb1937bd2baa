/** `collector names` as a process on a data directory. */
import fs from 'node:fs';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { id } from '../records/run-events.js';
import { run, temporaryDirectory } from '../running/collector-process.js';
import { candidate, type Made } from '../store/candidate.js';
import { fillDirectory } from '../store/embedded/filled-directory.js';

function start(n: number, model: string, version: string | undefined, user: string): Made {
  const body = {
    ...{ event_id: id(n), run_id: id(n), timestamp: '2026-03-01T00:00:00Z', protocol_version: '0.0.1' },
    model_instance: { model_id: model, model_version: version },
    ...{ user_identity: { caller_id: user }, system_metadata: { app_name: 'triage' } },
  };
  return candidate({ eventId: id(n), runId: id(n), kind: 'inference-start', body });
}

const STARTS = [
  ...[start(1, 'risk', '1', 'dr-a'), start(2, 'risk', '1', 'dr-a'), start(3, 'risk', '1', 'dr-b')],
  ...[start(4, 'risk', '2', 'dr-a'), start(5, 'risk', '2', 'dr-b'), start(6, '\u001b[2J', undefined, 'dr-c')],
];

let dataDir: string;

beforeEach(async () => {
  dataDir = temporaryDirectory();
  await fillDirectory(dataDir, [STARTS]);
});

afterEach(() => {
  fs.rmSync(dataDir, { recursive: true, force: true });
});

const names = (...args: readonly string[]) => run(['names', '--data-dir', dataDir, ...args]);

test('[R-1040] collector names prints an overview, or with a kind a list, as text and as JSON', async () => {
  expect((await names()).stdout).toMatch(/^models +2 +risk \(5\), \\u001b\[2J \(1\)$/m);
  expect((await names('models')).stdout).toMatch(/^risk +1 +3\nrisk +2 +2\n\\u001b\[2J +- +1\n/m);
  expect(await names('users', '--limit', '1', '--json', '--model', 'risk@2')).toEqual({
    code: 0,
    stdout: '{"caller_id":"dr-a","runs":1}\n',
    stderr: expect.stringContaining('--limit all\n') as string,
  });
  const objects = (await names('--json')).stdout
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line) as object);
  expect(objects).toEqual([
    {
      ...{ kind: 'models', count: 2 },
      most_runs: [
        { model_id: 'risk', runs: 5 },
        { model_id: '\u001b[2J', runs: 1 },
      ],
    },
    { kind: 'apps', count: 1, most_runs: [{ app_name: 'triage', runs: 6 }] },
    {
      ...{ kind: 'users', count: 3 },
      most_runs: [
        { caller_id: 'dr-a', runs: 3 },
        { caller_id: 'dr-b', runs: 2 },
        { caller_id: 'dr-c', runs: 1 },
      ],
    },
    { kind: 'organisations', count: 1, most_runs: [{ organisation: 'default', runs: 6 }] },
  ]);
});

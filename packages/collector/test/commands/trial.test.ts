import fs from 'node:fs';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { launch, outcomeEvent, run } from '../running/collector-process.js';
import { post } from '../running/load.js';
import { scratch } from '../running/scratch.js';

const ENDPOINTS =
  '/event/inference-start, /event/internal-artifact, /event/human-output, /event/outcome, /event/user-feedback';

test('[R-873] a trial reports why each event is refused, or would be under profile full, and keeps nothing', async () => {
  const parent = scratch();
  const kept = path.join(scratch(), 'kept');
  const trial = launch(['serve', '--trial', '--port', '0'], {
    env: { TMPDIR: parent, COLLECTOR_DATA_DIR: kept, COLLECTOR_SIGNING_KEYS: kept },
  });
  onTestFinished(() => void trial.process.kill('SIGKILL'));
  const shown = () => expect.poll(() => trial.output.stdout);
  await shown().toMatch(/console/);
  const [directory = ''] = fs.readdirSync(parent);
  expect(trial.output.stdout).toContain(`${path.join(parent, directory)} and deleted when it ends`);
  const [, port = ''] = /http:\/\/127\.0\.0\.1:(\d+)\/event/.exec(trial.output.stdout) ?? [];
  const [key = ''] = /cek_\w+/.exec(trial.output.stdout) ?? [];

  const good = outcomeEvent();
  const faulty = outcomeEvent({
    protocol_version: '9.9',
    feedback: { feedback_type: 'stars', rating_value: '5', comment: 'Mrs X' },
  });
  const send = async (kind: string, event: object | string) => {
    const body = typeof event === 'string' ? event : JSON.stringify(event);
    const { status, headers } = await post(Number(port), key, body, { kind });
    return { status, request: String(headers['x-request-id']) };
  };
  const first = await send('outcome', good);
  const second = await send('user-feedback', faulty);
  const third = await send('outcome', outcomeEvent({ event_id: 'no id' }));
  const fourth = await send('outcome', '{"MRN": NaN}');
  expect([first, second, third, fourth].map(({ status }) => status)).toEqual([201, 201, 400, 400]);
  const near = await send('outcom?mrn=MRN-4711', good);
  const far = await send('MRN-4711', good);
  expect([near, far].map(({ status }) => status)).toEqual([404, 404]);
  await shown()
    .toContain(`201 outcome ${good.event_id} (request ${first.request}): valid under profile full too
201 user-feedback ${faulty.event_id} (request ${second.request}): profile full would refuse it:
      /feedback/feedback_type (enum): must be one of rating, thumbs, text, survey
      /feedback/rating_value (type): must be a number from 0 to 5
      warning: /protocol_version is not 0.0.1; any version is accepted
400 outcome (request ${third.request}): validation_failed: The event is not valid.
      /event_id (format): must be a UUID
400 outcome (request ${fourth.request}): invalid_json: The body is not JSON: NaN and Infinity are not JSON values at line 1, column 9.
404 (request ${near.request}): not_found: no such endpoint; did you mean "/event/outcome"?
404 (request ${far.request}): not_found: no such endpoint; the endpoints are ${ENDPOINTS}
`);
  expect(trial.output.stderr).not.toMatch(/refused|validation_failed/);

  trial.process.kill('SIGTERM');
  expect(await trial.exited).toBe(0);
  expect(fs.readdirSync(parent)).toEqual([]);
  expect(fs.existsSync(kept)).toBe(false);
  expect(trial.output.stdout).toMatch(/The trial has ended: .* deleted\.\n$/);
  expect(trial.output.stdout).not.toMatch(/stars|Mrs X|no id|9\.9|MRN[-"]/);
  expect(trial.output.stdout).not.toContain('Copy it to a safe place');
  expect(trial.output.stderr).toMatch(/^\d\d:\d\d:\d\d INFO {2}listening host=/m);
});

test.each([
  [['--data-dir', 'd', '--signing-keys', 'k'], {}, ['--data-dir', '--signing-keys']],
  [['--checkpoint-sink', 'dir:s'], {}, ['--checkpoint-sink']],
  [['--signing-keys', 'command:/bin/true'], {}, ['--signing-keys']],
  [[], { COLLECTOR_CHECKPOINT_SINK: 'dir:s' }, ['COLLECTOR_CHECKPOINT_SINK']],
])(
  '[R-873] a trial with %j and %j is refused, since that would outlive it',
  async (options, env, sources) => {
    const parent = scratch();
    const { code, stderr } = await run(['serve', '--trial', ...options], { env: { TMPDIR: parent, ...env } });
    expect(code).toBe(2);
    const said = stderr.trimEnd().split('\n');
    expect(said.map((line) => line.split(': ', 2)[1])).toEqual(sources);
    for (const line of said) expect(line).toContain('cannot be combined with --trial');
    expect(fs.readdirSync(parent)).toEqual([]);
  },
);

test('[R-873] a trial that does not start deletes its directory and does not mention it', async () => {
  const parent = scratch();
  const { code, stdout } = await run(['serve', '--trial', '--tls-cert', 'c.pem'], {
    env: { TMPDIR: parent },
  });
  expect(code).toBe(2);
  expect(stdout).toBe('');
  expect(fs.readdirSync(parent)).toEqual([]);
});

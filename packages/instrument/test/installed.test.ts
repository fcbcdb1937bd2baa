/** The package as an application installs it. Needs packages/*\/dist. */
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { fakeCollector } from '../../client/test/running/fake-collector.js';
import { applicationWith } from '../../client/test/running/installed-packages.js';
import { json, modelServer } from './recording.js';

const PROGRAM = `
import { createClient } from '@clinical-events/client';
import { captureMiddleware } from '@clinical-events/instrument/ai-sdk';
import { anthropicFetch } from '@clinical-events/instrument/anthropic';
import { RunCallbackHandler } from '@clinical-events/instrument/langchain';
import { openaiFetch } from '@clinical-events/instrument/openai';
import { RunSpanProcessor } from '@clinical-events/instrument/opentelemetry';

const [, , collector, model] = process.argv;
const log = createClient({ url: collector, apiKey: 'key', spool: { durability: 'memory' } });
for (const make of [captureMiddleware, anthropicFetch]) make(log);
for (const Made of [RunCallbackHandler, RunSpanProcessor]) new Made(log);
const body = JSON.stringify({ model: 'm', messages: [] });
await (await openaiFetch(log)(model + '/v1/chat/completions', { method: 'POST', body })).json();
await log.close();
`;

test('[R-1400] the packed package installs in an empty directory, and each export loads', async () => {
  const directory = await applicationWith('protocol', 'client', 'instrument');
  fs.writeFileSync(path.join(directory, 'app.mjs'), PROGRAM);
  const collector = await fakeCollector();
  const message = { role: 'assistant', content: 'yes' };
  const model = await modelServer((response) =>
    json(response, { id: 'r1', model: 'm', choices: [{ index: 0, finish_reason: 'stop', message }] }),
  );
  const args = ['app.mjs', collector.url, model.url];
  const { stderr } = await promisify(execFile)(process.execPath, args, { cwd: directory });
  expect(stderr).toBe('');
  expect(collector.accepted.map(({ path: at }) => at)).toEqual([
    ...['/event/inference-start', '/event/human-output'],
  ]);
});

/** A client that a public generator makes from our OpenAPI document, posting to a real collector. */
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import { createClient } from '@hey-api/openapi-ts';
import { afterAll, beforeAll, expect, test } from 'vitest';
import {
  createKey,
  start,
  storedEvents,
  temporaryDirectory,
  type Running,
} from './running/collector-process.js';

interface Answer {
  readonly data?: unknown;
  readonly error?: unknown;
  readonly response: Response;
}
type Operation = (options: {
  baseUrl: string;
  auth: () => string;
  body: Record<string, unknown>;
}) => Promise<Answer>;

/** Inside the repository, so that Vitest compiles it; ignored by git and removed afterwards. */
const OUTPUT = path.join(import.meta.dirname, 'generated-client');
const DOCUMENT = path.resolve(import.meta.dirname, '../../protocol/openapi.json');

let dataDir: string;
let collector: Running;
let key: string;
let client: Record<string, Operation>;

beforeAll(async () => {
  await createClient({
    input: DOCUMENT,
    output: OUTPUT,
    plugins: ['@hey-api/client-fetch', '@hey-api/typescript', '@hey-api/sdk'],
    logs: { level: 'silent' },
  });
  client = (await import(path.join(OUTPUT, 'sdk.gen.ts'))) as Record<string, Operation>;
  dataDir = temporaryDirectory();
  key = await createKey(dataDir);
  collector = await start(dataDir);
});

afterAll(async () => {
  await collector.stop();
  fs.rmSync(OUTPUT, { recursive: true, force: true });
  fs.rmSync(dataDir, { recursive: true, force: true });
});

function base(): Record<string, unknown> {
  return {
    event_id: randomUUID(),
    timestamp: new Date().toISOString(),
    protocol_version: '0.0.1',
    system_metadata: { app_name: 'generated' },
  };
}

function post(operation: string, body: Record<string, unknown>): Promise<Answer> {
  const call = client[operation];
  if (call === undefined) throw new Error(`the generated client has no ${operation}`);
  return call({ baseUrl: collector.url, auth: () => key, body });
}

test('[R-315] a client generated from the OpenAPI document posts all five kinds', async () => {
  const runId = randomUUID();
  const answers = [
    await post('recordInferenceStart', { ...base(), run_id: runId, inputs: { prompt: 'Summarise.' } }),
    await post('recordInternalArtifact', {
      ...base(),
      run_id: runId,
      artifact: { artifact_type: 'tool_call', artifact_uri: 'urn:example:call:1' },
    }),
    await post('recordHumanOutput', { ...base(), run_id: runId, output: { summary: 'Stable.' } }),
    await post('recordOutcome', { ...base(), run_id: runId, outcome: { outcome_type: 'validated' } }),
    await post('recordUserFeedback', { ...base(), run_id: runId, feedback: { feedback_type: 'thumbs' } }),
  ];
  for (const { response, data } of answers) {
    expect(response.status).toBe(201);
    expect(data).toEqual({ status: 'accepted' });
  }
  const stored = await storedEvents(dataDir, '--run', runId);
  expect(stored.map(({ kind }) => kind)).toEqual([
    'inference-start',
    'internal-artifact',
    'human-output',
    'outcome',
    'user-feedback',
  ]);
});

test('[R-401] the generated client reads an error as the document describes it', async () => {
  const { response, error } = await post('recordOutcome', { ...base(), outcome: 'not an object' });
  expect(response.status).toBe(400);
  expect(error).toMatchObject({ code: 'validation_failed', details: { issues: [{ pointer: '/outcome' }] } });
});

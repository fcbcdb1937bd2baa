/** The programs in examples/, run as their README says. */
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { type EventKind } from '@clinical-events/protocol';
import { validateEvent } from '@clinical-events/protocol/validate';
import { expect, test } from 'vitest';
import { temporaryDirectory } from './running/hurried-client.js';
import { realCollector } from './running/real-collector.js';

const CHAT = path.resolve(import.meta.dirname, '../../../examples/chat/chat.mjs');

async function chat(url: string, apiKey: string, directory: string, lines: readonly string[]) {
  const env = { ...process.env, COLLECTOR_URL: url, COLLECTOR_KEY: apiKey };
  const child = spawn(process.execPath, [CHAT, directory], { env });
  const printed = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (printed.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (printed.stderr += text));
  child.stdin.end(lines.map((line) => `${line}\n`).join(''));
  const code = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { code, ...printed };
}

test('[R-861] the example chat records each answer completely', async () => {
  const collector = await realCollector();
  const { url, apiKey } = collector;
  const directory = temporaryDirectory();
  const talk = ['How do I start metoprolol?', '+', 'And what of the weather?', '-'];
  const { code, stdout, stderr } = await chat(url, apiKey, directory, talk);
  expect(stderr).toBe('');
  expect(code).toBe(0);
  expect(stdout).toContain('25 mg twice a day');
  const events = [...(await collector.stored()).values()].map(
    (body) => JSON.parse(body) as Record<string, object>,
  );
  const with_ = (field: string) => events.filter((event) => field in event);
  expect(with_('inputs')).toHaveLength(2);
  expect(with_('artifact')).toHaveLength(3);
  expect(with_('output')).toHaveLength(2);
  expect(with_('feedback')).toHaveLength(2);
  const kinds = [
    ...[['inputs', 'inference-start'] as const, ['artifact', 'internal-artifact'] as const],
    ...[['output', 'human-output'] as const, ['feedback', 'user-feedback'] as const],
  ] satisfies (readonly [string, EventKind])[];
  for (const [field, kind] of kinds) {
    for (const event of with_(field)) expect(validateEvent(kind, 'full', event)).toBeUndefined();
  }
  for (const { output } of with_('output') as unknown as { output: { output_uri: string } }[]) {
    const hash = output.output_uri.replace('sha256:', '');
    const content = fs.readFileSync(path.join(directory, 'content', hash.slice(0, 2), hash), 'utf8');
    expect(stdout).toContain(content);
  }
});

test('[R-862] the chat works without a collector, and its next start sends the events', async () => {
  const directory = temporaryDirectory();
  const alone = await chat('http://127.0.0.1:9', 'key', directory, ['What about heparin?']);
  expect(alone.code).toBe(0);
  expect(alone.stdout).toContain('platelets');
  expect(alone.stderr).toContain('4 events wait');
  const collector = await realCollector();
  const { url, apiKey } = collector;
  expect((await chat(url, apiKey, directory, [])).code).toBe(0);
  expect((await collector.stored()).size).toBe(4);
});

/** What the README shows: the programs run, and every snippet passes the compiler. Needs packages/client/dist. */
import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { promisify } from 'node:util';
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import { validateEvent } from '@clinical-events/protocol/validate';
import { expect, test } from 'vitest';
import { fakeCollector } from './running/fake-collector.js';
import { temporaryDirectory } from './running/hurried-client.js';
import { faultsOf, readmeOf, snippetsOf } from './running/readme-snippets.js';

const PACKAGE = path.resolve(import.meta.dirname, '..');
const readme = readmeOf(PACKAGE);
const snippets = snippetsOf(readme);
const [CHAT = '', LATER = ''] = snippets;
const TAKEN_AS_SAID = "'http://127.0.0.1:8080'";

/** A directory like that of an application that has installed the package. */
function applicationDirectory(): string {
  const directory = path.dirname(temporaryDirectory());
  const scope = path.join(directory, 'node_modules/@clinical-events');
  fs.mkdirSync(scope, { recursive: true });
  for (const name of ['client', 'protocol']) {
    fs.symlinkSync(path.join(PACKAGE, '..', name), path.join(scope, name));
  }
  return directory;
}

async function program(directory: string, name: string, code: string, input = '') {
  fs.writeFileSync(path.join(directory, name), code);
  const child = spawn(process.execPath, [name], { cwd: directory, env: { COLLECTOR_KEY: 'cek_of_readme' } });
  const ended = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (ended.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (ended.stderr += text));
  child.stdin.end(input);
  const code_ = await new Promise<number | null>((resolve) => child.on('close', resolve));
  return { code: code_, ...ended };
}

test('[R-861] the application of the README runs, and so does its code for later events', async () => {
  const collector = await fakeCollector();
  const directory = applicationDirectory();
  const here = (code: string) => code.replace(TAKEN_AS_SAID, `'${collector.url}'`);
  expect(CHAT).toContain(TAKEN_AS_SAID);
  const chat = await program(directory, 'chat.mjs', here(CHAT), 'How do I start metoprolol?\n');
  expect(chat).toMatchObject({ code: 0, stderr: '' });
  expect(chat.stdout).toContain('pharmacist: How do I start metoprolol?');
  const runId = /\(run (.*)\)/.exec(chat.stdout)?.[1];
  const client = /^import .* from '@clinical-events\/client';\n\nconst log = [^]*?^}\);$/m.exec(
    here(CHAT),
  )?.[0];
  const later = `${client}\nconst runId = '${runId}';\n${LATER}\nawait log.close();\n`;
  expect(await program(directory, 'later.mjs', later)).toMatchObject({ code: 0, stderr: '' });
  const kinds = collector.accepted.map(({ path: at }) => at.replace('/event/', '') as EventKind);
  expect([...kinds].sort()).toEqual([...EVENT_KINDS].sort());
  for (const [at, { event, apiKey }] of collector.accepted.entries()) {
    expect(validateEvent(kinds[at] as EventKind, 'minimum', event)).toBeUndefined();
    expect(event).toMatchObject({ run_id: runId });
    expect(apiKey).toBe('cek_of_readme');
  }
});

test('[R-866] the lines with collector-spool in the README run', async () => {
  const collector = await fakeCollector();
  const directory = applicationDirectory();
  const away = CHAT.replace(TAKEN_AS_SAID, "'http://127.0.0.1:9'").replace(
    'log.close()',
    'log.close({ timeoutMs: 1 })',
  );
  const chat = await program(
    directory,
    'chat.mjs',
    away.replace('./chat-events/spool', './spool'),
    'hello\n',
  );
  expect(chat.stderr).toContain('3 events wait for the next start.');
  fs.writeFileSync(path.join(directory, 'key.txt'), 'cek_of_readme\n');
  const lines = [...readme.matchAll(/^ {4}collector-spool ([^#\n]+)/gm)].map(([, words = '']) =>
    words.trim(),
  );
  expect(lines.map((words) => words.split(' ')[0])).toEqual(['show', 'show', 'show', 'requeue', 'drain']);
  const main = path.join(PACKAGE, 'dist/cli/main.js');
  for (const words of lines) {
    const args = words.replace(TAKEN_AS_SAID.slice(1, -1), collector.url).split(/ +/);
    await promisify(execFile)(process.execPath, [main, ...args], { cwd: directory });
  }
  expect(collector.accepted).toHaveLength(3);
});

test('every snippet of the README passes the compiler', () => {
  expect(snippets.length).toBeGreaterThan(8);
  expect(faultsOf(PACKAGE, snippets)).toEqual([]);
});

/** A real viewer in a process of its own, and the runs of its tests. */
import { spawn, type ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import fs from 'node:fs';
import path from 'node:path';
import type { EventKind } from '@clinical-events/protocol';
import { ENVIRONMENT } from '../../../collector/test/running/collector-process.js';
import { sampleEvent } from '../../../collector/test/running/sample-events.js';

/** The address of the proxy in a browser: it has no server. */
export const PROXY = 'http://127.0.0.1:9';
export const MAIN = path.resolve(import.meta.dirname, '../../dist/main.js');

export interface RunningViewer {
  readonly process: ChildProcess;
  readonly port: number;
  readonly url: string;
  readonly output: { stdout: string; stderr: string };
  readonly exited: Promise<number | null>;
  /** Resolves when the log has a line with this message. */
  logged(message: string): Promise<void>;
  /** SIGTERM, then the exit code. */
  stop(): Promise<number | null>;
}

/** Starts a viewer and resolves when it listens; rejects with what it wrote when it ends before. */
export async function startViewer(
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
): Promise<RunningViewer> {
  const child = spawn(process.execPath, [MAIN, '--port', '0', ...args], { env: { ...ENVIRONMENT, ...env } });
  const output = { stdout: '', stderr: '' };
  const waiting = new Set<() => void>();
  for (const name of ['stdout', 'stderr'] as const)
    child[name].setEncoding('utf8').on('data', (text: string) => {
      output[name] += text;
      for (const look of waiting) look();
    });
  const exited = new Promise<number | null>((resolve) => child.on('close', (code) => resolve(code)));
  const logged = (message: string) =>
    new Promise<void>((resolve, reject) => {
      const look = () => {
        if (!output.stderr.includes(`"msg":"${message}`)) return;
        waiting.delete(look);
        resolve();
      };
      waiting.add(look);
      look();
      child.on('close', () => reject(new Error(`the viewer ended: ${output.stderr}`)));
    });
  await logged('listening');
  const port = Number(/"port":(\d+),[^\n]*"msg":"listening/.exec(output.stderr)?.[1]);
  return {
    ...{ process: child, port, url: `http://127.0.0.1:${port}`, output, exited, logged },
    stop: () => {
      child.kill('SIGTERM');
      return exited;
    },
  };
}

/** Writes a roles file into a directory and returns its path. */
export function rolesFile(directory: string, roles: readonly object[]): string {
  const file = path.join(directory, 'roles.json');
  fs.writeFileSync(file, JSON.stringify({ roles }));
  return file;
}

export interface SentRun {
  readonly run: string;
  readonly events: Readonly<Record<EventKind, string>>;
}

const KINDS: readonly EventKind[] = [
  ...(['inference-start', 'internal-artifact', 'human-output', 'outcome', 'user-feedback'] as const),
];

/** Sends a run with one event of each kind. @param more members of the events, by kind. */
export async function sendRun(
  url: string,
  key: string,
  { app = 'ward', more = {} }: { app?: string; more?: Partial<Record<EventKind, object>> } = {},
): Promise<SentRun> {
  const run = randomUUID();
  const events: Partial<Record<EventKind, string>> = {};
  for (const kind of KINDS) {
    const event = sampleEvent(kind, { run_id: run, system_metadata: { app_name: app }, ...more[kind] });
    const response = await fetch(`${url}/event/${kind}`, {
      method: 'POST',
      headers: { 'X-API-Key': key, 'Content-Type': 'application/json' },
      body: JSON.stringify(event),
    });
    if (response.status !== 201)
      throw new Error(`${kind} was answered ${response.status}: ${await response.text()}`);
    events[kind] = event.event_id;
  }
  return { run, events: events as SentRun['events'] };
}

/** A person as a reverse proxy names one. */
export class ProxyPerson {
  #cookie = '';

  constructor(
    private readonly viewer: Pick<RunningViewer, 'url'>,
    private readonly name: string,
    private readonly groups: string,
  ) {}

  get(address: string): Promise<Answer> {
    return this.#ask(address, { method: 'GET' });
  }

  /** Posts a form with the form token of a page. @param page the address of the page that has the form. */
  async post(address: string, form: Readonly<Record<string, string>>, page = address): Promise<Answer> {
    const { text } = await this.get(page);
    const forms = [...text.matchAll(/<form\b([^>]*)>(.*?)<\/form>/gs)];
    const posting = forms.find(
      ([, head = '']) => /method="post"/.test(head) && head.includes(`"${address}"`),
    );
    const [, token = ''] = /name="form_token" value="([^"]+)"/.exec(posting?.[2] ?? '') ?? [];
    return this.#ask(address, {
      method: 'POST',
      headers: { 'Content-Type': 'application/x-www-form-urlencoded', Origin: this.viewer.url },
      body: new URLSearchParams({ form_token: token, ...form }).toString(),
    });
  }

  async #ask(address: string, init: RequestInit): Promise<Answer> {
    const response = await fetch(`${this.viewer.url}${address}`, {
      ...init,
      redirect: 'manual',
      headers: {
        ...(init.headers as Record<string, string> | undefined),
        ...{ 'X-Remote-User': this.name, 'X-Remote-Groups': this.groups, Cookie: this.#cookie },
      },
    });
    const [cookie] = response.headers.getSetCookie();
    if (cookie !== undefined) this.#cookie = cookie.split(';', 1)[0] ?? '';
    return { status: response.status, headers: response.headers, text: await response.text() };
  }
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
}

/** The lines of an access log that the viewer has made, in order. */
export function looksIn(dataDir: string): Readonly<Record<string, unknown>>[] {
  return fs
    .readFileSync(path.join(dataDir, 'access.log'), 'utf8')
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
    .filter(({ command }) => String(command).startsWith('viewer '));
}

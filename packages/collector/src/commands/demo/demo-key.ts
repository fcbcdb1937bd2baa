/**
 * The key that `collector demo` sends with: one that the operator gives, or one that is made for the time being in the
 * data directory of the collector on this host. Asks the collector before anything is sent, so that nothing is left
 * half done in a log from which nothing can be removed.
 */
import fs from 'node:fs';
import readline from 'node:readline/promises';
import { Writable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import { createKey } from '../../access/issuing.js';
import { keyIdOf } from '../../access/key-ring.js';
import { EventEndpoint } from '../../demo/event-endpoint.js';
import { exists } from '../../files.js';
import { isLocked, KeyDatabase } from '../../store/open.js';
import { systemCode } from '../../system-code.js';
import { CommandFailure, EXIT } from '../exit-codes.js';
import { usage } from '../keys.js';

/** A key that was left behind, by a kill -9, is of no use after this. */
const KEY_LIVES_MS = 24 * 3_600_000;
/** A running collector follows within a second; a slow disk may take longer. */
const FOLLOWED_WITHIN_MS = 5000;
const LOOK_EVERY_MS = 300;

export interface DemoKey {
  readonly text: string;
  /** How the collector answered when it was asked, by code: its console counts these as refusals. */
  readonly asked: ReadonlyMap<string, number>;
  /** On return a key that was made for the time being is refused. */
  release(): Promise<void>;
}

export interface KeyNeeds {
  readonly url: URL;
  /** What --key says. */
  readonly given: string | undefined;
  readonly dataDir: string;
  /** Whom a key that is made belongs to. */
  readonly organisation: string;
  readonly stop: AbortSignal;
}

/** On return there is a collector at the address, and the key may send events of all kinds. */
export async function keyFor(needs: KeyNeeds): Promise<DemoKey> {
  const { url, given } = needs;
  const text = given === undefined ? undefined : await keyFrom(given);
  const asked = new Map<string, number>();
  await assertAnswers(url, asked);
  if (text === undefined) return await temporaryKey(needs, asked);
  const refusal = await refusalOf(url, text, asked);
  if (refusal !== undefined) throw new CommandFailure(refusal, EXIT.failure);
  if (url.protocol === 'http:' && !isThisHost(url)) {
    process.stderr.write(`collector: warning: the key goes to ${url.host} without encryption\n`);
  }
  return { text, asked, release: () => Promise.resolve() };
}

/** @param where @FILE, or - for standard input. Never repeats what it was given: it may be the key itself. */
async function keyFrom(where: string): Promise<string> {
  let text: string;
  if (where === '-') text = await fromStandardInput();
  else if (where.startsWith('@')) text = await fs.promises.readFile(where.slice(1), 'utf8').catch(noSuchFile);
  else {
    throw usage(
      '--key: give @FILE or - for standard input, and not the key itself: ' +
        'other users of this host can read it in the process list',
    );
  }
  const key = text.trim();
  if (keyIdOf(key) === undefined) throw usage('--key: what was read is not an API key');
  return key;
}

function noSuchFile(error: unknown): never {
  const code = systemCode(error) ?? String(error);
  throw usage(`--key: the file cannot be read (${code})`);
}

/** One line; on a terminal it is asked for, and not shown. */
async function fromStandardInput(): Promise<string> {
  const { stdin, stderr } = process;
  const silent = new Writable({ write: (_chunk, _encoding, done) => done() });
  const lines = readline.createInterface({ input: stdin, output: silent, terminal: stdin.isTTY });
  if (stdin.isTTY) stderr.write('API key: ');
  try {
    for await (const line of lines) return line;
    return '';
  } finally {
    lines.close();
    if (stdin.isTTY) stderr.write('\n');
  }
}

async function assertAnswers(url: URL, asked: Map<string, number>): Promise<void> {
  const endpoint = new EventEndpoint(url, undefined, 1);
  try {
    const { status } = await endpoint.ask('outcome');
    // Without a key, that is what a collector says.
    if (status === 401 || status === 503) return;
    throw new CommandFailure(`what answers at ${url.href} is no collector (status ${status})`, EXIT.notFound);
  } catch (error) {
    if (error instanceof CommandFailure) throw error;
    const code = systemCode(error) ?? String(error);
    const port = url.port === '' ? '' : ` --port ${url.port}`;
    throw new CommandFailure(
      `no collector answers at ${url.href} (${code})` +
        (isThisHost(url) ? `; start one with: collector serve${port}` : ''),
      EXIT.notFound,
      { cause: error },
    );
  } finally {
    for (const [name, number] of endpoint.asked) asked.set(name, (asked.get(name) ?? 0) + number);
    endpoint.close();
  }
}

/** Why the key may not send everything, in words, or undefined. */
async function refusalOf(url: URL, key: string, asked: Map<string, number>): Promise<string | undefined> {
  const endpoint = new EventEndpoint(url, key, 1);
  try {
    const refusal = await endpoint.firstRefusal();
    if (refusal === undefined) return undefined;
    const { kind, answer } = refusal;
    const why = answer.code ?? `status ${answer.status}`;
    return answer.status === 403
      ? `the key may not send ${kind}; make one with: collector keys create --permissions all`
      : `the collector at ${url.href} refuses the key: ${why}`;
  } finally {
    for (const [name, number] of endpoint.asked) asked.set(name, (asked.get(name) ?? 0) + number);
    endpoint.close();
  }
}

async function temporaryKey(
  { url, dataDir, organisation, stop }: KeyNeeds,
  asked: Map<string, number>,
): Promise<DemoKey> {
  if (!isThisHost(url)) throw usage('--key is needed for a collector on another host');
  if (!exists(dataDir) || !isLocked(dataDir)) {
    throw usage(
      `no collector runs on ${dataDir}: say with --data-dir on which it does, or give a --key for it`,
    );
  }
  const keys = KeyDatabase.open(dataDir);
  let keyId: string | undefined;
  const release = async () => {
    try {
      if (keyId !== undefined) await keys.revoke(keyId, Date.now());
    } finally {
      await keys.close();
    }
  };
  try {
    const now = Date.now();
    const { text, key } = await createKey(
      keys,
      { organisation, permissions: 'all', expiresAt: now + KEY_LIVES_MS, note: 'made by collector demo' },
      now,
    );
    keyId = key.keyId;
    for (;;) {
      await sleep(LOOK_EVERY_MS, undefined, { signal: stop });
      if ((await refusalOf(url, text, asked)) === undefined) return { text, asked, release };
      if (Date.now() > now + FOLLOWED_WITHIN_MS) break;
    }
  } catch (error) {
    await release();
    if (stop.aborted)
      throw new CommandFailure('interrupted; nothing was sent', EXIT.interrupted, { cause: error });
    throw error;
  }
  await release();
  throw usage(
    `the collector at ${url.href} does not run on ${dataDir}: say with --data-dir on which, or give a --key for it`,
  );
}

function isThisHost({ hostname }: URL): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d{1,3}){3}$/.test(hostname);
}

/** The collector that a command sends to: its address, the API key, and whether it answers. */
import fs from 'node:fs';
import readline from 'node:readline/promises';
import { Writable } from 'node:stream';
import { keyIdOf } from '../access/key-ring.js';
import { EventEndpoint } from '../sending/event-endpoint.js';
import { systemCode } from '../system-code.js';
import { CommandFailure, EXIT, usage } from './exit-codes.js';

/** @param option the name of the option, for the message. @throws CommandFailure for an unusable address. */
export function collectorUrl(option: string, text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const plain =
    url !== undefined && url.search === '' && url.hash === '' && url.username + url.password === '';
  // The message does not repeat the text, which may contain a password.
  if (plain && /^https?:$/.test(url.protocol)) return url;
  throw usage(`${option}: not of the form http://127.0.0.1:8080`);
}

export function isThisHost({ hostname }: URL): boolean {
  return hostname === 'localhost' || hostname === '[::1]' || /^127(\.\d{1,3}){3}$/.test(hostname);
}

/** Warns that others can read the key in transit. */
export function warnOfPlainText(url: URL): void {
  if (url.protocol !== 'http:' || isThisHost(url)) return;
  process.stderr.write(`collector: warning: the key is sent to ${url.host} without encryption\n`);
}

/** @param where @FILE, or - for standard input. Messages never repeat it: it may be the key itself. */
export async function keyFrom(where: string): Promise<string> {
  let text: string;
  if (where === '-') text = await fromStandardInput();
  else if (where.startsWith('@')) text = await fs.promises.readFile(where.slice(1), 'utf8').catch(noSuchFile);
  else {
    throw usage(
      '--key: give @FILE or - for standard input, not the key itself: ' +
        'other users of this host can read it in the process list',
    );
  }
  return checkedKey('--key', text);
}

/** @param source names the origin of the text in messages. @throws CommandFailure if it is not a key. */
export function checkedKey(source: string, text: string): string {
  const key = text.trim();
  if (keyIdOf(key) === undefined) throw usage(`${source}: the text is not an API key`);
  return key;
}

function noSuchFile(error: unknown): never {
  const code = systemCode(error) ?? String(error);
  throw usage(`--key: the file cannot be read (${code})`);
}

/** Reads one line from standard input; on a terminal with a prompt and without echo. */
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

/**
 * Checks that a collector answers, without sending the key, which no other server must see.
 * @param asked counts the answers by code: the collector's console counts them as refusals.
 */
export async function assertAnswers(url: URL, asked = new Map<string, number>()): Promise<void> {
  const endpoint = new EventEndpoint(url, undefined);
  try {
    const { status } = await endpoint.ask('outcome');
    // The answer of a collector to a request without a key.
    if (status === 401 || status === 503) return;
    throw new CommandFailure(`the server at ${url.href} is no collector (status ${status})`, EXIT.notFound);
  } catch (error) {
    if (error instanceof CommandFailure) throw error;
    const code = systemCode(error) ?? String(error);
    const port = url.port === '' ? '' : ` --port ${url.port}`;
    throw new CommandFailure(
      `no collector answers at ${url.href} (${code})` +
        (isThisHost(url) ? `; start one with: collector serve${port}, or name another with --url` : ''),
      EXIT.notFound,
      { cause: error },
    );
  } finally {
    for (const [name, number] of endpoint.asked) asked.set(name, (asked.get(name) ?? 0) + number);
    await endpoint.close();
  }
}

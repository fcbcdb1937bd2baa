/** `collector demo`: runs of clinical AI as they are in a hospital, made up, sent to a running collector or to a file. */
import fs from 'node:fs';
import path from 'node:path';
import type { Config } from '@clinical-events/collector/config';
import type { SentEvent } from './anomalies.js';
import { DEFAULT_SEED, type DemoPlan, DemoScript } from './demo-script.js';
import { writeEvents } from './event-file.js';
import { EventSender } from './event-sender.js';
import { SCENARIOS } from './scenarios.js';
import { EventEndpoint } from '@clinical-events/collector/sending/event-endpoint';
import { SendingFailed } from '@clinical-events/collector/sending/sender';
import { systemCode } from '@clinical-events/collector/system-code';
import { defineCommand } from '@clinical-events/collector/commands/define';
import {
  CommandFailure,
  EXIT,
  type ExitCode,
  onStop,
  usage,
} from '@clinical-events/collector/commands/exit-codes';
import { collectorUrl } from '@clinical-events/collector/commands/remote-collector';
import { callable, urlOfHolder } from '@clinical-events/collector/commands/listening';
import { ProgressBar } from '@clinical-events/collector/commands/terminal';
import { keyFor } from './demo-key.js';
import { type Sent, filedSummary, mixtureTable, sentSummary, shownRun } from './demo-summary.js';
import { instantFrom, organisationFrom } from '@clinical-events/collector/commands/arguments';

/* What an operator types to `collector demo`, read strictly. Each function throws a usage failure that says how. */

const DAY = 86_400_000;

/** A whole number from 1 to `most`. */
export function countFrom(option: string, text: string, most: number): number {
  const count = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= most) return count;
  throw usage(`${option}: ${JSON.stringify(text)} is not a whole number from 1 to ${most}`);
}

/** @returns milliseconds. */
export function daysFrom(text: string): number {
  return countFrom('--days', text, 3650) * DAY;
}

/** Printed again in the summary, for a shell. */
export function seedFrom(text: string): string {
  if (/^[A-Za-z0-9._-]{1,64}$/.test(text)) return text;
  throw usage(`--seed: ${JSON.stringify(text)} is not 1 to 64 characters of A-Z a-z 0-9 . _ -`);
}

/** `200/s` or `0.5/s`. @returns events a second. */
export function rateFrom(text: string): number {
  const [, number = ''] = /^(\d{1,7}(?:\.\d{1,3})?)\/s$/.exec(text) ?? [];
  if (Number(number) > 0) return Number(number);
  throw usage(`--rate: ${JSON.stringify(text)} is not of the form 200/s`);
}

/** Where the collector is that is named; else the one that holds the data directory, or would listen as configured. */
export function urlFrom(
  { url: text, port }: { readonly url?: string; readonly port?: string },
  config: Pick<Config, 'host' | 'port' | 'dataDir'>,
): URL {
  if (text === undefined) {
    const holder = port === undefined ? urlOfHolder(config.dataDir) : undefined;
    if (holder !== undefined) return holder;
    const at = port === undefined ? config.port : countFrom('--port', port, 65_535);
    return new URL(`http://${callable(config.host)}:${at}/`);
  }
  if (port !== undefined) throw usage('--port: --url says already where');
  return collectorUrl('--url', text);
}

const EXAMPLES = `  $ collector demo                                      # to the collector that runs on ./data, for organisation "demo"
  $ collector demo --url https://collector.test.example --key @demo.key --runs 5000 --rate 200/s
  $ collector demo --runs 2000000 --days 90 --out demo.ndjson
  $ collector import demo.ndjson --organisation demo --key @demo.key

What is sent is made up, and its events stay in the log for ever, also when they are erased. So it goes to an
organisation of its own, unless a key says otherwise, and each event has "environment": "demo" in its system_metadata.
Without --key, a key for that organisation is made in the data directory of the collector that runs on this host, and
revoked at the end. A key of your own is read from a file or from standard input; in the list of arguments other users
of this host could see it.

The timestamps, which are the senders', lie in the --days before --until. received_at, which is the collector's, is now.
The same --seed, --runs, --days and --until give the same events, so what was interrupted can be sent again in full:
the log keeps each event once. Conflicts are sent on purpose, and answered 409.

Mixed in:
${mixtureTable()}
Exit codes: 0 all was answered as expected, 1 something was refused or not sent, 6 no collector answers,
130 a signal ended it.`;

interface DemoOptions {
  readonly url?: string;
  readonly port?: string;
  readonly key?: string;
  readonly organisation?: string;
  readonly runs: string;
  readonly days: string;
  readonly seed: string;
  readonly until?: string;
  readonly rate?: string;
  readonly out?: string;
  readonly json?: true;
}

const DEFAULT_ORGANISATION = 'demo';
/** The first has the most to see: retrieved texts, a tool call, an output, an outcome. */
const SHOWN_FIRST = ['sepsis-abstraction', ...SCENARIOS.map(({ name }) => name)];
/** Events under way at once at most. */
const CONNECTIONS = 8;
/** Fewer runs are done before anybody wonders. */
const BAR_FROM_RUNS = 2000;

export const command = defineCommand<DemoOptions>({
  name: 'demo',
  description: 'Send made-up, realistic runs to a running collector, or write them to a file.',
  options: {
    '--url <url>': 'the collector (default: the one that runs on the data directory)',
    '--port <port>': 'of the collector on this host, in place of --url',
    '--key <where>': '@FILE or - for standard input (default: a key is made for this)',
    '--organisation <name>': `whom a key that is made belongs to (default: "${DEFAULT_ORGANISATION}")`,
    '--runs <n>': { help: 'how many runs', default: '1000' },
    '--days <n>': { help: 'how many days they are spread over', default: '30' },
    '--seed <text>': { help: 'other events for every other text', default: DEFAULT_SEED },
    '--until <time>': 'when the last day ends: a date or an RFC 3339 instant (default: now)',
    '--rate <rate>': 'events a second at most, such as 200/s (default: as fast as they are taken)',
    '--out <file>': 'a new NDJSON file for "collector import"; nothing is sent',
    '--json': 'print what was done as one JSON object',
  },
  configuration: 'keys',
  examples: EXAMPLES,
  run: ({ options, config }) => demonstrate(config(), options),
});

async function demonstrate(config: Config, options: DemoOptions): Promise<ExitCode> {
  const plan = planFrom(options);
  const stop = new AbortController();
  onStop(() => stop.abort());
  return options.out === undefined
    ? await send(config, options, plan, stop.signal)
    : await write(options, plan, path.resolve(options.out), stop.signal);
}

function planFrom({ seed, runs, days, until }: DemoOptions): DemoPlan {
  const now = Date.now();
  const end = until === undefined ? now : instantFrom('--until', until);
  if (end > now) throw usage(`--until: ${until} is in the future`);
  return {
    seed: seedFrom(seed),
    runs: countFrom('--runs', runs, 10_000_000),
    period: { since: end - daysFrom(days), until: end },
  };
}

/** Also shows how far it is. */
function* shownOn(bar: ProgressBar, script: DemoScript, runs: number): Generator<SentEvent, void> {
  let shown = -1;
  for (const event of script.events()) {
    yield event;
    const whole = Math.floor((200 * script.tally.runs) / runs);
    if (whole !== shown) bar.show(script.tally.runs, runs);
    shown = whole;
  }
}

function barFor(options: DemoOptions): ProgressBar {
  const wanted = options.json !== true && process.stderr.isTTY;
  return new ProgressBar({ wanted, unit: 'runs', per: 1, from: BAR_FROM_RUNS, rate: true });
}

async function write(
  options: DemoOptions,
  plan: DemoPlan,
  file: string,
  stop: AbortSignal,
): Promise<ExitCode> {
  for (const option of ['url', 'port', 'key', 'rate'] as const) {
    if (options[option] !== undefined) throw usage(`--${option}: nothing is sent with --out`);
  }
  if (fs.existsSync(file)) throw alreadyThere(file);
  const script = new DemoScript(plan);
  const bar = barFor(options);
  const since = performance.now();
  const organisation = organisationFrom(options.organisation ?? DEFAULT_ORGANISATION);
  let written;
  try {
    written = await writeEvents(file, organisation, shownOn(bar, script, plan.runs), stop);
  } catch (error) {
    const code = systemCode(error);
    if (code === 'EEXIST') throw alreadyThere(file);
    if (code === undefined) throw error;
    throw new CommandFailure(`--out: ${file} cannot be written (${code})`, EXIT.failure, {
      cause: error,
    });
  } finally {
    bar.clear();
  }
  if (written === undefined) throw new CommandFailure('interrupted; no file was written', EXIT.interrupted);
  const seconds = (performance.now() - since) / 1000;
  process.stdout.write(
    filedSummary(plan, script.tally, { file, organisation, ...written, seconds }, options.json === true),
  );
  return EXIT.ok;
}

function alreadyThere(file: string): CommandFailure {
  return usage(`--out: ${file} is there already, and is not written over`);
}

async function send(
  config: Config,
  options: DemoOptions,
  plan: DemoPlan,
  stop: AbortSignal,
): Promise<ExitCode> {
  const url = urlFrom(options, config);
  const perSecond = options.rate === undefined ? undefined : rateFrom(options.rate);
  if (options.key !== undefined && options.organisation !== undefined) {
    throw usage('--organisation: --key says already for which');
  }
  const organisation = organisationFrom(options.organisation ?? DEFAULT_ORGANISATION);
  const key = await keyFor({ url, given: options.key, dataDir: config.dataDir, organisation, stop });
  const endpoint = new EventEndpoint(url, key.text);
  const sender = new EventSender(endpoint, { connections: CONNECTIONS, perSecond, stop });
  const script = new DemoScript(plan);
  const bar = barFor(options);
  const since = performance.now();
  let failure: SendingFailed | undefined;
  try {
    await sender.send(shownOn(bar, script, plan.runs));
  } catch (error) {
    if (!(error instanceof SendingFailed)) throw error;
    failure = error;
  } finally {
    bar.clear();
    await endpoint.close();
    await key.release();
  }
  const sent: Sent = {
    url: url.href,
    organisation: options.key === undefined ? organisation : undefined,
    dataDir: config.dataDir,
    asked: key.asked,
    answers: sender.answers,
    seconds: (performance.now() - since) / 1000,
    whole: failure === undefined && !stop.aborted,
  };
  process.stdout.write(sentSummary(plan, script.tally, sent, options.json === true));
  const example = SHOWN_FIRST.map((name) => script.tally.scenarios.get(name)?.example).find(Boolean);
  // A key that was given may be for a collector on another host, whose log is not here.
  if (sent.organisation !== undefined && example !== undefined && options.json !== true) {
    const { runId } = example;
    const shown = await shownRun(config.dataDir, { command: 'demo', runId, organisation });
    if (shown !== '') process.stdout.write(`\nOne run, as its record has it:\n\n${shown}`);
  }
  if (failure !== undefined) throw new CommandFailure(failure.message, EXIT.failure, { cause: failure });
  const { refused, missedConflicts } = sender.answers;
  if (!sent.whole) return EXIT.interrupted;
  return refused.size === 0 && missedConflicts === 0 ? EXIT.ok : EXIT.failure;
}

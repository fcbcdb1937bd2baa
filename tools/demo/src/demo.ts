/** `collector demo`: sends made-up runs of clinical AI to a running collector, or writes them to a file. */
import fs from 'node:fs';
import path from 'node:path';
import type { Config } from '@clinical-events/collector/config';
import type { SentEvent } from './anomalies.js';
import { DAY } from './planned-run.js';
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

function countFrom(option: string, text: string, most: number): number {
  const count = /^\d{1,9}$/.test(text) ? Number(text) : 0;
  if (count >= 1 && count <= most) return count;
  throw usage(`${option}: ${JSON.stringify(text)} is not a whole number from 1 to ${most}`);
}

/** The summary prints the seed as a word of a shell command. */
function seedFrom(text: string): string {
  if (/^[A-Za-z0-9._-]{1,64}$/.test(text)) return text;
  throw usage(`--seed: ${JSON.stringify(text)} is not 1 to 64 characters of A-Z a-z 0-9 . _ -`);
}

/** @returns events per second. */
function rateFrom(text: string): number {
  const [, number = ''] = /^(\d{1,7}(?:\.\d{1,3})?)\/s$/.exec(text) ?? [];
  if (Number(number) > 0) return Number(number);
  throw usage(`--rate: ${JSON.stringify(text)} is not of the form 200/s`);
}

/** The address from the options, else of the collector on the data directory, else from the configuration. */
function urlFrom(
  { url: text, port }: { readonly url?: string; readonly port?: string },
  config: Pick<Config, 'host' | 'port' | 'dataDir'>,
): URL {
  if (text === undefined) {
    const holder = port === undefined ? urlOfHolder(config.dataDir) : undefined;
    if (holder !== undefined) return holder;
    const at = port === undefined ? config.port : countFrom('--port', port, 65_535);
    return new URL(`http://${callable(config.host)}:${at}/`);
  }
  if (port !== undefined) throw usage('--port: not together with --url');
  return collectorUrl('--url', text);
}

const EXAMPLES = `  $ collector demo                    # to the collector of ./data, for organisation "demo"
  $ collector demo --url https://collector.test.example --key @demo.key --runs 5000 --rate 200/s
  $ collector demo --runs 2000000 --days 90 --out demo.ndjson
  $ collector import demo.ndjson --organisation demo --key @demo.key

Events stay in the log even after they are erased. The made-up ones therefore belong to an organisation of
their own, unless --key is given, and each has "environment": "demo" in its system_metadata. Without --key,
the command creates a key for that organisation in the data directory and revokes it at the end. --key reads
a key from a file or from standard input, because other users of the host can see arguments.

The timestamps of the events lie in the --days before --until; received_at is now. The same --seed, --runs,
--days and --until give the same events, so an interrupted demo can be sent again: the log keeps each event
once. Conflicts are sent on purpose; the collector answers them with 409.

Anomalies:
${mixtureTable()}
Exit codes: 0 every answer was as expected, 1 an event was refused or not sent, 6 no collector answers,
130 ended by a signal.`;

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
/** The first has the most to show: retrieved texts, tool calls, an output, an outcome. */
const SHOWN_FIRST = ['sepsis-abstraction', ...SCENARIOS.map(({ name }) => name)];
/** Maximum number of events in flight. */
const CONNECTIONS = 8;
/** Fewer runs take too little time for a progress bar. */
const BAR_FROM_RUNS = 2000;

export const command = defineCommand<DemoOptions>({
  name: 'demo',
  description: 'Send made-up, realistic runs to a running collector, or write them to a file.',
  options: {
    '--url <url>': 'URL of the collector (default: the one that runs on the data directory)',
    '--port <port>': 'port of a collector on this host, instead of --url',
    '--key <where>': 'API key: @FILE, or - for standard input (default: a temporary key)',
    '--organisation <name>': `organisation of the temporary key (default: "${DEFAULT_ORGANISATION}")`,
    '--runs <n>': { help: 'number of runs', default: '1000' },
    '--days <n>': { help: 'number of days over which the runs are spread', default: '30' },
    '--seed <text>': { help: 'seed of the random numbers', default: DEFAULT_SEED },
    '--until <time>': 'end of the last day: a date or an RFC 3339 instant (default: now)',
    '--rate <rate>': 'most events per second, such as 200/s (default: no limit)',
    '--out <file>': 'a new NDJSON file for "collector import"; nothing is sent',
    '--json': 'print the summary as one JSON object',
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
    period: { since: end - countFrom('--days', days, 3650) * DAY, until: end },
  };
}

/** The events of the script; the bar shows the progress. */
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
  return usage(`--out: ${file} exists and is not overwritten`);
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
    throw usage('--organisation: not together with --key');
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
  // With --key, the collector and its log may be on another host.
  if (sent.organisation !== undefined && example !== undefined && options.json !== true) {
    const { runId } = example;
    const shown = await shownRun(config.dataDir, { command: 'demo', runId, organisation });
    if (shown !== '') process.stdout.write(`\nThe record of one run:\n\n${shown}`);
  }
  if (failure !== undefined) throw new CommandFailure(failure.message, EXIT.failure, { cause: failure });
  const { refused, missedConflicts } = sender.answers;
  if (!sent.whole) return EXIT.interrupted;
  return refused.size === 0 && missedConflicts === 0 ? EXIT.ok : EXIT.failure;
}

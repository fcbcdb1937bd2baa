/**
 * `collector import`: sends events from NDJSON files to a running collector over HTTP, or only checks them.
 */
import { type ErrorCode, EVENT_KINDS } from '@clinical-events/protocol';
import { DEFAULT_ORGANISATION } from '../access/issuing.js';
import { type Config, senderVariables } from '../config.js';
import { STANDARD_INPUT } from '../importing/lines.js';
import type { LineFault, Offered } from '../importing/offered-line.js';
import type { Refusal } from '../importing/reject-file.js';
import { examine } from '../ledger/examine.js';

import { EVENT_DOOR } from '../ingest/request.js';
import { type Answer, EventEndpoint, nameOf } from '../sending/event-endpoint.js';
import { Sender, SendingFailed } from '../sending/sender.js';
import { counted } from '../quantity.js';
import { CommandFailure, EXIT, type ExitCode, onStop, usage } from './exit-codes.js';
import { defineCommand } from './define.js';
import { giveText } from './terminal.js';
import { LineFiles, type LineOptions, type ReadLine } from './line-files.js';
import { assertAnswers, checkedKey, collectorUrl, keyFrom, warnOfPlainText } from './remote-collector.js';

const DEFAULT_URL = 'http://127.0.0.1:8080';

const EXAMPLES = `  $ collector import events.ndjson --key @import.key
  $ collector import outcomes-*.ndjson --kind outcome --organisation ward-7 --key @ward-7.key
  $ collector import legacy.ndjson --kind outcome --fix timestamps=Europe/Berlin --key @import.key
  $ zstd -dc events.ndjson.zst | collector import - --key @import.key
  $ collector import events.ndjson --check --profile full

Each line of a file is one of
  the event itself                            give its kind with --kind
  {"kind": "outcome", "event": {…}}           the text of "event" is stored exactly as written
  {"kind": "outcome", "body": "…"}            as printed by "collector events": "body" is the exact text
In the last two forms, sha256, or without it event_id, must match the event. "-" is standard input.

The collector examines each event and stores it once, under the organisation and profile of the key. A line
with an organisation other than --organisation is refused. received_at is the time of the import: when, and by
which key, another collector received the event is not imported, so keep the files; --json prints their
SHA-256. Give the key in COLLECTOR_KEY, in a file or on standard input: other users of this host can see the
argument list.

Lines that are invalid or contradict a stored event go to the reject file with the reason. Only its owner can
read the file, since it contains patient data. Import corrected lines from there: jq -r .text
events.ndjson.rejects.ndjson

After an interruption, import the same files again: nothing is stored twice. Temporary failures (429, 503, a
broken connection) are retried; the import gives up when nothing is accepted for 30 s.

--check sends nothing and needs neither key nor collector: each event is examined as by a collector with these
settings, regardless of what is stored. It prints every fault.
--profile, the limits and --config require --check.

--fix timestamps=ZONE adds the offset of a zone (+01:00, or a name such as Europe/Berlin) to timestamps
without one, and records the originals in the event as "import_fixes". At clock changes RFC 5545 decides: a
time that occurred twice is the first, one that never occurred has the offset from before the change;
"clock_change" marks both.

Exit codes: 0 every event is stored, 7 some lines were refused and all others are stored, 130 interrupted, 1
it had to stop (the collector has gone, or a file cannot be read), 2 the key or the command line is wrong, 6 a
file does not exist, or no collector answers. With --check: 0 every event passes, 1 some do not.`;

interface ImportOptions extends LineOptions {
  readonly check?: true;
  readonly url?: string;
  readonly key?: string;
}

/** Maximum number of unanswered events, and of connections. */
const MOST_EVENTS = 256;
/** Maximum bytes of unanswered events; a single event may be larger. */
const MOST_BYTES = 64 << 20;

export const command = defineCommand<ImportOptions>({
  name: 'import',
  description: 'Send events from NDJSON files to a running collector, which stores them.',
  arguments: { '<file...>': 'NDJSON files; - for standard input' },
  options: {
    '--kind <kind>': `kind of all events: ${EVENT_KINDS.join(', ')}`,
    '--fix <what>': 'timestamps=ZONE: the offset for timestamps without one',
    '--json': 'print the result as one JSON object',
    '--url <url>': `address of the collector (default: COLLECTOR_URL, or ${DEFAULT_URL})`,
    '--key <where>': 'API key: @FILE, or - for standard input (default: COLLECTOR_KEY)',
    '--organisation <name>': `organisation of the key (default: "${DEFAULT_ORGANISATION}")`,
    '--check': 'examine the events as a collector would, without sending them',
  },
  configuration: 'import',
  examples: EXAMPLES,
  run({ options, given, config }, ...files) {
    if (options.check) return checkFiles(files, options, config());
    const [unused] = Object.keys(given);
    if (unused !== undefined) throw usage(`--${unused}: requires --check`);
    return importFiles(files, options);
  },
});

async function checkFiles(
  files: readonly string[],
  options: ImportOptions,
  config: Config,
): Promise<ExitCode> {
  const lines = new LineFiles(files, options);
  try {
    for await (const read of lines.read()) {
      for (const line of read) {
        const fault = faultOf(line, config);
        if (fault === undefined) lines.passed(line);
        else {
          lines.refuse(line, fault);
          if (options.json !== true) await giveText(inWords(line, fault));
        }
      }
    }
  } finally {
    lines.close();
  }
  const { profile } = config;
  process.stdout.write(
    options.json ? lines.asJson('passed', { profile }) : lines.asText(`valid under profile ${profile}`),
  );
  return lines.refused.size > 0 ? EXIT.failure : EXIT.ok;
}

function faultOf(
  { offered }: ReadLine,
  { maxBodyBytes, maxNestingDepth, profile }: Config,
): LineFault | undefined {
  if ('code' in offered) return offered;
  const { body, kind, eventId } = offered;
  if (body.length > maxBodyBytes)
    return { code: 'body_too_large', details: { bytes: body.length, limit: maxBodyBytes }, eventId };
  const examined = examine(body, kind, profile, maxNestingDepth);
  return 'code' in examined ? { ...examined, eventId } : undefined;
}

/** Describes a fault without any value of the event. */
function inWords({ tally, number }: ReadLine, { code, details, message }: LineFault): string {
  const [issue, ...more] = (details?.['issues'] ?? []) as readonly { pointer: string; message: string }[];
  const reason = issue === undefined ? message : `${issue.pointer || '/'} ${issue.message}`;
  const rest = more.length > 0 ? ` (and ${more.length} more)` : '';
  return `${tally.file}:${number}: ${code}${reason === undefined ? '' : `: ${reason}${rest}`}\n`;
}

async function importFiles(files: readonly string[], options: ImportOptions): Promise<ExitCode> {
  const url =
    options.url === undefined
      ? collectorUrl('COLLECTOR_URL', senderVariables().url ?? DEFAULT_URL)
      : collectorUrl('--url', options.url);
  const key = await keyOf(files, options);
  const [first = ''] = files;
  const lines = new LineFiles(files, {
    ...options,
    organisation: options.organisation ?? DEFAULT_ORGANISATION,
    rejects: `${first === STANDARD_INPUT ? 'stdin' : first}.rejects.ndjson`,
  });
  const endpoint = new EventEndpoint(url, key, { [EVENT_DOOR]: 'import' });
  const stop = new AbortController();
  let stoppedBy: NodeJS.Signals | undefined;
  const removeHandlers = onStop((signal) => {
    stoppedBy = signal;
    stop.abort();
  });
  try {
    await assertTaken(url, endpoint);
    await new Import(lines, endpoint, stop.signal).run();
  } finally {
    removeHandlers();
    await endpoint.close();
    lines.close();
  }
  const complete = stoppedBy === undefined;
  process.stdout.write(options.json ? lines.asJson('stored', { complete }) : lines.asText('stored'));
  if (!complete) {
    process.stderr.write(`collector: stopped by ${stoppedBy}; ${howFar(lines)}\n`);
    return EXIT.interrupted;
  }
  return lines.refused.size > 0 ? EXIT.partly : EXIT.ok;
}

async function keyOf(files: readonly string[], { key }: ImportOptions): Promise<string> {
  const inEnvironment = senderVariables().key;
  if (key === STANDARD_INPUT && files.includes(STANDARD_INPUT)) {
    throw usage('--key: standard input holds the events; give @FILE');
  }
  if (key !== undefined) return await keyFrom(key);
  if (inEnvironment !== undefined) return checkedKey('COLLECTOR_KEY', inEnvironment);
  throw usage('--key: give @FILE, or the key in COLLECTOR_KEY');
}

/** Checks that a collector answers and knows the key. */
async function assertTaken(url: URL, endpoint: EventEndpoint): Promise<void> {
  await assertAnswers(url);
  const answer = await endpoint.ask('outcome');
  if (answer.status === 401) {
    throw new CommandFailure(`the collector at ${url.href} refuses the key: ${nameOf(answer)}`, EXIT.usage);
  }
  warnOfPlainText(url);
}

function howFar(lines: LineFiles): string {
  const stored = lines.sum('passed');
  const are = `${counted(stored, 'event')} ${stored === 1 ? 'is' : 'are'} stored`;
  return `${are}; import the same files again to continue, nothing is stored twice`;
}

/** Sends lines, many at a time; each is counted or refused when its answer arrives. */
class Import {
  readonly #lines: LineFiles;
  readonly #sender: Sender;
  readonly #stop: AbortSignal;
  #underWay = 0;
  #bytes = 0;
  #failure: Error | undefined;
  #wake: () => void = () => undefined;

  constructor(lines: LineFiles, endpoint: EventEndpoint, stop: AbortSignal) {
    this.#lines = lines;
    this.#sender = new Sender(endpoint, { stop });
    this.#stop = stop;
  }

  /** @throws CommandFailure if it cannot continue; events counted as stored are stored. */
  async run(): Promise<void> {
    for await (const lines of this.#lines.read(this.#stop)) {
      for (const line of lines) {
        if (this.#stop.aborted || this.#failure !== undefined) break;
        this.#take(line);
        while (this.#underWay >= MOST_EVENTS || this.#bytes >= MOST_BYTES) await this.#answered();
      }
      if (this.#failure !== undefined) break;
    }
    while (this.#underWay > 0) await this.#answered();
    if (this.#failure instanceof SendingFailed) {
      const message = `${this.#failure.message}; ${howFar(this.#lines)}`;
      throw new CommandFailure(message, EXIT.failure, { cause: this.#failure });
    }
    if (this.#failure !== undefined) throw this.#failure;
  }

  #answered(): Promise<void> {
    return new Promise((resolve) => (this.#wake = resolve));
  }

  #take(line: ReadLine): void {
    const { offered } = line;
    if ('code' in offered) return this.#lines.refuse(line, offered);
    this.#underWay++;
    this.#bytes += offered.body.length;
    this.#sender
      .send(offered)
      .then((answer) => this.#count(line, offered, answer))
      .then(
        () => this.#ended(offered),
        (error: unknown) => this.#ended(offered, error instanceof Error ? error : new Error(String(error))),
      );
  }

  #ended({ body }: Offered, error?: Error): void {
    this.#failure ??= error;
    this.#underWay--;
    this.#bytes -= body.length;
    this.#wake();
  }

  #count(line: ReadLine, { eventId }: Offered, answer: Answer | undefined): void {
    // The import was stopped before the collector answered.
    if (answer === undefined) return;
    const { status, details } = answer;
    if (status === 201) return this.#lines.passed(line);
    const code = nameOf(answer);
    const outcome = outcomeOf(status, code);
    this.#lines.refuse(line, { code, details, eventId }, outcome);
  }
}

/** The outcome in the reject file for an answer. */
function outcomeOf(status: number, code: string): Refusal['outcome'] {
  if (code === ('event_erased' satisfies ErrorCode)) return 'erased';
  if (status === 409) return 'conflict';
  return status === 500 ? 'unreadable' : 'rejected';
}

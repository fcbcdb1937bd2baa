/** `collector import`: events from NDJSON files, sent to a running collector over HTTP, or only checked. */
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
import { CommandFailure, EXIT, type ExitCode, onStop, usage } from './exit-codes.js';
import { defineCommand } from './define.js';
import { LineFiles, type LineOptions, type ReadLine } from './line-files.js';
import { assertAnswers, checkedKey, collectorUrl, keyFrom, warnOfPlainText } from './remote-collector.js';

const DEFAULT_URL = 'http://127.0.0.1:8080';

const EXAMPLES = `  $ collector import events.ndjson --key @import.key
  $ collector import outcomes-*.ndjson --kind outcome --organisation ward-7 --url https://collector.test.example --key @ward-7.key
  $ collector import legacy.ndjson --kind outcome --fix timestamps=Europe/Berlin --key @import.key
  $ zstd -dc events.ndjson.zst | collector import - --key @import.key
  $ collector import events.ndjson --check --profile full

Each line of a file is one of
  the event itself                            --kind says of which kind it is
  {"kind": "outcome", "event": {…}}           the text of "event" is taken as it stands there
  {"kind": "outcome", "body": "…"}            such as a line of "collector events": "body" is the exact text
A wrapped line's sha256, or else its event_id, has to be that of the event. "-" is standard input.

The collector examines each event and stores it once, for the organisation and by the profile of the key. A line that
names an organisation other than --organisation is refused. Its received_at is the time of the import: what a line says
of when and by which key another collector received it is not taken over. Keep the files for that; --json prints the
SHA-256 of each. The key comes from COLLECTOR_KEY, or from a file or standard input: in the list of arguments other
users of this host could see it.

Lines that are faulty or contradict a stored event go to the reject file with the reason; it is for its owner alone, as
it holds patient data. Corrected, they can be imported from there: jq -r .text events.ndjson.rejects.ndjson

Import the same files again after an interruption: nothing is stored twice. What passes is waited for (429, 503, a broken
connection); it gives up when nothing is accepted for 30 s.

--check sends nothing and needs neither key nor collector: each event is examined as a collector with these settings
would, without regard to what is stored. It prints the first faults; the rest are in the reject file that --rejects
names. --profile, the limits and --config go with it alone.

--fix timestamps=ZONE gives timestamps without an offset that of a zone (+01:00, or a name such as Europe/Berlin), and
notes in the event, as "import_fixes", what they were. Where clocks were changed, RFC 5545 says which offset is meant: a
time that came twice is the first, one that never came is read by the clock before the change; "clock_change" says so.

Exit codes: 0 every event is stored, 7 some lines were refused and all others are stored, 130 interrupted, 1 it had to
stop (the collector has gone, a file cannot be read), 2 the key or the command line is wrong, 6 there is no such file, or
no collector answers. With --check: 0 every event passes, 1 some do not.`;

interface ImportOptions extends LineOptions {
  readonly check?: true;
  readonly url?: string;
  readonly key?: string;
}

/** Events under way at once, and connections, at most. */
const MOST_EVENTS = 256;
/** Of events that have no answer yet; one alone may be larger. */
const MOST_BYTES = 64 << 20;

export const command = defineCommand<ImportOptions>({
  name: 'import',
  description: 'Send events from NDJSON files to a running collector, which stores them.',
  arguments: { '<file...>': 'NDJSON files; - for standard input' },
  options: {
    '--kind <kind>': `the kind of all events: ${EVENT_KINDS.join(', ')}`,
    '--fix <what>': 'timestamps=ZONE: the offset for timestamps that have none',
    '--json': 'print the result as one JSON object',
    '--url <url>': `the collector (default: COLLECTOR_URL, or ${DEFAULT_URL})`,
    '--key <where>': '@FILE or - for standard input (default: COLLECTOR_KEY)',
    '--organisation <name>': `that the key is for (default: "${DEFAULT_ORGANISATION}")`,
    '--rejects <file>':
      'where lines that are not stored go (default: <first file>.rejects.ndjson; nowhere with --check)',
    '--check': 'examine the events as a collector would, and send nothing',
  },
  configuration: 'import',
  examples: EXAMPLES,
  run({ options, given, config }, ...files) {
    if (options.check) return checkFiles(files, options, config());
    const [unused] = Object.keys(given);
    if (unused !== undefined) throw usage(`--${unused}: goes with --check`);
    return importFiles(files, options);
  },
});

/** How many faults are printed. */
const FIRST_FAULTS = 10;

async function checkFiles(
  files: readonly string[],
  options: ImportOptions,
  config: Config,
): Promise<ExitCode> {
  const lines = new LineFiles(files, options);
  const first: string[] = [];
  try {
    for await (const read of lines.read()) {
      for (const line of read) {
        const fault = faultOf(line, config);
        if (fault === undefined) lines.passed(line);
        else {
          lines.refuse(line, fault);
          if (first.length < FIRST_FAULTS) first.push(inWords(line, fault));
        }
      }
    }
  } finally {
    lines.close();
  }
  const { profile } = config;
  process.stdout.write(
    options.json
      ? lines.asJson('passed', { profile })
      : lines.asText(`valid under profile ${profile}`) + first.join(''),
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

/** Without a value of the event. */
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
    rejects: options.rejects ?? `${first === STANDARD_INPUT ? 'stdin' : first}.rejects.ndjson`,
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

/** On return there is a collector, and it knows the key. */
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
  return `${stored} event${stored === 1 ? ' is' : 's are'} stored; import the same again to go on, nothing is stored twice`;
}

/** Many lines are under way at once; each is counted, or told of as refused, when it has its answer. */
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

  /** @throws CommandFailure when it cannot go on; what is counted as stored is. */
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
    // It was stopped before the collector had answered.
    if (answer === undefined) return;
    const { status, details } = answer;
    if (status === 201) return this.#lines.passed(line);
    const code = nameOf(answer);
    const outcome = outcomeOf(status, code);
    this.#lines.refuse(line, { code, details, eventId }, outcome);
  }
}

/** What the reject file says of a line that was answered so. */
function outcomeOf(status: number, code: string): Refusal['outcome'] {
  if (code === ('event_erased' satisfies ErrorCode)) return 'erased';
  if (status === 409) return 'conflict';
  return status === 500 ? 'unreadable' : 'rejected';
}

/** `collector access-log`: who looked at the runs of a person, from the access log. */
import { counted } from '../quantity.js';
import {
  type AccessLine,
  accessLines,
  CLOSED_FILES,
  type ClosedFiles,
  closedFilesFrom,
  missingFiles,
} from './access-lines.js';
import { logAccess } from './access-log.js';
import { idsIn, organisationFrom, type Period, periodFrom } from './arguments.js';
import { defineCommand } from './define.js';
import { CommandFailure, EXIT, interruption, usage } from './exit-codes.js';
import { assertOneOrganisation, keysIn, type LogRun, LogRuns } from './lifecycle/log-runs.js';
import { textOf } from './lifecycle/log-pass.js';
import { assertReadable } from './regular-files.js';
import { openStore } from '../store/open-to-read.js';
import { alignedTable, giveText, jsonLine, legible } from './terminal.js';
import { printRemarks } from './typed.js';

const EXAMPLES = `  $ collector access-log --subject-file subject.txt
  $ collector access-log --subject-file subject.txt --since 2026-01-01 --json > looks.ndjson
  $ collector access-log --subject-file subject.txt --organisation icu
  $ collector access-log --subject-file subject.txt --access-log /mnt/archive/access.log

Give the person's ids in a file, one per line, or on standard input (-). The access log names no patient: the
runs that name the person as target or caller, and the runs nested in them, are found in the log, and looks by
the ids of these runs and their events.

It prints each look at one of these runs: by a command on the host or in the viewer. Then it counts, by
command, the accesses that were not limited to other runs, such as lists, reports, exports and back-ups: they
may have contained these runs. --json prints one object per line, with "kind": "look" or "possible".

An access without an end was still running or was killed: any number of events may have been read. "collector
verify" checks that the access log was not changed. Ask before you erase: an erased run no longer names the
person.

The access log has a file for each year. Looks in closed files are listed if they are in the data directory, or
where --access-log names them; a warning names the others.

Exit code: 6 no run names one of the ids.`;

interface WhoLookedOptions {
  readonly subjectFile?: string;
  readonly organisation?: string;
  readonly since?: string;
  readonly until?: string;
  readonly accessLog?: readonly string[];
  readonly json?: true;
}

export const command = defineCommand<WhoLookedOptions>({
  name: 'access-log',
  description: 'List who looked at the runs of a person.',
  options: {
    '--subject-file <file>': {
      help: 'file with the ids of the person, one per line; - for standard input',
      isRequired: true,
    },
    '--organisation <name>': 'only runs of this organisation',
    '--since <time>': 'only accesses that began at or after this time',
    '--until <time>': 'only accesses that began before this time',
    '--access-log <file>': CLOSED_FILES,
    '--json': 'print one JSON object per line',
  },
  configuration: 'records',
  examples: EXAMPLES,
  async run({ options, config }) {
    const { subjectFile = '', organisation, json } = options;
    if (subjectFile === '') throw usage('--subject-file: name a file, or - for standard input');
    const asked = {
      ...{ period: periodFrom(options), json: json === true, since: options.since, until: options.until },
      organisation: organisation === undefined ? undefined : organisationFrom(organisation),
      subjects: idsIn('--subject-file', subjectFile),
    };
    const { dataDir } = config();
    const closedFiles = closedFilesFrom(options.accessLog ?? [], dataDir);
    await answer(dataDir, { ...asked, closedFiles });
  },
});

interface Asked {
  readonly subjects: readonly string[];
  readonly organisation: string | undefined;
  readonly period: Period;
  /** The period as given, for the access log. */
  readonly since: string | undefined;
  readonly until: string | undefined;
  readonly closedFiles: ClosedFiles;
  readonly json: boolean;
}

async function answer(dataDir: string, asked: Asked): Promise<void> {
  const { subjects, organisation, since, until, period, closedFiles, json } = asked;
  assertReadable(dataDir);
  const signal = interruption();
  const filter = { subjects: subjects.length, organisation, since, until };
  const givenOut = logAccess(dataDir, { command: OWN, filter });
  const { runs, unread } = await runsOf(dataDir, asked, signal);
  const missing = await missingFrom(dataDir, closedFiles);
  const looked = new WhoLooked(runs, period);
  for await (const line of accessLines(dataDir, undefined, closedFiles)) {
    signal.throwIfAborted();
    looked.take(line);
  }
  await giveText(json ? looked.json() : looked.text(), signal);
  givenOut.complete = true;
  printRemarks([
    ...(unread > 0
      ? [`warning: ${counted(unread, 'start')} could not be decrypted, and may name the person`]
      : []),
    ...(looked.unreadable > 0
      ? [
          `warning: ${counted(looked.unreadable, 'line')} of the access log cannot be read; run collector verify`,
        ]
      : []),
    ...missing.map(
      (file) =>
        `warning: access log incomplete: ${file} is not in the data directory, and looks in it are left ` +
        'out; give it with --access-log',
    ),
  ]);
  if (runs.length > 0) return;
  const where = organisation === undefined ? '' : ` of ${organisation}`;
  throw new CommandFailure(`no start${where} in ${dataDir} names one of the ids`, EXIT.notFound);
}

async function missingFrom(dataDir: string, closedFiles: ClosedFiles): Promise<readonly string[]> {
  const { events } = openStore(dataDir);
  try {
    return await missingFiles(events, dataDir, closedFiles);
  } finally {
    await events.close();
  }
}

/** The runs that name the person, and those nested in them. The catalogue could lack one. */
async function runsOf(
  dataDir: string,
  { subjects, organisation }: Asked,
  signal: AbortSignal,
): Promise<{ runs: readonly LogRun[]; unread: number }> {
  const reader = await LogRuns.open(dataDir, signal);
  try {
    const found = await reader.find({ subjects, organisation });
    assertOneOrganisation(new Map([...found.runs].map(([name, ids]) => [name, ids.size])));
    const runs = await reader.collect(keysIn(found.runs), { nested: true, outer: false });
    return { runs, unread: found.unread };
  } finally {
    await reader.close();
  }
}

/* The search. */

const OWN = 'access-log';
/** Commands that show nothing of an event, unless they name it. */
const SHOWS_NOTHING =
  /^(access-log|mirror|viewer|viewer break-glass|erase apply|keys .*|store .*|signing-key.*|retention .*|hold .*|encryption-keys (rotate|rewrap))$/;

/** An access that may concern the person. Programs rely on the names. */
interface Seen {
  readonly kind: 'look' | 'possible';
  readonly at: string;
  readonly reading: string;
  readonly actor: AccessLine['actor'];
  readonly command: string;
  readonly reason: string | null;
  readonly break_glass: boolean;
  /** The run that was looked at; null for a possible access. */
  readonly run: string | null;
  readonly organisation: string | null;
  readonly filter: NonNullable<AccessLine['filter']>;
  /** The number of events that were shown; null if the access has no end. */
  events: number | null;
  /** Whether everything was shown; null if the access has no end. */
  complete: boolean | null;
}

class WhoLooked {
  /** Lines that are not whole, or not of a command. */
  unreadable = 0;
  /** Accesses in their order; one that names several runs of the person is in it for each. */
  readonly #seen: Seen[] = [];
  readonly #open = new Map<string, Seen[]>();
  /** The first lines that were read: a mirror has its own twice, once they are in the database. */
  readonly #begun = new Set<string>();
  readonly #runs: readonly {
    readonly hex: string;
    readonly run: LogRun;
    readonly events: ReadonlySet<string>;
  }[];
  readonly #organisations: ReadonlySet<string>;

  constructor(
    runs: readonly LogRun[],
    private readonly period: Period,
  ) {
    this.#runs = runs.map((run) => ({
      ...{ hex: hexOf(run.recordId), run },
      events: new Set(run.events.map(({ id }) => hexOf(textOf(id)))),
    }));
    this.#organisations = new Set(runs.map(({ organisation }) => organisation));
  }

  take(line: AccessLine | 'torn' | 'foreign'): void {
    if (typeof line === 'string') {
      this.unreadable++;
      return;
    }
    const { reading = '', state } = line;
    if (state === 'begun') {
      if (!this.#begun.has(reading)) this.#begin(line, reading);
      return;
    }
    for (const seen of this.#open.get(reading) ?? [])
      Object.assign(seen, { events: line.events ?? 0, complete: line.complete ?? false });
    this.#open.delete(reading);
  }

  #begin(line: AccessLine, reading: string): void {
    const { at, actor, command = '', reason = null, break_glass = false, filter = {} } = line;
    const { since = -Infinity, until = Infinity } = this.period;
    if (Date.parse(at) < since || Date.parse(at) >= until) return;
    const seen = this.#matches(command, filter).map((run): Seen => {
      const place = { run: run?.recordId ?? null, organisation: run?.organisation ?? null };
      const kind = run === undefined ? 'possible' : 'look';
      const said = { at, reading, actor, command, reason, break_glass, filter };
      return { kind, ...said, ...place, events: null, complete: null };
    });
    if (seen.length === 0) return;
    this.#begun.add(reading);
    this.#open.set(reading, seen);
    this.#seen.push(...seen);
  }

  /** The runs at which an access looked; undefined for one that was not limited to other runs. */
  #matches(command: string, filter: NonNullable<AccessLine['filter']>): (LogRun | undefined)[] {
    const { run, event, organisation, entry, tiles, names } = filter;
    const isElsewhere = [organisation].flat().some((each) => typeof each === 'string');
    if (isElsewhere && ![organisation].flat().some((each) => this.#organisations.has(String(each))))
      return [];
    const [runs, events] = [textsIn(run).map(hexOf), textsIn(event).map(hexOf)];
    if (runs.length > 0 || events.length > 0)
      return this.#runs
        .filter(
          (each) =>
            // A short id is the beginning of an id.
            runs.some((id) => id !== '' && each.hex.startsWith(id)) ||
            events.some((id) => each.events.has(id)),
        )
        .map((each) => each.run);
    // An entry of the log itself, hashes, and the names of a form alone.
    const isOfOthers = entry !== undefined || tiles !== undefined || names === true;
    const showsNothing = SHOWS_NOTHING.test(command) || isOfOthers;
    return showsNothing || this.#runs.length === 0 ? [] : [undefined];
  }

  json(): string {
    return this.#seen.map((seen) => jsonLine(seen)).join('');
  }

  text(): string {
    if (this.#runs.length === 0) return '';
    const looks = this.#seen.filter(({ kind }) => kind === 'look');
    const possible = this.#seen.filter(({ kind }) => kind === 'possible');
    const runs = counted(this.#runs.length, 'run');
    const heading = `${counted(looks.length, 'look')} at the ${runs} of this person\n`;
    return [
      heading,
      ...(looks.length > 0
        ? ['\n', alignedTable([LOOK_HEADINGS, ...looks.map(lookRow)], process.stdout)]
        : []),
      ...(possible.length > 0
        ? [
            `\n${counted(possible.length, 'access', 'accesses')} not limited to other runs, so they may ` +
              'have contained these runs\n\n',
            alignedTable([GROUP_HEADINGS, ...groupRows(possible)], process.stdout),
          ]
        : []),
    ].join('');
  }
}

const LOOK_HEADINGS = ['WHEN', 'WHO', 'LOGIN', 'ROLE', 'COMMAND', 'RUN', 'EVENTS', 'REASON'];
const GROUP_HEADINGS = ['COMMAND', 'ACCESSES', 'WITHOUT END', 'FIRST', 'LAST', 'WHO'];
const LOGINS = { os: 'host', oidc: 'OpenID Connect', proxy: 'proxy' } as const;
const NONE = '-';
const MOST_NAMES = 5;

function lookRow({ at, actor, command, run, events, complete, reason, break_glass }: Seen): string[] {
  const login = `${LOGINS[actor.kind]}${actor.proven === true ? '' : ', not proven'}`;
  const stated = reason === null ? NONE : legible(reason);
  return [
    ...[at, legible(actor.name), login, actor.role === undefined ? NONE : legible(actor.role)],
    ...[legible(command), run ?? NONE],
    events === null ? 'unknown' : `${events}${complete === true ? '' : ', cut short'}`,
    break_glass ? `BREAK-GLASS: ${stated}` : stated,
  ];
}

/** A row for each command. */
function groupRows(possible: readonly Seen[]): string[][] {
  const groups = Map.groupBy(possible, ({ command }) => command);
  return [...groups]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([command, seen]) => {
      const names = [...new Set(seen.map(({ actor }) => legible(actor.name)))].sort();
      const more = names.length > MOST_NAMES ? ` and ${names.length - MOST_NAMES} more` : '';
      const times = seen.map(({ at }) => at).sort();
      const unended = seen.filter(({ events }) => events === null).length;
      return [
        ...[legible(command), String(seen.length), String(unended), times[0] ?? NONE, times.at(-1) ?? NONE],
        `${names.slice(0, MOST_NAMES).join(', ')}${more}`,
      ];
    });
}

function textsIn(value: unknown): string[] {
  return [value].flat().filter((each) => typeof each === 'string');
}

/** An id as hexadecimal digits, for comparison with one that may have been typed in capitals or shortened. */
function hexOf(id: string): string {
  return id.toLowerCase().replaceAll('-', '');
}

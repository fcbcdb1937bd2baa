/** The summary of `collector demo`, for a person and as JSON. */
import { EVENT_KINDS } from '@clinical-events/protocol';
import { inQuotes, ownCommand } from '@clinical-events/collector/config';
import { ANOMALIES, type Anomaly } from './anomalies.js';
import type { DemoPlan, Tally } from './demo-script.js';
import type { Answers } from './event-sender.js';
import { DAY } from './planned-run.js';
import { SCENARIOS } from './scenarios.js';
import { logAccess } from '@clinical-events/collector/commands/access-log';
import { openCatalogue, recordsIn } from '@clinical-events/collector/commands/catalogue';
import { outputColumns, timeline } from '@clinical-events/collector/commands/records/timeline';
import { urlOfHolder } from '@clinical-events/collector/commands/listening';
import { alignedTable } from '@clinical-events/collector/commands/terminal';
import { inDirectory } from '@clinical-events/collector/commands/typed';

const NAMES = Object.keys(ANOMALIES) as Anomaly[];

export interface Filed {
  readonly file: string;
  /** The organisation in each line. */
  readonly organisation: string;
  readonly lines: number;
  readonly bytes: number;
  readonly seconds: number;
}

export interface Sent {
  readonly url: string;
  /** The organisation of the temporary key; undefined with --key. */
  readonly organisation: string | undefined;
  readonly dataDir: string;
  /** The collector's answers before the first event was sent, by code. */
  readonly asked: ReadonlyMap<string, number>;
  readonly answers: Answers;
  readonly seconds: number;
  /** Whether everything was sent. */
  readonly whole: boolean;
}

/** The anomalies as lines of the help. */
export function mixtureTable(): string {
  return NAMES.map((name) => {
    const { rate, of, means } = ANOMALIES[name];
    const percent = `${Number((100 * rate).toFixed(1))} %`;
    return `  ${name.padEnd(15)} ${percent.padStart(5)} of ${of.padEnd(9)} ${means}\n`;
  }).join('');
}

function count(number: number): string {
  return number.toLocaleString('en-GB');
}

function perSecond(events: number, seconds: number): number {
  return Math.round(events / Math.max(seconds, 0.001));
}

/** The command that repeats the same events. */
function again({ seed, runs, period }: DemoPlan): string {
  const days = (period.until - period.since) / DAY;
  const until = new Date(period.until).toISOString();
  return `${ownCommand()} demo --runs ${runs} --days ${days} --seed ${seed} --until ${until}`;
}

/** The options that name the collector and the organisation if they are not the default. */
function destination({ url, organisation, dataDir }: Sent): string {
  const at = url === urlOfHolder(dataDir)?.href ? '' : ` --url ${url}`;
  const of = organisation === undefined || organisation === 'demo' ? '' : ` --organisation ${organisation}`;
  return `${at}${of}${inDirectory(dataDir)}`;
}

function recordCommand(runId: string, dataDir: string | undefined): string {
  return `${ownCommand()} records --run ${runId}${inDirectory(dataDir)}`;
}

/** The members of --json about the events, sent or written. */
function facts(plan: DemoPlan, tally: Tally, dataDir: string | undefined): object {
  const { seed, period } = plan;
  return {
    seed,
    since: new Date(period.since).toISOString(),
    until: new Date(period.until).toISOString(),
    runs: tally.runs,
    events: tally.events,
    events_by_kind: tally.kinds,
    events_after_the_end: tally.later,
    sendings: tally.sendings,
    mixed_in: tally.anomalies,
    scenarios: SCENARIOS.map(({ name, title, modelId, versions }) => {
      const { runs, events, example } = tally.scenarios.get(name) ?? { runs: 0, events: 0 };
      return {
        name,
        title,
        model_id: modelId,
        model_versions: versions,
        runs,
        events,
        example: example && { run_id: example.runId, look_with: recordCommand(example.runId, dataDir) },
      };
    }),
    repeat_with: again(plan),
  };
}

function printed(plan: DemoPlan, tally: Tally, dataDir: string | undefined, more: object): string {
  return `${JSON.stringify({ ...facts(plan, tally, dataDir), ...more }, undefined, 2)}\n`;
}

/** Runs, events and anomalies, as text. */
function story({ period }: DemoPlan, tally: Tally): string {
  const [since, until] = [period.since, period.until].map((time) => new Date(time).toISOString());
  const scenarios = SCENARIOS.map(({ name, modelId, versions }) => {
    const { runs, events } = tally.scenarios.get(name) ?? { runs: 0, events: 0 };
    return [name, count(runs), count(events), `${modelId} ${versions.join(', then ')}`];
  });
  const kinds = EVENT_KINDS.map((kind) => [kind, count(tally.kinds[kind])]);
  const odd = NAMES.map((name) => [name, count(tally.anomalies[name]), ANOMALIES[name].means]);
  const later = `${count(tally.later)} more events would come after the end of the period.\n`;
  return `${count(tally.runs)} runs, ${count(tally.events)} events from ${since} to ${until}

${alignedTable([['SCENARIO', 'RUNS', 'EVENTS', 'MODEL'], ...scenarios])}
${alignedTable([['EVENTS', ''], ...kinds])}${tally.later === 0 ? '' : later}
${alignedTable([['ANOMALIES', '', ''], ...odd])}`;
}

/** The summary of `collector demo --out`. */
export function filedSummary(plan: DemoPlan, tally: Tally, filed: Filed, json: boolean): string {
  const { file, organisation, lines, bytes, seconds } = filed;
  const { repeat, respelt, conflict } = tally.anomalies;
  const rate = perSecond(lines, seconds);
  if (json) {
    const written = { ...filed, seconds: Number(seconds.toFixed(3)), lines_per_second: rate };
    return printed(plan, tally, undefined, { written });
  }
  const size = `${count(lines)} lines, ${count(bytes)} bytes`;
  return `${story(plan, tally)}
Wrote ${size} to ${file} in ${seconds.toFixed(1)} s, ${count(rate)}/s.
They include ${repeat + respelt} repeats and ${conflict} conflicts; import refuses conflicts (exit code 7).
To import them: ${ownCommand()} import ${inQuotes(file)} --organisation ${organisation} --key @FILE
To write the same events again: ${again(plan)} --out …
`;
}

/** The summary after sending. */
export function sentSummary(plan: DemoPlan, tally: Tally, sent: Sent, json: boolean): string {
  const { url, organisation, dataDir, asked, answers, seconds, whole } = sent;
  const { accepted, repeats, conflicts, missedConflicts, ownWords, retries } = answers;
  const rate = perSecond(tally.sendings, seconds);
  if (json) {
    const sending = {
      url,
      organisation: organisation ?? null,
      complete: whole,
      accepted,
      repeats_accepted: repeats,
      conflicts_expected: tally.anomalies.conflict,
      conflicts_met: conflicts,
      conflicts_missed: missedConflicts,
      own_words_refused: ownWords,
      refused: Object.fromEntries(answers.refused),
      asked_before: Object.fromEntries(asked),
      retries,
      seconds: Number(seconds.toFixed(3)),
      sendings_per_second: rate,
    };
    return printed(plan, tally, dataDir, { sent: sending });
  }
  const whose = organisation === undefined ? '' : ` for organisation "${organisation}"`;
  const ofAll = `${count(conflicts)} of ${count(tally.anomalies.conflict)}`;
  const notes = [
    `Sent ${count(tally.sendings)} to ${url}${whose} in ${seconds.toFixed(1)} s, ${count(rate)}/s:`,
    `  ${count(accepted)} events accepted`,
    `  ${count(repeats)} repeats accepted and not stored again`,
    `  ${ofAll} conflicts refused (event_id_conflict), as expected`,
    ownWords > 0 && `  ${count(ownWords)} outcomes in own words refused: the collector asks for profile full`,
    ...[...answers.refused].map(([code, number]) => `  ${count(number)} REFUSED: ${code}`),
    missedConflicts > 0 && `  ${count(missedConflicts)} conflicts ACCEPTED, which should not happen`,
    retries > 0 && `  ${count(retries)} sent again: the collector asked for it or did not answer`,
    !whole && '  INTERRUPTED before all was sent',
    'Before that it checked the key without events; the console counts these checks as refused:',
    `  ${[...asked].map(([code, number]) => `${count(number)} ${code}`).join(', ')}`,
  ].filter((line) => line !== false);
  const examples = SCENARIOS.flatMap(({ name, title }) => {
    const example = tally.scenarios.get(name)?.example;
    return example === undefined ? [] : [`  ${title}:\n    ${recordCommand(example.runId, dataDir)}\n`];
  });
  const contradicted = `${ownCommand()} runs --outcome contradicted --clock sender${inDirectory(dataDir)}`;
  const look =
    `\nOne run of each scenario:\n${examples.join('')}` +
    `Runs whose outcome is contradicted:\n    ${contradicted}\n`;
  const repeat = `${again(plan)}${destination(sent)}`;
  return `${story(plan, tally)}
${notes.join('\n')}
The timestamps are those of the made-up senders; received_at is the time of receipt.
${examples.length === 0 ? '' : look}
${whole ? 'To send the same events again' : 'To send the rest, and the others again'}: ${repeat}
`;
}

/**
 * The record of a run as text. The access log has an entry for it.
 * @returns an empty text if the log does not have the run.
 * @throws CommandFailure when the log or the access log fails.
 */
export async function shownRun(
  dataDir: string,
  { command, runId, organisation }: { command: string; runId: string; organisation: string },
): Promise<string> {
  const givenOut = logAccess(dataDir, { command, filter: { run: runId, organisation } });
  const access = await openCatalogue({ dataDir, quiet: true, signal: new AbortController().signal });
  try {
    let text = '';
    for await (const record of recordsIn(access, { recordId: runId, organisation })) {
      text += timeline(record, outputColumns());
      givenOut.events += record.metadata.events.length;
    }
    givenOut.complete = true;
    return text;
  } finally {
    await access.close();
  }
}

/** What `collector demo` did, for a person and for a script. */
import { EVENT_KINDS } from '@clinical-events/protocol';
import { inQuotes, ownCommand } from '@clinical-events/collector/config';
import { ANOMALIES, type Anomaly } from './anomalies.js';
import type { DemoPlan, Tally } from './demo-script.js';
import type { Answers } from './event-sender.js';
import { SCENARIOS } from './scenarios.js';
import { logAccess } from '@clinical-events/collector/commands/access-log';
import { openCatalogue, recordsIn } from '@clinical-events/collector/commands/catalogue';
import { outputColumns, timeline } from '@clinical-events/collector/commands/records/timeline';
import { urlOfHolder } from '@clinical-events/collector/commands/listening';
import { alignedTable } from '@clinical-events/collector/commands/terminal';
import { inDirectory } from '@clinical-events/collector/commands/typed';

const DAY = 86_400_000;
const NAMES = Object.keys(ANOMALIES) as Anomaly[];

export interface Filed {
  readonly file: string;
  /** That the lines name. */
  readonly organisation: string;
  readonly lines: number;
  readonly bytes: number;
  readonly seconds: number;
}

export interface Sent {
  readonly url: string;
  /** Of the key that was made; not known of a key that was given. */
  readonly organisation: string | undefined;
  readonly dataDir: string;
  /** How the collector answered before anything was sent, by code. */
  readonly asked: ReadonlyMap<string, number>;
  readonly answers: Answers;
  readonly seconds: number;
  /** False when it ended before all was sent. */
  readonly whole: boolean;
}

/** What goes wrong and how often, for the help. */
export function mixtureTable(): string {
  return NAMES.map((name) => {
    const { rate, of, means } = ANOMALIES[name];
    return `  ${name.padEnd(15)} ${`${Number((100 * rate).toFixed(1))} %`.padStart(5)} of ${of.padEnd(9)} ${means}\n`;
  }).join('');
}

function count(number: number): string {
  return number.toLocaleString('en-GB');
}

function perSecond(events: number, seconds: number): number {
  return Math.round(events / Math.max(seconds, 0.001));
}

/** Repeats the same events. */
function again({ seed, runs, period }: DemoPlan): string {
  const days = (period.until - period.since) / DAY;
  const until = new Date(period.until).toISOString();
  return `${ownCommand()} demo --runs ${runs} --days ${days} --seed ${seed} --until ${until}`;
}

/** Where it goes to, and for whom, unless that is so by default. */
function whither({ url, organisation, dataDir }: Sent): string {
  const there = url === urlOfHolder(dataDir)?.href ? '' : ` --url ${url}`;
  const whom = organisation === undefined || organisation === 'demo' ? '' : ` --organisation ${organisation}`;
  return `${there}${whom}${inDirectory(dataDir)}`;
}

function looking(runId: string, dataDir: string | undefined): string {
  return `${ownCommand()} records --run ${runId}${inDirectory(dataDir)}`;
}

/** The names are a promise. */
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
        example: example && { run_id: example.runId, look_with: looking(example.runId, dataDir) },
      };
    }),
    repeat_with: again(plan),
  };
}

/** What happened in the made-up hospital; the same whether it was sent or written. */
function story(plan: DemoPlan, tally: Tally): string {
  const { since, until } = plan.period;
  const scenarios = SCENARIOS.map(({ name, modelId, versions }) => {
    const { runs, events } = tally.scenarios.get(name) ?? { runs: 0, events: 0 };
    return [name, count(runs), count(events), `${modelId} ${versions.join(', then ')}`];
  });
  const kinds = EVENT_KINDS.map((kind) => [kind, count(tally.kinds[kind])]);
  const odd = NAMES.map((name) => [name, count(tally.anomalies[name]), ANOMALIES[name].means]);
  const later =
    tally.later === 0 ? '' : `Not yet: ${count(tally.later)} more would come after the end of the period.\n`;
  return `${count(tally.runs)} runs, ${count(tally.events)} events from ${new Date(since).toISOString()} to ${new Date(until).toISOString()}

${alignedTable([['SCENARIO', 'RUNS', 'EVENTS', 'MODEL'], ...scenarios])}
${alignedTable([['EVENTS', ''], ...kinds])}${later}
${alignedTable([['MIXED IN', '', ''], ...odd])}`;
}

/** What `collector demo --out` prints. */
export function filedSummary(plan: DemoPlan, tally: Tally, filed: Filed, json: boolean): string {
  const { file, organisation, lines, bytes, seconds } = filed;
  const rate = perSecond(lines, seconds);
  if (json) {
    const written = { ...filed, seconds: Number(seconds.toFixed(3)), lines_per_second: rate };
    return `${JSON.stringify({ ...facts(plan, tally, undefined), written }, undefined, 2)}\n`;
  }
  return `${story(plan, tally)}
Wrote ${count(lines)} lines, ${count(bytes)} bytes to ${file} in ${seconds.toFixed(1)} s, ${count(rate)}/s.
The ${tally.anomalies.repeat + tally.anomalies.respelt} repeats are lines of their own, and so are the ${tally.anomalies.conflict} conflicts, which an import refuses (exit code 7).
Import it with: ${ownCommand()} import ${inQuotes(file)} --organisation ${organisation} --key @FILE
The same again: ${again(plan)} --out …
`;
}

/** What `collector demo` prints at the end of sending. */
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
    return `${JSON.stringify({ ...facts(plan, tally, dataDir), sent: sending }, undefined, 2)}\n`;
  }
  const notes = [
    `Sent ${count(tally.sendings)} to ${url}${organisation === undefined ? '' : ` for organisation "${organisation}"`} in ${seconds.toFixed(1)} s, ${count(rate)}/s:`,
    `  ${count(accepted)} events accepted; the log keeps each of them once`,
    `  ${count(repeats)} repeats accepted, and not stored again`,
    `  ${count(conflicts)} of ${count(tally.anomalies.conflict)} conflicts refused (event_id_conflict), as is right`,
    ...(ownWords > 0
      ? [`  ${count(ownWords)} outcomes in own words refused: the collector asks for profile full`]
      : []),
    ...[...answers.refused].map(([code, number]) => `  ${count(number)} REFUSED: ${code}`),
    ...(missedConflicts > 0 ? [`  ${count(missedConflicts)} conflicts ACCEPTED, which should not be`] : []),
    ...(retries > 0
      ? [`  ${count(retries)} sent again, because the collector asked for it or did not answer`]
      : []),
    ...(whole ? [] : ['  INTERRUPTED before all was sent']),
    'First it asked whether its key is taken, with no event; the console counts these among the refused:',
    `  ${[...asked].map(([code, number]) => `${count(number)} ${code}`).join(', ')}`,
  ];
  const examples = SCENARIOS.flatMap(({ name, title }) => {
    const example = tally.scenarios.get(name)?.example;
    return example === undefined ? [] : [`  ${title}:\n    ${looking(example.runId, dataDir)}\n`];
  });
  const contradicted = `${ownCommand()} runs --outcome contradicted --clock sender${inDirectory(dataDir)}`;
  const look =
    examples.length === 0
      ? ''
      : `\nA run of each to look at:\n${examples.join('')}Those that were contradicted by what happened:\n    ${contradicted}\n`;
  return `${story(plan, tally)}
${notes.join('\n')}
The timestamps are those of the made-up senders; received_at is when the collector got them, now.
${look}
${whole ? 'The same events again' : 'The rest, and those that were sent again'}: ${again(plan)}${whither(sent)}
`;
}

/* One run as a person reads it, for a command that has just had it stored. */

export interface RunToShow {
  readonly command: string;
  readonly runId: string;
  readonly organisation: string;
}

/**
 * The access is logged in the access log.
 * @returns its record as text; empty when the log does not have the run.
 * @throws CommandFailure when the log cannot be read, or the access cannot be logged.
 */
export async function shownRun(dataDir: string, run: RunToShow): Promise<string> {
  const { command, runId, organisation } = run;
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

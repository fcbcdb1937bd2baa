/** The thread that makes records and pieces of files of them: several can do so beside each other (record-threads.ts). */
import { parentPort, workerData } from 'node:worker_threads';
import { nodeFiles } from '../files.js';
import { assembleRun } from '../records/assemble.js';
import { UNLINKED } from '../records/nesting.js';
import { eventBatchesOf, outsideParents, windowsOf } from '../records/record-windows.js';
import { idBytes, isNoId } from '../records/run-entry.js';
import type { EventBody } from '../records/event-body.js';
import { beganBySender } from '../records/report/run-moments.js';
import type { RunEvent } from '../records/run-event.js';
import { runsIn } from '../records/sorted-runs.js';
import { LogPlaces } from '../store/open.js';
import { uuidText } from '../store/uuid-text.js';
import { isWanted } from './record-arguments.js';
import { FORMATS } from './record-formats.js';
import type { Answer, Job, Question, ThreadSettings, Told } from './record-job.js';
import { PieceMaker } from './record-pieces.js';

const port = parentPort;
if (port === null) throw new Error('this file is for a thread');
const { dataDir, format: name, filter, daysBy, places } = workerData as ThreadSettings;
const format = await FORMATS[name]?.load();
if (format === undefined) throw new RangeError(`there is no format ${name}`);
const log = LogPlaces.beside(dataDir, nodeFiles, places);
const reader = format.reader();
const maker = new PieceMaker(format, daysBy, (run) => isWanted(filter, run, () => beganBySender(run)));
/** Who waits for answers: they come in the order of the questions. */
const answered: ((runs: readonly (string | null | undefined)[]) => void)[] = [];

function tell(answer: Answer): void {
  const transfer = 'pieces' in answer ? answer.pieces.map(({ bytes }) => bytes.buffer) : [];
  port?.postMessage(answer, transfer);
}

type Answers = ReadonlyMap<string, string | null | undefined>;

type Events = readonly RunEvent<EventBody>[];

/** The events of some runs, and where the parents are that are not among them. */
interface Prepared {
  readonly runs: readonly Events[];
  readonly parents: Answers | Promise<Answers>;
}

function prepared(runs: readonly Events[]): Prepared {
  const answers = new Map<string, string | null | undefined>();
  const questions: Question[] = [];
  for (const events of runs) {
    const organisation = organisationOf(events);
    for (const eventId of outsideParents(events)) {
      const run = runOf(organisation, eventId);
      if (run === undefined) questions.push({ organisation, eventId });
      else answers.set(`${organisation} ${eventId}`, run);
    }
  }
  return { runs, parents: questions.length === 0 ? answers : withAnswers(questions, answers) };
}

/** @returns undefined for what the main thread has to tell: where an event is that names no run, or is not found here. */
function runOf(organisation: string, eventId: string): string | undefined {
  const found = log.findPassed(organisation, idBytes(eventId), 0);
  return found === undefined || isNoId(found.runId, 0) ? undefined : uuidText(found.runId);
}

async function withAnswers(
  questions: readonly Question[],
  known: Map<string, string | null | undefined>,
): Promise<Answers> {
  const answers = await new Promise<readonly (string | null | undefined)[]>((resolve) => {
    answered.push(resolve);
    tell({ questions });
  });
  for (const [i, { organisation, eventId }] of questions.entries())
    known.set(`${organisation} ${eventId}`, answers[i]);
  return known;
}

function organisationOf(events: Events): string {
  return events[0]?.event.organisation ?? '';
}

/** Some runs after the other, each with the next one's read: their questions are answered meanwhile. */
async function* batchesOf(entries: Buffer): AsyncGenerator<Prepared> {
  for (const window of windowsOf(runsIn(entries))) {
    for await (const runs of eventBatchesOf(log, window, reader)) yield prepared(runs);
  }
}

async function make({ entries, links }: Job): Promise<void> {
  const linkOf = new Map(links.map(([run, children, cycle]) => [run, { children, cycle }]));
  const batches = batchesOf(Buffer.from(entries.buffer, entries.byteOffset, entries.byteLength));
  let passed = 0;
  let run = 0;
  for (let next = await batches.next(); !next.done;) {
    const { runs, parents } = next.value;
    next = await batches.next();
    const known = await parents;
    for (const events of runs) {
      const { children, cycle } = linkOf.get(run++) ?? UNLINKED;
      const parentRunOf = (eventId: string) => known.get(`${organisationOf(events)} ${eventId}`);
      maker.add(assembleRun(events, { children, cycle, parentRunOf }));
      passed += events.length;
    }
  }
  tell({ pieces: maker.take(), passed });
}

let last = Promise.resolve();

port.on('message', (told: Told) => {
  if ('runs' in told) answered.shift()?.(told.runs);
  else {
    last = last.then(() => make(told.job));
    last.catch((error: unknown) => {
      // An uncaught error of a thread reaches whoever started it.
      setImmediate(() => {
        throw error;
      });
    });
  }
});

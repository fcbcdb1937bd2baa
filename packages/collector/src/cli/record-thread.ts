/** The thread that makes records and pieces of files of them: several can do so beside each other (record-threads.ts). */
import { parentPort, workerData } from 'node:worker_threads';
import { assembleRecord } from '../records/assemble.js';
import { eventsOf, outsideParentsOf } from '../records/record-windows.js';
import { nodeFiles } from '../store/embedded/files.js';
import { LogPlaces } from '../store/embedded/log-places.js';
import { isWanted } from './record-arguments.js';
import { FORMATS } from './record-formats.js';
import {
  placesIn,
  type Answer,
  type Job,
  type Question,
  type ThreadSettings,
  type Told,
} from './record-job.js';
import { PieceMaker } from './record-pieces.js';

const port = parentPort;
if (port === null) throw new Error('this file is for a thread');
const { dataDir, format: name, filter, byDay } = workerData as ThreadSettings;
const format = await FORMATS[name]?.load();
if (format === undefined) throw new RangeError(`there is no format ${name}`);
const log = LogPlaces.forReading(dataDir, nodeFiles);
const maker = new PieceMaker(format, byDay, (record) => isWanted(filter, record));
let answered: ((runs: readonly (string | null | undefined)[]) => void) | undefined;

function tell(answer: Answer): void {
  const transfer = 'pieces' in answer ? answer.pieces.map(({ bytes }) => bytes.buffer) : [];
  port?.postMessage(answer, transfer);
}

async function whereAre(questions: readonly Question[]): Promise<Map<string, string | null | undefined>> {
  const runs = new Map<string, string | null | undefined>();
  if (questions.length === 0) return runs;
  const answers = await new Promise<readonly (string | null | undefined)[]>((resolve) => {
    answered = resolve;
    tell({ questions });
  });
  for (const [i, { run, eventId }] of questions.entries()) runs.set(`${run} ${eventId}`, answers[i]);
  return runs;
}

async function make(job: Job): Promise<void> {
  let passed = 0;
  for (const [place, window] of job.windows.entries()) {
    const runs = eventsOf(log, placesIn(window));
    const questions = runs.flatMap((events, run) =>
      outsideParentsOf(events).map((eventId): Question => ({ window: place, run, eventId })),
    );
    const parents = await whereAre(questions);
    const links = new Map(window.links.map(([run, children, cycle]) => [run, { children, cycle }]));
    for (const [run, events] of runs.entries()) {
      const { children = [], cycle = [] } = links.get(run) ?? {};
      const parentRunOf = (eventId: string) => parents.get(`${run} ${eventId}`);
      maker.add(assembleRecord(events, { children, cycle, parentRunOf }));
      passed += events.length;
    }
  }
  tell({ pieces: maker.take(), passed });
}

port.on('message', (told: Told) => {
  if ('runs' in told) answered?.(told.runs);
  else {
    make(told.job).catch((error: unknown) => {
      // An uncaught error of a thread reaches whoever started it.
      setImmediate(() => {
        throw error;
      });
    });
  }
});

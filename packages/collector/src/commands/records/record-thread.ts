/** A thread that makes records as pieces of files, in parallel with others (record-threads.ts). */
import { parentPort, workerData } from 'node:worker_threads';
import { assembleRun } from '../../records/assemble.js';
import type { EventBody, RunEvent } from '../../records/run-event.js';
import { eventBatchesOf, outsideParents, windowsOf } from '../../records/record-windows.js';
import type { Place } from '../../store/contract/events.js';
import { openStore } from '../../store/open-to-read.js';
import { FORMATS } from '../../records/exports/formats.js';
import {
  type Job,
  type Linked,
  type Question,
  type ThreadAnswer,
  type ThreadSettings,
  type ThreadMessage,
  PieceMaker,
} from './job.js';

const port = parentPort;
if (port === null) throw new Error('this file runs only in a thread');
const { dataDir, format: name, options, dayBy } = workerData as ThreadSettings;
const format = await FORMATS[name]?.load(options);
if (format === undefined) throw new RangeError(`there is no format ${name}`);
const log = openStore(dataDir).events;
const reader = format.reader();
const maker = new PieceMaker(format, dayBy);
/** Callers waiting for answers, which arrive in the order of the questions. */
const answered: ((runs: readonly (string | null | undefined)[]) => void)[] = [];

type Answers = ReadonlyMap<string, string | null | undefined>;

type Events = readonly RunEvent<EventBody>[];

/** The events of some runs, and the runs of parents outside them. */
interface Prepared {
  readonly runs: readonly Events[];
  readonly parents: Answers | Promise<Answers>;
}

const UNLINKED: Linked = { parent: undefined, children: [], cycle: [] };

/** @param linkAt the known links of a run. */
function prepared(runs: readonly Events[], linkAt: (run: number) => Linked): Prepared {
  const answers = new Map<string, string | null | undefined>();
  const questions: Question[] = [];
  for (const [run, events] of runs.entries()) {
    const organisation = organisationOf(events);
    const outside = new Set(outsideParents(events));
    const { parent } = linkAt(run);
    for (const eventId of outside) {
      // The run it is nested in has the parent of its first start. A single outside parent must be that
      // event.
      if (outside.size === 1 && parent !== undefined) answers.set(`${organisation} ${eventId}`, parent);
      else questions.push({ organisation, eventId });
    }
  }
  return { runs, parents: questions.length === 0 ? answers : withAnswers(questions, answers) };
}

async function withAnswers(
  questions: readonly Question[],
  known: Map<string, string | null | undefined>,
): Promise<Answers> {
  const answers = await new Promise<readonly (string | null | undefined)[]>((resolve) => {
    answered.push(resolve);
    port?.postMessage({ questions } satisfies ThreadAnswer);
  });
  for (const [i, { organisation, eventId }] of questions.entries())
    known.set(`${organisation} ${eventId}`, answers[i]);
  return known;
}

function organisationOf(events: Events): string {
  return events[0]?.event.organisation ?? '';
}

function* runsIn({ places, ends }: Job): Generator<{ readonly places: readonly Place[] }> {
  let from = 0;
  for (const end of ends) {
    const of: Place[] = [];
    for (; from < end; from += 2) of.push({ at: places[from] ?? 0, size: places[from + 1] ?? 0 });
    yield { places: of };
  }
}

/** Batches of runs; the questions about one are answered while the next is read. */
async function* batchesOf(job: Job): AsyncGenerator<Prepared> {
  let first = 0;
  for (const window of windowsOf(runsIn(job))) {
    for await (const runs of eventBatchesOf(log, window, reader)) {
      const from = first;
      yield prepared(runs, (run) => job.links.get(from + run) ?? UNLINKED);
      first += runs.length;
    }
  }
}

async function make(job: Job): Promise<void> {
  const batches = batchesOf(job);
  let run = 0;
  for (let next = await batches.next(); !next.done;) {
    const { runs, parents } = next.value;
    next = await batches.next();
    const known = await parents;
    for (const events of runs) {
      const { children, cycle } = job.links.get(run++) ?? UNLINKED;
      const parentRunOf = (eventId: string) => known.get(`${organisationOf(events)} ${eventId}`);
      maker.add(assembleRun(events, { children, cycle, parentRunOf }));
    }
  }
  const pieces = maker.take();
  port?.postMessage(
    { pieces } satisfies ThreadAnswer,
    pieces.map(({ bytes }) => bytes.buffer),
  );
}

let last = Promise.resolve();

port.on('message', (message: ThreadMessage) => {
  if ('runs' in message) answered.shift()?.(message.runs);
  else {
    last = last.then(() => make(message.job));
    last.catch((error: unknown) => {
      // The error is thrown outside the promise, where it would only be an unhandled rejection. It ends the
      // thread and rejects the callers.
      setImmediate(() => {
        throw error;
      });
    });
  }
});

/** The thread that answers questions, one after another. The main thread starts it twice. */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import { NotReadable } from '../contract.js';
import { Answers } from './answers.js';
import type { Question, Reply } from './questions.js';
import type { ReadingPlaces } from './reading-places.js';
import { sentenceOf, traceOf } from './trouble.js';

function main(port: MessagePort, places: ReadingPlaces): void {
  const answers = new Answers(places);
  let last: Promise<unknown> = Promise.resolve();
  port.on('message', (question: Question) => {
    last = last.then(async () => port.postMessage(await replyTo(answers, question)));
  });
}

async function replyTo(answers: Answers, question: Question): Promise<Reply> {
  const { id } = question;
  try {
    return { id, answer: await answers.answer(question) };
  } catch (error) {
    if (error instanceof NotReadable) return { id, refused: error.message };
    return { id, refused: sentenceOf(error), trouble: traceOf(error) };
  }
}

if (parentPort) main(parentPort, workerData as ReadingPlaces);

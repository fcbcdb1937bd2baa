// A thread that answers a question with the question, or ends as the question asks.
import { parentPort } from 'node:worker_threads';

parentPort?.on('message', ({ id, asked }) => {
  const [how] = asked.organisations;
  if (how === 'exit') process.exit(3);
  if (how === 'throw') throw new Error('secret');
  if (how === 'memory') {
    const kept = [];
    for (;;) kept.push(new Array(1 << 20).fill(kept.length));
  }
  setTimeout(() => parentPort?.postMessage({ id, answer: asked }), 10);
});

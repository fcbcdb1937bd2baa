/**
 * All senders of a soak, in a thread of their own, so that the checks of the soak do not delay them. Each
 * message is `{ act, … }` and is answered by a message with the result.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { createSecureContext } from 'node:tls';
import { parentPort, workerData } from 'node:worker_threads';
import { FaultySender, Sender } from './sender.mjs';
import { SoakEvents } from './soak-events.mjs';
import { Tally } from './tally.mjs';

const TICK_MS = 2;
const SWEEP_MS = 1000;

const { port, ca, seed, senders: described } = workerData;
const events = new SoakEvents(seed);
const tally = new Tally((number) => events.kindOf(number));
const common = { events, tally, target: { port, secureContext: createSecureContext({ ca }) } };
const senders = described.map(
  (sender, index) => new (sender.isFaulty ? FaultySender : Sender)({ ...sender, index }, common),
);

const ticks = setInterval(() => {
  const now = performance.now();
  for (const sender of senders) sender.turn(now);
}, TICK_MS);
const sweeps = setInterval(() => {
  const now = performance.now();
  for (const sender of senders) sender.sweep(now);
}, SWEEP_MS);

const waiting = () => senders.reduce((sum, sender) => sum + (sender.revoked ? 0 : sender.waiting), 0);

const ACTS = {
  /** `rate` is the sum of all senders; null: as fast as they are answered. */
  begin({ rate }) {
    for (const [i, { share, fixedRate }] of described.entries())
      senders[i].begin(fixedRate ?? (rate === null ? Infinity : rate * share));
  },
  enter: ({ phase }) => tally.enter(phase),
  /** The collector has ended: later connections reach another start. */
  nextLife: () => tally.nextLife(),
  renewHalf() {
    for (const sender of senders) sender.renewHalf();
  },
  counts: () => ({
    ...tally.counts(),
    waiting: waiting(),
    newestAccepted: Object.fromEntries(senders.map(({ name, newestAccepted }) => [name, newestAccepted])),
  }),
  phases: () => tally.phases(),
  /**
   * Stops making events. Resolves with the number of unacknowledged events when it is 0 or has not fallen for
   * `patienceMs`. A sender with a revoked key stops sending.
   */
  async drain({ patienceMs }) {
    for (const sender of senders) {
      sender.begin(0);
      if (sender.revoked) sender.close();
    }
    let [left, since] = [waiting(), performance.now()];
    while (left > 0 && performance.now() - since < patienceMs) {
      await sleep(20);
      const now = waiting();
      if (now < left) [left, since] = [now, performance.now()];
    }
    return left;
  },
  /** The fates of all events, by sender. Nothing is sent afterwards. */
  end() {
    clearInterval(ticks);
    clearInterval(sweeps);
    for (const sender of senders) sender.close();
    return senders.map(({ fates }) => fates.bytes);
  },
};

parentPort.on('message', async ({ id, act, ...wish }) => {
  parentPort.postMessage({ id, result: await ACTS[act](wish) });
});

/**
 * All senders of a soak, in a thread of their own, so that nothing that the soak looks at meanwhile holds
 * them up. Each message is `{ act, … }` and answered by a message with what came of it.
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
  /** `rate` is that of all together; null: as fast as they are answered. */
  begin({ rate }) {
    for (const [i, { share, fixedRate }] of described.entries())
      senders[i].begin(fixedRate ?? (rate === null ? Infinity : rate * share));
  },
  enter: ({ phase }) => tally.enter(phase),
  /** The collector is gone: anyone who connects from now on reaches another start of it. */
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
   * Nothing new is made; resolves with how much is not acknowledged when that is nothing, or has not become
   * less for so long. Whose key was revoked falls silent.
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

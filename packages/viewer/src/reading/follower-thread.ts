/** The thread that keeps the viewer's catalogue up to date. Questions are answered by other threads. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type MessagePort, parentPort, workerData } from 'node:worker_threads';
import type { ReadingState } from '../contract.js';
import { Following } from './following.js';
import type { ReadingPlaces } from './reading-places.js';

export interface FollowerData extends ReadingPlaces {
  /** The pause after an update that was complete. */
  readonly everyMs: number;
}

export type FollowerSays =
  { readonly state: ReadingState } | { readonly followed: string } | { readonly trouble: string };

/** The id of an action whose report is recorded. */
export type FollowerHears = string;

/** The pause between two parts of a long update. */
const BREATH_MS = 20;

async function main(port: MessagePort, { everyMs, ...places }: FollowerData): Promise<never> {
  const say = (said: FollowerSays) => port.postMessage(said);
  const following = new Following({
    ...places,
    onState: (state) => say({ state }),
    onFollowed: (followed) => say({ followed }),
    onTrouble: (trouble) => say({ trouble }),
  });
  port.on('message', (action: FollowerHears) => following.reported(action));
  for (;;) {
    const isThrough = await following.follow();
    await sleep(isThrough ? everyMs : BREATH_MS);
  }
}

if (parentPort) await main(parentPort, workerData as FollowerData);

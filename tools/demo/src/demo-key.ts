/**
 * The key that `collector demo` sends with: one that the operator gives, or one that is made for the time being in the
 * data directory of the collector on this host. Asks the collector before anything is sent, so that nothing is left
 * half done in a log from which nothing can be removed.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { createKey } from '@clinical-events/collector/access/issuing';
import { exists } from '@clinical-events/collector/files';
import { EventEndpoint } from '@clinical-events/collector/sending/event-endpoint';
import { isLocked } from '@clinical-events/collector/store/directory-lock';
import { KeyDatabase } from '@clinical-events/collector/store/open-keys';
import { CommandFailure, EXIT, usage } from '@clinical-events/collector/commands/exit-codes';
import {
  assertAnswers,
  isThisHost,
  keyFrom,
  warnOfPlainText,
} from '@clinical-events/collector/commands/remote-collector';

/** A key that was left behind, by a kill -9, is of no use after this. */
const KEY_LIVES_MS = 24 * 3_600_000;
/** A running collector follows within a second; a slow disk may take longer. */
const FOLLOWED_WITHIN_MS = 5000;
const LOOK_EVERY_MS = 300;

export interface DemoKey {
  readonly text: string;
  /** How the collector answered when it was asked, by code: its console counts these as refusals. */
  readonly asked: ReadonlyMap<string, number>;
  /** On return a key that was made for the time being is refused. */
  release(): Promise<void>;
}

export interface KeyNeeds {
  readonly url: URL;
  /** What --key says. */
  readonly given: string | undefined;
  readonly dataDir: string;
  /** Whom a key that is made belongs to. */
  readonly organisation: string;
  readonly stop: AbortSignal;
}

/** On return there is a collector at the address, and the key may send events of all kinds. */
export async function keyFor(needs: KeyNeeds): Promise<DemoKey> {
  const { url, given } = needs;
  const text = given === undefined ? undefined : await keyFrom(given);
  const asked = new Map<string, number>();
  await assertAnswers(url, asked);
  if (text === undefined) return await temporaryKey(needs, asked);
  const refusal = await refusalOf(url, text, asked);
  if (refusal !== undefined) throw new CommandFailure(refusal, EXIT.failure);
  warnOfPlainText(url);
  return { text, asked, release: () => Promise.resolve() };
}

/** Why the key may not send everything, in words, or undefined. */
async function refusalOf(url: URL, key: string, asked: Map<string, number>): Promise<string | undefined> {
  const endpoint = new EventEndpoint(url, key);
  try {
    const refusal = await endpoint.firstRefusal();
    if (refusal === undefined) return undefined;
    const { kind, answer } = refusal;
    const why = answer.code ?? `status ${answer.status}`;
    return answer.status === 403
      ? `the key may not send ${kind}; make one with: collector keys create --permissions all`
      : `the collector at ${url.href} refuses the key: ${why}`;
  } finally {
    for (const [name, number] of endpoint.asked) asked.set(name, (asked.get(name) ?? 0) + number);
    await endpoint.close();
  }
}

async function temporaryKey(
  { url, dataDir, organisation, stop }: KeyNeeds,
  asked: Map<string, number>,
): Promise<DemoKey> {
  if (!isThisHost(url)) throw usage('--key is needed for a collector on another host');
  if (!exists(dataDir) || !isLocked(dataDir)) {
    throw usage(
      `no collector runs on ${dataDir}: say with --data-dir on which it does, or give a --key for it`,
    );
  }
  const keys = KeyDatabase.open(dataDir);
  let keyId: string | undefined;
  const release = async () => {
    try {
      if (keyId !== undefined) await keys.revoke(keyId, Date.now());
    } finally {
      await keys.close();
    }
  };
  try {
    const now = Date.now();
    const { text, key } = await createKey(
      keys,
      { organisation, permissions: 'all', expiresAt: now + KEY_LIVES_MS, note: 'made by collector demo' },
      now,
    );
    keyId = key.keyId;
    for (;;) {
      await sleep(LOOK_EVERY_MS, undefined, { signal: stop });
      if ((await refusalOf(url, text, asked)) === undefined) return { text, asked, release };
      if (Date.now() > now + FOLLOWED_WITHIN_MS) break;
    }
  } catch (error) {
    await release();
    if (stop.aborted)
      throw new CommandFailure('interrupted; nothing was sent', EXIT.interrupted, { cause: error });
    throw error;
  }
  await release();
  throw usage(
    `the collector at ${url.href} does not run on ${dataDir}: say with --data-dir on which, or give a --key for it`,
  );
}

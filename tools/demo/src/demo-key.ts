/**
 * The API key of `collector demo`: the one from --key, or a temporary one in the data directory of a local
 * collector. The collector must accept the key before any event is sent, because events cannot be removed
 * from the log.
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

/** A key that a kill -9 leaves behind expires after this time. */
const KEY_LIVES_MS = 24 * 3_600_000;
/** A collector knows a new key within a second; a slow disk may take longer. */
const KNOWN_WITHIN_MS = 5000;
const LOOK_EVERY_MS = 300;

export interface DemoKey {
  readonly text: string;
  /** The collector's answers about the key, by code: its console counts them as refusals. */
  readonly asked: ReadonlyMap<string, number>;
  /** Revokes a temporary key. */
  release(): Promise<void>;
}

export interface KeyNeeds {
  readonly url: URL;
  /** The value of --key. */
  readonly given: string | undefined;
  readonly dataDir: string;
  /** The organisation of a temporary key. */
  readonly organisation: string;
  readonly stop: AbortSignal;
}

/** On return a collector answers at the address, and the key may send events of all kinds. */
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

/** @returns why the key may not send every kind; undefined if it may. */
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
    throw usage(`no collector runs on ${dataDir}: name its data directory by --data-dir, or pass --key`);
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
      if (Date.now() > now + KNOWN_WITHIN_MS) break;
    }
  } catch (error) {
    await release();
    if (stop.aborted)
      throw new CommandFailure('interrupted; nothing was sent', EXIT.interrupted, { cause: error });
    throw error;
  }
  await release();
  const hint = 'name its data directory by --data-dir, or pass --key';
  throw usage(`the collector at ${url.href} does not run on ${dataDir}: ${hint}`);
}

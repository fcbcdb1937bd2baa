/** Many concurrent senders that record what they sent and how it was answered. */
import { hash, randomBytes, randomUUID } from 'node:crypto';
import http from 'node:http';
import { expect } from 'vitest';
import { storedEntries } from '../store/embedded/filled-directory.js';
import { run, storedEvents } from './collector-process.js';

export interface Answered {
  readonly status: number;
  readonly headers: http.IncomingHttpHeaders;
  readonly body: string;
}

/** Posts one event and resolves with the answer; rejects when the connection ends without one. */
export function post(
  port: number,
  key: string,
  body: string | Buffer,
  { agent, kind = 'outcome' }: { agent?: http.Agent; kind?: string } = {},
): Promise<Answered> {
  return new Promise((resolve, reject) => {
    const request = http.request({
      ...{ port, host: '127.0.0.1', method: 'POST', path: `/event/${kind}`, agent: agent ?? false },
      headers: {
        'Content-Type': 'application/json',
        'X-API-Key': key,
        'Content-Length': Buffer.byteLength(body),
      },
    });
    request.on('error', reject);
    request.on('response', (response) => {
      let text = '';
      response.setEncoding('utf8').on('data', (piece: string) => (text += piece));
      response.on('error', reject);
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, headers: response.headers, body: text }),
      );
    });
    request.end(body);
  });
}

export interface LoadOptions {
  readonly connections: number;
  /** The share of events that are sent again as they are. */
  readonly repeats?: number;
  /** Bytes of the largest body, about; most are small. */
  readonly largest?: number;
}

export class Load {
  /** SHA-256 of every body that was ever sent, by event id. */
  readonly sent = new Map<string, string>();
  /** Ids of the events that were answered with 201. */
  readonly acknowledged = new Set<string>();
  /** How often each other status was returned. */
  readonly refusals = new Map<number, number>();
  readonly #recent: { id: string; body: string }[] = [];

  constructor(
    private readonly key: string,
    private readonly options: LoadOptions,
  ) {}

  /** Sends until `stopped`, or until the collector has ended. On return no sender waits for an answer. */
  async run(port: number, stopped: () => boolean): Promise<void> {
    const agent = new http.Agent({ keepAlive: true, maxSockets: this.options.connections });
    const senders = Array.from({ length: this.options.connections }, async () => {
      for (;;) {
        if (stopped()) return;
        const { id, body } = this.#next();
        this.sent.set(id, hash('sha256', body, 'hex'));
        let answered: Answered;
        try {
          answered = await post(port, this.key, body, { agent });
        } catch {
          // Closed without an answer: the outcome of this event is unknown.
          return;
        }
        if (answered.status === 201) {
          expect(answered.body).toBe('{"status":"accepted"}');
          this.acknowledged.add(id);
        } else this.refusals.set(answered.status, (this.refusals.get(answered.status) ?? 0) + 1);
      }
    });
    await Promise.all(senders);
    agent.destroy();
  }

  #next(): { id: string; body: string } {
    const { repeats = 0, largest = 1000 } = this.options;
    const again = this.#recent[Math.floor(Math.random() * this.#recent.length)];
    if (again && Math.random() < repeats) return again;
    const id = randomUUID();
    const size = Math.random() < 0.05 ? Math.random() * largest : Math.random() * 1000;
    const body = JSON.stringify({
      event_id: id,
      timestamp: new Date().toISOString(),
      protocol_version: '0.0.1',
      system_metadata: {},
      outcome: { outcome_type: 'validated', description: randomBytes(size / 2).toString('hex') },
    });
    const made = { id, body };
    this.#recent.push(made);
    if (this.#recent.length > 200) this.#recent.shift();
    return made;
  }
}

/** The sequences are in order, and the ones missing between events are those of the log's own entries. */
export function expectNoGap(dataDir: string, events: readonly { readonly sequence: number }[]): void {
  const own = new Set<number>();
  for (const { sequence, kind } of storedEntries(dataDir)) if (typeof kind === 'number') own.add(sequence);
  const all = Array.from({ length: events.at(-1)?.sequence ?? 0 }, (_, i) => i + 1);
  expect(events.map(({ sequence }) => sequence)).toEqual(all.filter((sequence) => !own.has(sequence)));
}

/**
 * Reads everything back and checks it: each acknowledged event is stored once, each stored event was sent and is whole,
 * the sequences have no gap, and the doctor finds no damage.
 * @returns how many events are stored.
 */
export async function expectAllStored(dataDir: string, load: Load): Promise<number> {
  const events = await storedEvents(dataDir);
  const seen = new Set<string>();
  expectNoGap(dataDir, events);
  for (const { event_id, sha256, body } of events) {
    if (seen.has(event_id)) throw new Error(`${event_id} is stored twice`);
    seen.add(event_id);
    const sent = load.sent.get(event_id);
    if (sha256 !== sent || hash('sha256', body, 'hex') !== sent) throw new Error(`${event_id} has changed`);
  }
  const lost = [...load.acknowledged].filter((id) => !seen.has(id));
  expect(lost, 'acknowledged and lost').toEqual([]);
  const doctor = await run(['doctor', '--data-dir', dataDir]);
  expect(doctor.code, doctor.stdout + doctor.stderr).toBe(0);
  expect(doctor.stdout).not.toContain('DAMAGED');
  return events.length;
}

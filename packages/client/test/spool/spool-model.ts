/** Compares the promises of a spool with its behaviour: see the property test. */
import { expect } from 'vitest';
import { openSpool } from '../../src/spool/disk-spool.js';
import { type SpooledEvent, SpoolUnwritable } from '../../src/spool/spool.js';
import { type Durability, type Spool } from '../../src/spool/spool.js';
import { type DiskProcess, type Manner, MemoryDisk, type Operation } from './memory-disk.js';

export const ROOT = '/spool';
const KIND = 'outcome';

interface Running {
  readonly process: DiskProcess;
  readonly spool: Spool;
  readonly out: SpooledEvent[];
  /** Events that this spool has returned and that were then done. */
  readonly done: Set<string>;
}

export class SpoolModel {
  readonly disk = new MemoryDisk();
  /** The disk was full: two spools may have read the same events in place. */
  wasFull = false;
  readonly #durability: Durability;
  readonly #key: Uint8Array | undefined;
  readonly running: Running[] = [];
  #appended = 0;
  /** Every event that was ever appended, by name. */
  readonly bodies = new Map<string, Buffer>();
  readonly acknowledged = new Set<string>();
  /** Refused for certain: no spool may ever return it. */
  readonly refused = new Set<string>();
  readonly done = new Set<string>();
  readonly quarantined = new Set<string>();
  /** Marked as done before an orderly end: no spool may return it again. */
  readonly gone = new Set<string>();
  readonly troubles: string[] = [];

  constructor(durability: Durability, key: Uint8Array | undefined) {
    this.#durability = durability;
    this.#key = key;
  }

  async open(): Promise<Running | undefined> {
    const process = this.disk.process();
    try {
      const spool = await openSpool({
        ...{ directory: ROOT, durability: this.#durability, files: process.files },
        ...(this.#key && { key: this.#key }),
        segmentBytes: 2000,
        onTrouble: (what) => {
          if (!process.ended) this.troubles.push(what);
        },
      });
      const running = { process, spool, out: [], done: new Set<string>() };
      this.running.push(running);
      return running;
    } catch (error) {
      if (!(error instanceof SpoolUnwritable)) throw error;
      process.end();
      return undefined;
    }
  }

  /** Appends events of these sizes together. @returns when each has been answered. */
  async append({ spool, process }: Running, sizes: readonly number[]): Promise<void> {
    await Promise.all(
      sizes.map(async (size) => {
        const name = `event ${++this.#appended} `;
        const body = Buffer.from(name.padEnd(size, '.'));
        this.bodies.set(name.trim(), body);
        try {
          await spool.append(KIND, body);
          this.acknowledged.add(name.trim());
        } catch (error) {
          // One that the end of its process has cut off was never answered.
          if (process.ended || (error instanceof SpoolUnwritable && error.uncertain)) return;
          this.refused.add(name.trim());
        }
      }),
    );
  }

  /** @param patienceMs how long to wait for an event: unreadable events count as waiting too. */
  async take(running: Running, count: number, patienceMs = 200): Promise<number> {
    if (running.process.ended || running.spool.state.waiting === running.out.length) return 0;
    const signal = AbortSignal.timeout(patienceMs);
    const events = await running.spool.take(count, 10_000, signal);
    for (const event of events) {
      const name = this.nameOf(event);
      expect(this.bodies.get(name)?.equals(event.body), `${name} is what was appended`).toBe(true);
      expect(this.refused.has(name), `${name} was refused`).toBe(false);
      expect(this.gone.has(name), `${name} was done`).toBe(false);
      expect(running.done.has(name), `${name} was done here`).toBe(false);
      expect(running.out.some((other) => this.nameOf(other) === name)).toBe(false);
      running.out.push(event);
    }
    return events.length;
  }

  nameOf(event: SpooledEvent): string {
    return Buffer.from(event.body).toString().replace(/\.*$/, '').trim();
  }

  finish(running: Running, place: number): void {
    const [event] = running.out.splice(place % Math.max(1, running.out.length), 1);
    if (!event) return;
    running.spool.done(event);
    running.done.add(this.nameOf(event));
    this.done.add(this.nameOf(event));
  }

  giveBack(running: Running, place: number): void {
    const [event] = running.out.splice(place % Math.max(1, running.out.length), 1);
    if (event) running.spool.giveBack(event);
  }

  async quarantine(running: Running, place: number): Promise<void> {
    const index = place % Math.max(1, running.out.length);
    const event = running.out[index];
    if (!event) return;
    try {
      await running.spool.quarantine(event, { status: 400, at: '2026-01-01T00:00:00Z' });
    } catch {
      return;
    }
    running.out.splice(index, 1);
    running.done.add(this.nameOf(event));
    this.quarantined.add(this.nameOf(event));
  }

  /** Closes it in an orderly way, on a disk that works. */
  async close(running: Running): Promise<void> {
    running.process.fate = () => undefined;
    this.running.splice(this.running.indexOf(running), 1);
    await running.spool.close();
    if (!running.process.ended && !this.wasFull) for (const name of running.done) this.gone.add(name);
    running.process.end();
  }

  async kill(running: Running): Promise<void> {
    running.process.end();
    this.running.splice(this.running.indexOf(running), 1);
    // It can do nothing more: this stops its timers.
    await running.spool.close();
  }

  /** Fails the nth call of this kind from now on. */
  fail(running: Running, operation: Operation, nth: number, manner: Manner, lasting: boolean): void {
    let left = nth;
    running.process.fate = (called) => {
      if (called !== operation) return undefined;
      left--;
      return left === 0 || (left < 0 && lasting) ? manner : undefined;
    };
  }

  /** Everything that was acknowledged is done, in quarantine, or still there. */
  async account(): Promise<void> {
    this.disk.capacity = Infinity;
    while (this.running[0]) await this.kill(this.running[0]);
    const last = await this.open();
    if (!last) throw new Error('the last one could not be opened');
    while ((await this.take(last, 1000, 600_000)) > 0);
    // Segments without waiting events may still have to be searched for damage.
    expect(await last.spool.take(1, 1, AbortSignal.timeout(5))).toEqual([]);
    const left = new Set(last.out.map((event) => this.nameOf(event)));
    for (const name of this.acknowledged) {
      expect(left.has(name) || this.done.has(name) || this.quarantined.has(name), `${name} is there`).toBe(
        true,
      );
    }
    const { waiting } = last.spool.state;
    expect(waiting).toBe(last.out.length);
    while (last.out.length > 0) this.finish(last, 0);
    expect(last.spool.state).toMatchObject({ waiting: 0, waitingBytes: 0 });
    await this.close(last);
    // No file is left, except those put aside.
    expect(this.disk.files(ROOT).filter((file) => !/quarantine|damaged|\/new-/.test(file))).toEqual([]);
  }
}

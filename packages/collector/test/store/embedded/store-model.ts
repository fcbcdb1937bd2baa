/** An embedded store on a disk in memory beside a model of its expected content; every step compares the two. */
import path from 'node:path';
import { ENTRY_KINDS, SALT_BYTES } from '@clinical-events/protocol';
import { expect } from 'vitest';
import { ActionTrail } from '../../../src/store/embedded/action-chain.js';
import { EmbeddedStore } from '../../../src/store/embedded/embedded-store.js';
import { NO_ACTION } from '../../../src/store/embedded/frame.js';
import { readFrames } from '../../../src/store/embedded/log-frames.js';
import { listSegments } from '../../../src/store/embedded/segment.js';
import {
  CommitUnknown,
  NotCommitted,
  type Candidate,
  type Outcome,
} from '../../../src/store/contract/events.js';
import { candidate, idOf } from '../candidate.js';
import { storedEntries } from './filled-directory.js';
import { MemoryDisk } from './memory-disk.js';

export const SEGMENT_BYTES = 4096;

/** An event of a small world: few ids, so that repeats and conflicts are frequent. Every fourth is an action. */
export interface Wish {
  /** 0 to 255. */
  readonly id: number;
  /** Contents 0 and 1 are equal in different spellings; 2 has other content. */
  readonly content: 0 | 1 | 2;
  readonly organisation: 'one' | 'two';
  /** Bytes of filler. */
  readonly size: number;
}

export function wished({ id, content, organisation, size }: Wish): Candidate {
  const filler = '.'.repeat(size);
  const bodies = [`{"a":1,"b":"${filler}"}`, `{"b":"${filler}" , "a":1.0}`, `{"a":2,"b":"${filler}"}`];
  const eventId = `00000000-0000-4000-8000-0000000000${id.toString(16).padStart(2, '0')}`;
  const event = candidate({ eventId, organisation, body: bodies[content] });
  return id % 4 === 3 ? { ...event, kind: ENTRY_KINDS.lifecycleAction } : event;
}

/** The place of the index, which can be restored to an earlier state or lost. */
export interface IndexKeeper {
  save(): () => void;
  lose(): void;
}

export type Restart = 'close' | 'kill' | 'power';
export type IndexFate = 'current' | 'stale' | 'lost';

interface Found {
  readonly sequence: number;
  readonly organisation: string;
  readonly eventId: string;
  readonly body: string;
}

export class StoreModel {
  disk = new MemoryDisk();
  store: EmbeddedStore | undefined;
  /** What is stored for certain, in order. */
  stored: Candidate[] = [];
  /** A batch of which any part may be stored. */
  unknown: Candidate[] = [];
  refusals = 0;
  #saved: (() => void) | undefined;

  constructor(
    private readonly directory: string,
    private readonly index: IndexKeeper,
  ) {}

  async open(): Promise<void> {
    const open = () =>
      EmbeddedStore.open({
        directory: this.directory,
        segmentBytes: SEGMENT_BYTES,
        files: this.disk.files,
        onTrouble: (what) => expect(what).not.toContain('does not name'),
      });
    try {
      this.store = await open();
    } catch (error) {
      const full = (error as NodeJS.ErrnoException).code === 'ENOSPC' || error instanceof NotCommitted;
      if (!this.disk.heal() && !(full && this.disk.capacity < Infinity)) throw error;
      // A start that fails is tried again, when there is space if that was the reason.
      this.disk.capacity = Infinity;
      this.disk = this.disk.afterKill();
      this.store = await open();
    }
    this.#saved = this.index.save();
    const found = this.read(this.disk);
    expect(this.store.opened.entries).toBe(found.length);
    this.#checkChain();
    const possible = asFound([...this.stored, ...this.unknown]);
    expect(found.length).toBeGreaterThanOrEqual(this.stored.length);
    expect(found).toEqual(possible.slice(0, found.length));
    this.stored = [...this.stored, ...this.unknown].slice(0, found.length);
    this.unknown = [];
    this.#checkDurable();
  }

  async append(batch: readonly Candidate[]): Promise<void> {
    const { store } = this;
    if (store === undefined) return;
    const accepted: Candidate[] = [];
    let outcomes: Outcome[];
    try {
      outcomes = await store.append(batch);
    } catch (error) {
      this.refusals++;
      if (error instanceof NotCommitted) {
        expect(this.read(this.disk.afterKill())).toEqual(asFound(this.stored));
        this.#checkDurable();
        return;
      }
      expect(error).toBeInstanceOf(CommitUnknown);
      for (const event of batch) {
        if (this.#outcome(event, accepted) === 'accepted') accepted.push(event);
      }
      this.unknown = accepted;
      await this.#drop();
      return;
    }
    expect(outcomes.length).toBe(batch.length);
    for (const [i, event] of batch.entries()) {
      if (outcomes[i] === 'unreadable') {
        expect(this.disk.hasFailed).toBe(true);
        continue;
      }
      expect(outcomes[i]).toBe(this.#outcome(event, accepted));
      if (outcomes[i] === 'accepted') accepted.push(event);
    }
    this.stored.push(...accepted);
    this.#checkDurable();
  }

  /** @param picked which unflushed sectors a loss of power leaves. */
  async restart(
    how: Restart,
    index: IndexFate,
    picked: (file: string, sector: number) => boolean = () => false,
  ): Promise<void> {
    const saved = this.#saved;
    if (this.store) {
      const disk = this.disk;
      if (how === 'kill') this.disk = disk.afterKill();
      if (how === 'power') this.disk = disk.afterPowerLoss(picked);
      try {
        await this.store.close();
      } catch (error) {
        if (!disk.heal()) throw error;
      }
      this.store = undefined;
    } else if (how === 'power') this.disk = this.disk.afterPowerLoss(picked);
    if (index === 'stale') saved?.();
    if (index === 'lost') this.index.lose();
    await this.open();
  }

  /** Every stored event is a repeat, and one with other content is a conflict. */
  async checkRepeats(): Promise<void> {
    this.disk.heal();
    const repeats = [...this.stored];
    for (let i = 0; i < repeats.length; i += 16) {
      const batch = repeats.slice(i, i + 16);
      expect(await this.store?.append(batch)).toEqual(batch.map(() => 'duplicate'));
      const others = batch.map((event) => ({ ...event, kind: 'user-feedback' }) as const);
      expect(await this.store?.append(others)).toEqual(others.map(() => 'conflict'));
    }
    expect(this.read(this.disk)).toEqual(asFound(this.stored));
  }

  async end(): Promise<void> {
    this.disk.heal();
    await this.store?.close();
    expect(this.disk.openDescriptors, 'descriptors left open').toBeLessThan(8);
  }

  read(disk: MemoryDisk): Found[] {
    const found: Found[] = [];
    for (const { sequence, organisation, eventId, body } of storedEntries(
      this.directory,
      disk.afterKill().files,
    )) {
      found.push({ sequence, organisation, eventId, body: body.toString() });
    }
    return found;
  }

  /** The process ends, as the collector does after a flush has failed; what was committed may reach the index. */
  async #drop(): Promise<void> {
    const { store, disk } = this;
    this.store = undefined;
    this.disk = disk.afterKill();
    disk.heal();
    await store?.close();
  }

  /** Each action and each segment names the newest action before it. */
  #checkChain(): void {
    const { files } = this.disk.afterKill();
    const trail = new ActionTrail(NO_ACTION);
    for (const segment of listSegments(files, path.join(this.directory, 'ledger'))) {
      expect(segment.actionBefore).toEqual(trail.newest);
      for (const { buffer, offset, address } of readFrames(files, [segment]))
        trail.pass(buffer, offset, address);
    }
    expect(trail.isWhole).toBe(true);
  }

  /** All acknowledged events outlive a loss of power at this moment. */
  #checkDurable(): void {
    const found = this.read(this.disk.afterPowerLoss());
    expect(found.slice(0, this.stored.length)).toEqual(asFound(this.stored));
  }

  #outcome(event: Candidate, earlier: readonly Candidate[]): Outcome {
    const first = [...this.stored, ...earlier].find(
      ({ organisation, eventId }) =>
        organisation === event.organisation && Buffer.compare(eventId, event.eventId) === 0,
    );
    if (!first) return 'accepted';
    const content = ({ salted }: Candidate) => {
      const { a, b } = JSON.parse(Buffer.from(salted.subarray(SALT_BYTES)).toString()) as {
        a: number;
        b: string;
      };
      return `${a} ${b}`;
    };
    return content(first) === content(event) ? 'duplicate' : 'conflict';
  }
}

function asFound(events: readonly Candidate[]): Found[] {
  return events.map((event, i) => ({
    sequence: i + 1,
    organisation: event.organisation,
    eventId: idOf(event),
    body: Buffer.from(event.salted.subarray(SALT_BYTES)).toString(),
  }));
}

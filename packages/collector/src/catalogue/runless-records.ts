/**
 * Which record an event without a run is of, from two passes over envelopes and no table: the rule of batch-records.ts
 * for a reader that does not trust the catalogue. An event with a run id needs none of it: it is of that run.
 */
import { ID_BYTES, type PassedEntry } from '../store/contract/events.js';
import { isNoId } from '../store/text.js';

/** A run, or a record that is known by one of its events. */
export interface RecordName {
  readonly organisation: string;
  readonly isRun: boolean;
  /** The ID_BYTES as latin1. */
  readonly id: string;
}

type Envelope = Pick<PassedEntry, 'organisation' | 'source' | 'eventIdAt' | 'runIdAt' | 'parentIdAt'>;

export class RunlessRecords {
  /** By organisation: of each event without a run its parent, '' where it names none. */
  readonly #parents = new Map<string, Map<string, string>>();
  /** By organisation: of each event that is named as a parent its run. */
  readonly #runs = new Map<string, Map<string, string>>();
  readonly #records = new Map<string, RecordName>();

  /** To be called for each event of the first pass. Keeps about 200 bytes of each that has no run. */
  note({ organisation, source, eventIdAt, runIdAt, parentIdAt }: Envelope): void {
    if (!isNoId(source, runIdAt)) return;
    const parent = isNoId(source, parentIdAt) ? '' : idAt(source, parentIdAt);
    of(this.#parents, organisation).set(idAt(source, eventIdAt), parent);
    if (parent !== '') of(this.#runs, organisation).set(parent, '');
  }

  /** To be called for each event of the second pass. */
  see({ organisation, source, eventIdAt, runIdAt }: Envelope): void {
    const wanted = this.#runs.get(organisation);
    if (wanted === undefined || isNoId(source, runIdAt)) return;
    const id = idAt(source, eventIdAt);
    if (wanted.has(id)) wanted.set(id, idAt(source, runIdAt));
  }

  /**
   * To be called behind the second pass, for an event without a run that was noted.
   * @param id ID_BYTES as latin1.
   */
  recordOf(organisation: string, id: string): RecordName {
    const parents = of(this.#parents, organisation);
    const path = new Set<string>();
    let at = id;
    let record: RecordName | undefined;
    while (record === undefined) {
      path.add(at);
      const parent = parents.get(at) ?? '';
      const run = of(this.#runs, organisation).get(parent) ?? '';
      if (run !== '') record = { organisation, isRun: true, id: run };
      else if (!parents.has(parent)) record = { organisation, isRun: false, id: at };
      else if (path.has(parent)) record = { organisation, isRun: false, id: smallest(path, parent) };
      else record = this.#records.get(organisation + parent);
      at = parent;
    }
    for (const each of path) this.#records.set(organisation + each, record);
    return record;
  }
}

/** @param from where the circle begins that the path ends in. */
function smallest(path: ReadonlySet<string>, from: string): string {
  const all = [...path];
  return all.slice(all.indexOf(from)).reduce((least, id) => (id < least ? id : least));
}

function of(all: Map<string, Map<string, string>>, organisation: string): Map<string, string> {
  let found = all.get(organisation);
  if (found === undefined) all.set(organisation, (found = new Map<string, string>()));
  return found;
}

function idAt(source: Buffer, at: number): string {
  return source.toString('latin1', at, at + ID_BYTES);
}

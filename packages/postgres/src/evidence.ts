/**
 * The evidence that `collector verify` reads from a log in a database: the rows of every entry together with
 * the stored leaf, and contradictions between the tables. The rows are copied, and audited like a log in
 * files.
 */
import {
  encodeLeaf,
  ENTRY_KINDS,
  ENVELOPE_AT,
  ENVELOPE_FIXED_BYTES,
  LEAF_BYTES,
} from '@clinical-events/protocol';
import type { SequenceSet } from '@clinical-events/collector/privacy/sequence-set';
import type { Evidence, EvidenceRow, TableFindings } from '@clinical-events/collector/store/contract/opened';
import { finding, type FindingList, type VerifyFinding } from '@clinical-events/collector/store/findings';
import { uuidText } from '@clinical-events/collector/store/text';
import { ActionRows } from './action-rows.js';
import { bytesIn, numberIn, sha256 } from './binary.js';
import type { BinaryRow, ReadingConnection } from './connection.js';
import { commitmentIn, envelopeIn, keyPlaceIn } from './encrypted-row.js';
import type { ReadKeys } from './opened-keys.js';
import { batchesOf, groupsOf, type Span, spansFrom } from './spans.js';
import { sql } from './sql.js';

/** Time for which a batch may wait for its place while a collector runs. */
const LATE_MS = 10_000;
/** Offset in a leaf. */
const COMMITMENT_AT = 41;
/** Offsets in an encrypted row: the end of the bucket's tag, and the tag of the cipher. */
const [TAG_END, CIPHER_TAG_AT] = [8, 44];
const NOTHING = Buffer.alloc(32);

type Stored = Omit<EvidenceRow, 'sequence' | 'fits'> & {
  readonly eventId: string;
  readonly isRegistered: boolean;
  /** The leaf that the row makes, LEAF_BYTES; without the commitment if the payload was removed. */
  readonly leaf: Buffer;
};

export class PostgresEvidence implements Evidence {
  entries = 0;
  /** Contradictions that `rows` has found. */
  readonly #found: VerifyFinding[] = [];
  /** The sequences of the actions. */
  readonly #actionsAt: number[] = [];

  constructor(
    private readonly connection: ReadingConnection,
    private readonly reader: ReadKeys | undefined,
  ) {}

  get keys() {
    return this.reader?.stored;
  }

  async refreshKeys(): Promise<void> {
    await this.reader?.refresh();
  }

  async erasedByNow(): Promise<SequenceSet> {
    const rows = new ActionRows(this.connection);
    await rows.refresh();
    return rows.actions.erased;
  }

  async *rows(): AsyncGenerator<readonly EvidenceRow[], void> {
    const [[size = 0] = []] = (await this.connection.query(sql('head'))).rows;
    this.entries = Number(size);
    for (let next = 1; next <= this.entries;) {
      const spans = await spansFrom(this.connection, next, this.entries);
      if (spans.length === 0) return;
      for (const group of groupsOf(spans)) {
        const rows = await this.connection.copy(sql('audited_rows', batchesOf(group)));
        for (const [n, span] of group.entries()) {
          const stored = rows.filter(([number]) => numberIn(number) === n + 1).map(storedIn);
          yield this.#entriesOf(span, stored).filter(({ sequence }) => sequence >= next);
          next = Math.max(next, span.first + span.entries);
        }
      }
    }
  }

  /**
   * Pairs each leaf of a batch with the row that it commits to, or else with a row that no leaf commits to.
   */
  #entriesOf({ first, entries, leaves }: Span, rows: readonly Stored[]): EvidenceRow[] {
    const matched = matchedTo(leaves, entries, rows);
    const strangers = rows.filter((row) => !matched.includes(row));
    const found: EvidenceRow[] = [];
    for (const [i, fitting] of matched.entries()) {
      const sequence = first + i;
      const row = fitting ?? strangers.shift();
      if (row === undefined) continue;
      const { leaf, eventId, isRegistered, ...stored } = row;
      const own = leaves.subarray(i * LEAF_BYTES, (i + 1) * LEAF_BYTES);
      const isOfEnvelope = isOf(own, leaf, COMMITMENT_AT);
      const commitment = (isOfEnvelope ? own : leaf).subarray(COMMITMENT_AT);
      found.push({ ...stored, sequence, commitment, fits: fitting !== undefined });
      if (fitting === undefined) continue;
      if (stored.envelope?.kind === ENTRY_KINDS.lifecycleAction) this.#actionsAt.push(sequence);
      if (isRegistered) continue;
      const place = { sequence, event_id: eventId };
      this.#found.push(finding('id_unregistered', place, `event ${sequence} (${eventId})`));
    }
    if (strangers.length > 0) {
      this.#found.push(
        finding('rows_without_leaf', { sequence: first }, strangers.length, first + entries - 1),
      );
    }
    return found;
  }

  async tell(findings: FindingList): Promise<TableFindings> {
    findings.add(...this.#found);
    const crowded = (await this.connection.query(sql('crowded_batches'))).rows;
    const [[firstLane, firstBatch] = []] = crowded;
    const ids = crowded.reduce((sum, [, , has, entries]) => sum + Number(has) - Number(entries), 0);
    if (ids > 0) {
      const where = { lane: Number(firstLane), batch: Number(firstBatch) };
      findings.add(finding('ids_without_batch', where, ids, where.lane, where.batch));
    }
    const unsequenced = await this.#tellWaiting(findings);
    for (const [lane, count, last] of (await this.connection.query(sql('uneven_lanes'))).rows)
      findings.add(finding('lane_uneven', {}, Number(lane), Number(count), Number(last)));
    const [[after] = []] = (await this.connection.query(sql('places_after_end'))).rows;
    if (Number(after) > 0) findings.add(finding('places_after_end', {}, Number(after)));
    await this.#tellActions(findings);
    for (const [lane, batch] of (await this.connection.query(sql('contradicting_places'))).rows)
      findings.add(finding('place_contradicts_batch', {}, Number(lane), Number(batch)));
    return { unsequenced };
  }

  /** Reports batches without a place, lane by lane. @returns the number of their entries. */
  async #tellWaiting(findings: FindingList): Promise<number> {
    const { rows } = await this.connection.query(sql('unplaced_batches'));
    if (rows.length === 0) return 0;
    const isServed = (await this.connection.query(sql('is_served'))).rows[0]?.[0] === 't';
    for (const [lane, batches] of Map.groupBy(rows, ([each]) => Number(each))) {
      const [first = []] = batches;
      let [batch, why] = [Number(first[1]), ''];
      for (const [, number, entries, isUnsealed, age] of batches) {
        const key = { lane, batch: Number(number) };
        const fault =
          isUnsealed === 't'
            ? 'no collector has sealed it'
            : !(await this.#isStored(key, Number(entries)))
              ? 'its events do not match its leaves, so no collector stored it'
              : isServed && Number(age) >= LATE_MS
                ? `it was committed ${Math.round(Number(age) / 1000)} seconds ago, and collectors are running`
                : '';
        if (fault === '') continue;
        [batch, why] = [key.batch, fault];
        break;
      }
      const count = batches.reduce((sum, [, , entries]) => sum + Number(entries), 0);
      const place = { lane, batch, entries: count };
      findings.add(
        why === ''
          ? finding('batches_without_place', place, count, lane, batches.length)
          : finding('batches_not_signed', place, count, lane, batches.length, batch, why),
      );
    }
    return Number(rows[0]?.[6]);
  }

  async #isStored({ lane, batch }: { readonly lane: number; readonly batch: number }, entries: number) {
    const [[hex] = []] = (await this.connection.query(sql('leaves_of_batch'), [lane, batch])).rows;
    const leaves = Buffer.from(hex ?? '', 'hex');
    const audited = sql('audited_rows', batchesOf([{ lane, batch }]));
    const rows = (await this.connection.copy(audited)).map(storedIn);
    return rows.length === entries && !matchedTo(leaves, entries, rows).includes(undefined);
  }

  async #tellActions(findings: FindingList): Promise<void> {
    const { rows } = await this.connection.query(sql('listed_actions'));
    const placed = rows.flatMap(([, , , sequence]) => (sequence == null ? [] : [Number(sequence)]));
    const [listed, read] = [new Set(placed), new Set(this.#actionsAt)];
    for (const sequence of this.#actionsAt.filter((each) => !listed.has(each)))
      findings.add(finding('action_unlisted', {}, sequence));
    for (const [, lane, batch, sequence, isThere] of rows) {
      const isAction =
        sequence == null ? isThere === 't' : Number(sequence) > this.entries || read.has(Number(sequence));
      if (!isAction) findings.add(finding('listed_without_action', {}, Number(lane), Number(batch)));
    }
    const isOrdered = placed.every((sequence, i) => sequence > (placed[i - 1] ?? 0));
    if (!isOrdered || rows.some(([number], i) => Number(number) !== i + 1))
      findings.add(finding('actions_misnumbered', {}));
  }
}

/** The row that each leaf commits to: the next one, unless someone moved or removed rows. */
function matchedTo(leaves: Buffer, entries: number, rows: readonly Stored[]): (Stored | undefined)[] {
  const left = new Set(rows);
  return Array.from({ length: entries }, (_, i) => {
    const leaf = leaves.subarray(i * LEAF_BYTES, (i + 1) * LEAF_BYTES);
    const fits = (row: Stored) => isOf(leaf, row.leaf, row.state === 'erased' ? COMMITMENT_AT : LEAF_BYTES);
    const next = rows[i];
    const found = next !== undefined && left.has(next) && fits(next) ? next : [...left].find(fits);
    if (found !== undefined) left.delete(found);
    return found;
  });
}

function isOf(leaf: Buffer, other: Buffer, bytes: number): boolean {
  return leaf.subarray(0, bytes).equals(other.subarray(0, bytes));
}

function storedIn([, stateIn, envelopeBytes, salted, isRegistered]: BinaryRow): Stored {
  const bytes = bytesIn(envelopeBytes);
  const number = stateIn == null ? -1 : numberIn(stateIn);
  const isTaken = number === 2 && !salted;
  const key = number === 1 && salted ? keyPlaceIn(salted) : undefined;
  const commitment = key && salted ? commitmentIn(salted) : salted && number !== 1 ? sha256(salted) : NOTHING;
  const leaf = Buffer.alloc(LEAF_BYTES);
  if (bytes.length >= ENVELOPE_FIXED_BYTES) encodeLeaf(leaf, 0, bytes, sha256(bytes), commitment);
  const sealed = key && salted ? [salted.subarray(0, TAG_END), salted.subarray(CIPHER_TAG_AT)] : [];
  return {
    ...{ envelope: envelopeIn(bytes), commitment, leaf, place: key?.place, eventId: idIn(bytes) },
    state: isTaken ? 'erased' : key === undefined ? 'plain' : 'encrypted',
    stored: key === undefined ? (salted ?? Buffer.alloc(0)) : Buffer.concat(sealed),
    isRegistered: isRegistered ? numberIn(isRegistered) === 1 : false,
  };
}

function idIn(envelope: Buffer): string {
  const id = envelope.subarray(ENVELOPE_AT.eventId, ENVELOPE_AT.runId);
  return id.length < 16 ? '' : uuidText(id);
}

/**
 * What `collector verify` asks of a log in a database: every row that an entry hangs on, beside the leaf that was stored
 * with it, and what the tables alone can say. The rows are copied and audited as a log in files is.
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
import { CROWDED } from './quarantine.js';
import { ageMs } from './sequencing.js';
import { groupsOf, list, type Span, spanIn, spansOf } from './spans.js';

const HEAD = 'SELECT size FROM heads';
/** With whether the registry of ids says of each that it is there. */
const auditOf = (group: readonly Pick<Span, 'lane' | 'batch'>[]) => `
SELECT s.n, e.payload_state, e.envelope, e.salted, (k.lane = e.lane AND k.batch = e.batch AND k.ord = e.ord AND o.name IS NOT NULL)::int
FROM unnest(${list(group, 'lane')}::int[], ${list(group, 'batch')}::int[]) WITH ORDINALITY AS s (lane, batch, n)
CROSS JOIN LATERAL (SELECT * FROM events WHERE lane = s.lane AND batch = s.batch OFFSET 0) e
LEFT JOIN LATERAL (SELECT * FROM event_ids WHERE event_id = CASE WHEN length(e.envelope) >= ${ENVELOPE_FIXED_BYTES}
    THEN encode(substring(e.envelope FROM ${ENVELOPE_AT.eventId + 1} FOR 16), 'hex')::uuid END
  AND lane = e.lane AND batch = e.batch OFFSET 0) k ON true
LEFT JOIN organisations o ON o.organisation_id = k.organisation_id
ORDER BY s.n, e.ord`;
/** Batches with entries that have no place yet, and how long ago they were committed; of other places BEHIND tells. */
const WAITING = `
SELECT lane, batch, entries, seal IS NULL, ${ageMs('committed_at')}, count(*) OVER (), sum(entries) OVER ()
FROM batches b WHERE entries > 0
  AND NOT EXISTS (SELECT 1 FROM sequenced s WHERE s.lane = b.lane AND s.batch = b.batch AND s.entries = b.entries)
ORDER BY lane, batch LIMIT 1000`;
const LEAVES = "SELECT encode(leaves, 'hex') FROM batches WHERE lane = $1 AND batch = $2";
const ALIVE = `
SELECT EXISTS (SELECT 1 FROM collectors WHERE seen_at > clock_timestamp() - interval '30 seconds')`;
/** How long a batch may wait for its place while there is a collector. */
const LATE_MS = 10_000;
/** A lane whose committed batches are not 1, 2, 3 …, and one that was sequenced with another number of entries. */
const LANES = `
SELECT lane, count(*), max(batch) FROM batches GROUP BY lane HAVING count(*) <> max(batch) ORDER BY lane LIMIT 10`;
const PLACES = `
SELECT s.lane, s.batch FROM sequenced s LEFT JOIN batches b USING (lane, batch)
WHERE b.entries IS DISTINCT FROM s.entries ORDER BY s.lane, s.batch LIMIT 10`;

/** How many batches somebody has given a place behind the end of the log. */
const BEHIND = `
SELECT count(*) FROM sequenced, heads WHERE sequenced.entries > 0 AND first_sequence + sequenced.entries - 1 > size`;
/** Those that collectors go by, in the order in which they go by them; without a place yet, or a batch. */
const LISTED = `
SELECT a.number, a.lane, a.batch, s.first_sequence, b.lane IS NOT NULL
FROM actions a LEFT JOIN sequenced s USING (lane, batch) LEFT JOIN batches b USING (lane, batch) ORDER BY a.number`;

/** In a leaf. */
const COMMITMENT_AT = 41;
/** Of an encrypted row: the suite and the tag of the bucket end, and the tag of the cipher begins. */
const [TAG_END, CIPHER_TAG_AT] = [8, 44];
const NOTHING = Buffer.alloc(32);

type Stored = Omit<EvidenceRow, 'sequence' | 'fits'> & {
  readonly eventId: string;
  readonly isRegistered: boolean;
  /** LEAF_BYTES, as the row comes to; of a payload that was taken out all but the commitment. */
  readonly leaf: Buffer;
};

export class PostgresEvidence implements Evidence {
  entries = 0;
  /** What the rows say against the tables, as they were read. */
  readonly #found: VerifyFinding[] = [];
  /** The sequences of entries that are actions. */
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
    const [[size = 0] = []] = (await this.connection.query(HEAD)).rows;
    this.entries = Number(size);
    for (let next = 1; next <= this.entries;) {
      const spans = (await this.connection.copy(spansOf(next, this.entries))).map(spanIn);
      if (spans.length === 0) return;
      for (const group of groupsOf(spans)) {
        const rows = await this.connection.copy(auditOf(group));
        for (const [n, span] of group.entries()) {
          const stored = rows.filter(([number]) => numberIn(number) === n + 1).map(storedIn);
          yield this.#entriesOf(span, stored).filter(({ sequence }) => sequence >= next);
          next = Math.max(next, span.first + span.entries);
        }
      }
    }
  }

  /** Of a batch, each leaf with the row that it commits to, and else with one that no leaf does. */
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
    const crowded = (await this.connection.query(CROWDED)).rows;
    const [[firstLane, firstBatch] = []] = crowded;
    const ids = crowded.reduce((sum, [, , has, entries]) => sum + Number(has) - Number(entries), 0);
    if (ids > 0) {
      const where = { lane: Number(firstLane), batch: Number(firstBatch) };
      findings.add(finding('ids_without_batch', where, ids, where.lane, where.batch));
    }
    const unsequenced = await this.#tellWaiting(findings);
    for (const [lane, count, last] of (await this.connection.query(LANES)).rows)
      findings.add(finding('lane_uneven', {}, Number(lane), Number(count), Number(last)));
    const [[after] = []] = (await this.connection.query(BEHIND)).rows;
    if (Number(after) > 0) findings.add(finding('places_after_end', {}, Number(after)));
    await this.#tellActions(findings);
    for (const [lane, batch] of (await this.connection.query(PLACES)).rows)
      findings.add(finding('place_contradicts_batch', {}, Number(lane), Number(batch)));
    return { unsequenced };
  }

  /** What was acknowledged, or says that it was, and is not signed: lane by lane. */
  async #tellWaiting(findings: FindingList): Promise<number> {
    const { rows } = await this.connection.query(WAITING);
    if (rows.length === 0) return 0;
    const isServed = (await this.connection.query(ALIVE)).rows[0]?.[0] === 't';
    for (const [lane, batches] of Map.groupBy(rows, ([each]) => Number(each))) {
      const [first = []] = batches;
      let [batch, why] = [Number(first[1]), ''];
      for (const [, number, entries, isUnsealed, age] of batches) {
        const key = { lane, batch: Number(number) };
        const fault =
          isUnsealed === 't'
            ? 'no collector has sealed it'
            : !(await this.#isStored(key, Number(entries)))
              ? 'its events are not those of its leaves, so that no collector has stored it'
              : isServed && Number(age) >= LATE_MS
                ? `it was committed ${Math.round(Number(age) / 1000)} seconds ago, and collectors run`
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
    const [[hex] = []] = (await this.connection.query(LEAVES, [lane, batch])).rows;
    const leaves = Buffer.from(hex ?? '', 'hex');
    const rows = (await this.connection.copy(auditOf([{ lane, batch }]))).map(storedIn);
    return rows.length === entries && !matchedTo(leaves, entries, rows).includes(undefined);
  }

  async #tellActions(findings: FindingList): Promise<void> {
    const { rows } = await this.connection.query(LISTED);
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

/** Of each leaf the row that it commits to: the next one, unless somebody has moved or removed rows. */
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

/**
 * The reading of a whole PostgreSQL log for `collector verify`: every row that an entry hangs on, against the leaves that
 * were stored with it and the roots that were signed over them. It goes on behind what is damaged.
 */
import {
  decodeEnvelope,
  encodeLeaf,
  ENTRY_KINDS,
  ENVELOPE_AT,
  ENVELOPE_FIXED_BYTES,
  FIRST_ENTRY_KIND,
  LEAF_BYTES,
  SALT_BYTES,
} from '@clinical-events/protocol';
import { Audit } from '@clinical-events/collector/tree/audit';
import { encodedLeafHash, HASH_BYTES } from '@clinical-events/collector/tree/merkle';
import { Actions } from '@clinical-events/collector/privacy/actions';
import type { StoredKeys } from '@clinical-events/collector/privacy/key-directory';
import { SequenceSet } from '@clinical-events/collector/privacy/sequence-set';
import type { TreeReader } from '@clinical-events/collector/store/contract/tree';
import {
  finding,
  type FindingList,
  forAll,
  type VerifyFinding,
} from '@clinical-events/collector/store/findings';
import {
  type AuditOptions,
  type AuditedLog,
  type AuditedRoots,
  type CheckedRoot,
  type ErasedEvent,
  type HeadListener,
  type Waiting,
} from '@clinical-events/collector/store/log-audit';
import {
  erasedEvent,
  ErasedElsewhere,
  shouldBeGone,
  lifecycleFindings,
} from '@clinical-events/collector/store/lifecycle-findings';
import { missingFinding, rootFindings, tileFindings } from '@clinical-events/collector/store/root-findings';
import { uuidText } from '@clinical-events/collector/store/text';
import { keptRows } from './action-rows.js';
import { bytesIn, numberIn, sha256 } from './binary.js';
import type { BinaryRow, ReadingConnection } from './connection.js';
import { commitmentIn, envelopeIn, type KeyPlace, keyPlaceIn, openRow } from './encrypted-row.js';
import type { SharedKeyReader } from './key-rows.js';
import { CROWDED } from './quarantine.js';
import { ageMs } from './sequencing.js';
import { groupsOf, list, type Span, spanIn, spansOf } from './spans.js';

const HEAD = 'SELECT size, bytes FROM heads';
/** With whether the registry of ids says of each that it is there. */
const auditOf = (group: readonly Span[]) => `
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

const CHUNK = 4096;
/** What came while the log was read is read in so many rounds at most, where a key is missing. */
const MOST_ROUNDS = 5;

interface AuditRow {
  readonly envelope: Buffer;
  /** Of one that is not encrypted. */
  readonly salted: Buffer | undefined;
  /** Why an encrypted payload was not checked. */
  readonly unopened: 'no-keys' | 'no-key' | undefined;
  /** Where the key of an encrypted payload is. */
  readonly key: KeyPlace | undefined;
  /** Its payload was taken out, since its key is destroyed. */
  readonly isTaken: boolean;
  readonly isRegistered: boolean;
  /** LEAF_BYTES, as the row comes to. */
  readonly leaf: Buffer;
}

export class PostgresAudit {
  readonly #audit: Audit<CheckedRoot>;
  /** Leaf hashes that the audit has not been given yet, and of each its sequence. */
  readonly #hashes = Buffer.alloc(CHUNK * HASH_BYTES);
  readonly #places = new Float64Array(CHUNK);
  #count = 0;
  #entries = 0;
  #own = 0;
  #unsigned = 0;
  /** Without a place. */
  #waitingEntries = 0;
  #waiting: Waiting | undefined;
  /** Encrypted payloads for which there are no keys here, and those whose key is missing. */
  #unopened = 0;
  readonly #keyless: number[] = [];
  readonly #elsewhere: ErasedElsewhere;
  readonly #unread: number[] = [];
  readonly #actions = new Actions();
  /** The sequences of entries that are actions. */
  readonly #actionsAt: number[] = [];
  /** Whether every entry so far is as it was written. */
  #isWhole = true;

  constructor(
    private readonly connection: ReadingConnection,
    tree: TreeReader,
    private readonly signed: AuditedRoots,
    private readonly accessLog: HeadListener,
    private readonly options: Omit<AuditOptions, 'dataDir' | 'files'>,
    private readonly keys: SharedKeyReader | undefined,
  ) {
    this.#audit = new Audit(tree, signed.roots);
    this.#elsewhere = new ErasedElsewhere(options.takenSince ?? []);
  }

  async tell(findings: FindingList): Promise<AuditedLog> {
    let { size: end, bytes } = await this.#head();
    await this.#read(1, end, findings);
    // An action has its place before it destroys a key: those of which a key was missing meanwhile have theirs by now.
    for (let round = 0; round < MOST_ROUNDS && this.#isUnexplained; round++) {
      const from = end + 1;
      ({ size: end, bytes } = await this.#head());
      await this.#read(from, end, findings);
    }
    await this.#flush();
    const verdict = await this.#audit.finish();
    const { covered } = this.#audit;
    const found = findings.faults;
    for (const stretch of verdict.differing) {
      const sequence = stretch.index + 1;
      findings.add(forAll(finding('entry_differs', { sequence }, sequence), sequence, stretch.count));
    }
    const missing = missingFinding(verdict, covered, this.#entries, () => false);
    if (missing !== undefined) findings.add(missing);
    findings.add(...rootFindings(verdict, () => false), ...tileFindings(verdict, true));
    await this.#tellTables(end, findings);
    const keyless = SequenceSet.of(this.#keyless);
    const unread = SequenceSet.of(this.#unread);
    const later = this.#elsewhere.explained.without(this.#actions.retired);
    const keys = this.keys?.stored;
    const known = { actions: this.#actions, keyless, keys };
    const back = await this.#stillOpen(shouldBeGone({ ...known, unread }));
    const lifecycle = lifecycleFindings({ ...known, later, back }, findings);
    const agrees = verdict.roots.every(({ log }) => log === 'agrees') && this.#entries >= covered;
    if (agrees && this.#isWhole) findings.confirm();
    else if (findings.faults === found && this.#isWhole) findings.add(finding('log_differs', {}));
    return {
      ...{ entries: this.#entries, events: this.#entries - this.#own, unsigned: this.#unsigned },
      ...{ unsequenced: this.#waitingEntries },
      ...{
        waiting: this.#waiting,
        bytes,
        torn: undefined,
        unopened: this.#unopened,
        ...lifecycle,
      },
      erased: { actions: this.#actions, events: (of) => this.#erased(of) },
    };
  }

  /** Those that open by the keys as they are now. */
  async #stillOpen(sequences: SequenceSet): Promise<SequenceSet> {
    if (sequences.size === 0 || this.keys === undefined) return SequenceSet.EMPTY;
    await this.keys.refresh();
    const open: number[] = [];
    for await (const { sequence, envelope, key, row } of keptRows(this.connection, sequences, true)) {
      const organisation = envelopeIn(envelope)?.organisation;
      if (key === undefined || row === null || organisation === undefined) continue;
      if (Buffer.isBuffer(openRow(this.keys.stored, organisation, envelope, row))) open.push(sequence);
    }
    return SequenceSet.of(open);
  }

  async *#erased(of: SequenceSet): AsyncGenerator<ErasedEvent> {
    for await (const { sequence, envelope } of keptRows(this.connection, of)) {
      const event = erasedEvent(sequence, envelope);
      if (event !== undefined) yield event;
    }
  }

  get #isUnexplained(): boolean {
    return this.#keyless.some((sequence) => !this.#actions.retired.has(sequence));
  }

  async #head(): Promise<{ readonly size: number; readonly bytes: number }> {
    const [head = []] = (await this.connection.query(HEAD)).rows;
    const [size = 0, bytes = 0] = head.map(Number);
    return { size, bytes };
  }

  async #read(from: number, size: number, findings: FindingList): Promise<void> {
    for (let next = from; next <= size;) {
      const spans = (await this.connection.copy(spansOf(next, size))).map(spanIn);
      if (spans.length === 0) return this.#gone(next, size - next + 1, findings);
      for (const group of groupsOf(spans)) {
        const rows = await this.connection.copy(auditOf(group));
        await this.keys?.refresh();
        for (const [n, span] of group.entries()) {
          if (span.first > next) await this.#gone(next, span.first - next, findings);
          await this.#span(span, rowsOf(rows, n + 1, this.keys?.stored), findings);
          next = span.first + span.entries;
        }
        await this.accessLog.settle();
        this.options.onProgress(this.#entries, Math.max(size, this.#audit.covered));
      }
    }
  }

  async #gone(sequence: number, count: number, findings: FindingList): Promise<void> {
    this.#isWhole = false;
    this.#entries += count;
    await this.#gap(count);
    findings.add(finding('place_gone', { sequence }, sequence, count));
  }

  async #gap(count: number): Promise<void> {
    await this.#flush();
    await this.#audit.gap(count);
  }

  async #flush(): Promise<void> {
    await this.#audit.leaves(this.#hashes, this.#places, this.#count);
    this.#count = 0;
  }

  /** The rows of a batch, held against its leaves. What fits no leaf is held against those that no row fits. */
  async #span(span: Span, rows: AuditRow[], findings: FindingList): Promise<void> {
    const { first, entries, leaves } = span;
    const leafAt = (i: number) => leaves.subarray(i * LEAF_BYTES, (i + 1) * LEAF_BYTES);
    // Of a payload that was taken out only the leaf says to what it came.
    for (const { leaf, isTaken } of rows) {
      const i = isTaken
        ? [...rows.keys()].find((at) => leafAt(at).subarray(0, 41).equals(leaf.subarray(0, 41)))
        : undefined;
      if (i !== undefined) leafAt(i).copy(leaf, 41, 41);
    }
    const isClean = rows.length === entries && rows.every(({ leaf }, i) => leaf.equals(leafAt(i)));
    const strangers = isClean ? [] : rows.filter(({ leaf }) => leaves.indexOf(leaf) < 0);
    for (let i = 0; i < entries; i++) {
      const sequence = first + i;
      const fitting = isClean ? rows[i] : rows.find(({ leaf }) => leaf.equals(leafAt(i)));
      const row = fitting ?? strangers.shift();
      this.#entries++;
      if (sequence > this.#audit.covered) this.#unsigned++;
      if (row === undefined) {
        this.#isWhole = false;
        this.#unread.push(sequence);
        await this.#gap(1);
        findings.add(finding('row_gone', { sequence }, sequence));
        continue;
      }
      if (fitting === undefined) this.#altered(sequence, row, leafAt(i), findings);
      else this.#fits(sequence, row, findings);
      encodedLeafHash(row.leaf, this.#hashes, this.#count * HASH_BYTES);
      this.#places[this.#count++] = sequence;
      if (this.#count === CHUNK) await this.#flush();
    }
    if (rows.length > entries) {
      this.#isWhole = false;
      findings.add(
        finding('rows_without_leaf', { sequence: first }, rows.length - entries, first + entries - 1),
      );
    }
  }

  #fits(sequence: number, row: AuditRow, findings: FindingList): void {
    const { envelope, salted, unopened, isTaken, isRegistered, key } = row;
    if (unopened === 'no-keys') this.#unopened++;
    if (unopened === 'no-key' || isTaken) {
      this.#keyless.push(sequence);
      // Of a row whose payload was taken out nothing is decoded: its envelope may be anything.
      const { organisation } = key ? decodeEnvelope(envelope).envelope : { organisation: '' };
      this.#elsewhere.meet(sequence, key && { ...key, organisation });
    }
    const kind = envelope[1] ?? 0;
    if (kind >= FIRST_ENTRY_KIND) this.#own++;
    if (kind === ENTRY_KINDS.lifecycleAction && salted !== undefined) {
      const { receivedAt } = decodeEnvelope(envelope).envelope;
      this.#actionsAt.push(sequence);
      this.#actions.add(sequence, receivedAt, salted.subarray(SALT_BYTES));
    }
    if (kind === ENTRY_KINDS.accessLogHead && salted !== undefined) {
      this.accessLog.head(sequence, salted.subarray(SALT_BYTES));
    }
    if (sequence > this.#audit.covered) {
      const { receivedAt } = decodeEnvelope(envelope).envelope;
      this.#waiting ??= { sequence, oldest: receivedAt, newest: receivedAt };
      this.#waiting.newest = Math.max(this.#waiting.newest, receivedAt);
    }
    if (isRegistered) return;
    this.#isWhole = false;
    const place = { sequence, event_id: idIn(envelope) };
    findings.add(finding('id_unregistered', place, named(sequence, envelope)));
  }

  #altered(sequence: number, { envelope, leaf }: AuditRow, expected: Buffer, findings: FindingList): void {
    this.#isWhole = false;
    this.#unread.push(sequence);
    const sameEnvelope = leaf.subarray(0, 41).equals(expected.subarray(0, 41));
    const what = sameEnvelope ? 'its payload, or the salt of it,' : 'its envelope';
    const place = { sequence, event_id: idIn(envelope) };
    findings.add(finding('row_altered', place, named(sequence, envelope), what));
  }

  /** @param end of the log, as it was read. */
  async #tellTables(end: number, findings: FindingList): Promise<void> {
    const crowded = (await this.connection.query(CROWDED)).rows;
    const [[firstLane, firstBatch] = []] = crowded;
    const ids = crowded.reduce((sum, [, , has, entries]) => sum + Number(has) - Number(entries), 0);
    if (ids > 0) {
      const where = { lane: Number(firstLane), batch: Number(firstBatch) };
      this.#add(findings, finding('ids_without_batch', where, ids, where.lane, where.batch));
    }
    await this.#tellWaiting(findings);
    for (const [lane, count, last] of (await this.connection.query(LANES)).rows) {
      this.#add(findings, finding('lane_uneven', {}, Number(lane), Number(count), Number(last)));
    }
    const [[behind] = []] = (await this.connection.query(BEHIND)).rows;
    if (Number(behind) > 0) this.#add(findings, finding('places_after_end', {}, Number(behind)));
    await this.#tellActions(end, findings);
    for (const [lane, batch] of (await this.connection.query(PLACES)).rows) {
      this.#add(findings, finding('place_contradicts_batch', {}, Number(lane), Number(batch)));
    }
  }

  /** What was acknowledged, or says that it was, and is not signed: lane by lane. */
  async #tellWaiting(findings: FindingList): Promise<void> {
    const { rows } = await this.connection.query(WAITING);
    if (rows.length === 0) return;
    this.#waitingEntries = Number(rows[0]?.[6]);
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
      const of = { lane, batch, entries: count };
      const { length } = batches;
      findings.add(
        why === ''
          ? finding('batches_without_place', of, count, lane, length)
          : finding('batches_not_signed', of, count, lane, length, batch, why),
      );
    }
  }

  async #isStored({ lane, batch }: { readonly lane: number; readonly batch: number }, entries: number) {
    const [[leaves] = []] = (await this.connection.query(LEAVES, [lane, batch])).rows;
    const bytes = Buffer.from(leaves ?? '', 'hex');
    const span = {
      lane,
      batch,
      entries,
      first: 0,
      bytes: 0,
      candidates: 0,
      leaves: bytes,
      repeats: null,
      seal: null,
    };
    const rows = rowsOf(await this.connection.copy(auditOf([span])), 1, this.keys?.stored);
    return (
      rows.length === entries &&
      rows.every(({ leaf }, i) => leaf.equals(bytes.subarray(i * LEAF_BYTES, (i + 1) * LEAF_BYTES)))
    );
  }

  async #tellActions(end: number, findings: FindingList): Promise<void> {
    const { rows } = await this.connection.query(LISTED);
    const placed = rows.flatMap(([, , , sequence]) => (sequence == null ? [] : [Number(sequence)]));
    const [listed, read] = [new Set(placed), new Set(this.#actionsAt)];
    for (const sequence of this.#actionsAt.filter((each) => !listed.has(each)))
      this.#add(findings, finding('action_unlisted', {}, sequence));
    for (const [, lane, batch, sequence, isThere] of rows) {
      const isAction =
        sequence == null ? isThere === 't' : Number(sequence) > end || read.has(Number(sequence));
      if (!isAction) this.#add(findings, finding('listed_without_action', {}, Number(lane), Number(batch)));
    }
    const isOrdered = placed.every((sequence, i) => sequence > (placed[i - 1] ?? 0));
    if (!isOrdered || rows.some(([number], i) => Number(number) !== i + 1))
      this.#add(findings, finding('actions_misnumbered', {}));
  }

  #add(findings: FindingList, found: VerifyFinding): void {
    this.#isWhole = false;
    findings.add(found);
  }
}

function rowsOf(rows: readonly BinaryRow[], n: number, keys: StoredKeys | undefined): AuditRow[] {
  return rows
    .filter(([number]) => numberIn(number) === n)
    .map(([, state, envelope, salted, isRegistered]) => {
      const leaf = Buffer.alloc(LEAF_BYTES);
      const bytes = bytesIn(envelope);
      const isEncrypted = state != null && numberIn(state) === 1;
      const { commitment, unopened } =
        isEncrypted && salted ? committedTo(keys, bytes, salted) : { commitment: salted && sha256(salted) };
      if (bytes.length >= ENVELOPE_FIXED_BYTES)
        encodeLeaf(leaf, 0, bytes, sha256(bytes), commitment ?? NOTHING);
      const registered = isRegistered ? numberIn(isRegistered) === 1 : false;
      const plain = isEncrypted ? undefined : (salted ?? undefined);
      const isTaken = state != null && numberIn(state) === 2 && !salted;
      const key = isEncrypted && salted ? keyPlaceIn(salted) : undefined;
      return { envelope: bytes, salted: plain, unopened, key, isTaken, isRegistered: registered, leaf };
    });
}

const NOTHING = Buffer.alloc(HASH_BYTES);

/** What an encrypted payload comes to: where it can be opened that is known, and else believed. */
function committedTo(
  keys: StoredKeys | undefined,
  envelope: Buffer,
  row: Buffer,
): { readonly commitment: Buffer; readonly unopened?: AuditRow['unopened'] } {
  const organisation = envelopeIn(envelope)?.organisation;
  if (keyPlaceIn(row) === undefined || organisation === undefined) return { commitment: NOTHING };
  const opened = openRow(keys, organisation, envelope, row, { asksTag: true });
  if (opened === 'unfit') return { commitment: NOTHING };
  const commitment = commitmentIn(row);
  return typeof opened === 'string' ? { commitment, unopened: opened } : { commitment };
}

function idIn(envelope: Buffer): string {
  const id = envelope.subarray(ENVELOPE_AT.eventId, ENVELOPE_AT.runId);
  return id.length < 16 ? '' : uuidText(id);
}

function named(sequence: number, envelope: Buffer): string {
  return `event ${sequence} (${idIn(envelope)})`;
}

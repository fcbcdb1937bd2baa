/**
 * `GET /metrics`. The hot path counts plain numbers; here they become metrics, when someone asks.
 *
 * No label can come from a request: kinds, codes, states and outcomes are closed tables, sinks are told by number and
 * kind, and keys are those that the operator has made, so many of them at most (warnings.ts).
 */
import { performance } from 'node:perf_hooks';
import {
  type Metric,
  type MetricType,
  type OpenMetricsContentType,
  Registry,
  collectDefaultMetrics,
} from 'prom-client';
import { SIZE_BOUNDS, TIME_BOUNDS_MS } from '../ledger/buckets.js';
import { EVENT_OUTCOMES, type LedgerCounts } from '../ledger/ledger-counters.js';
import type { OtlpCounters } from '../otlp/otlp-counters.js';
import { factsOf, healthOf, isReady } from './state.js';
import type { CollectorStatus, Watch } from './status.js';
import { type Facts, WARNING_IDS, shownKeys, warningsOf } from './warnings.js';

/*
 * A metric whose numbers are counted elsewhere and read when someone asks, in the form that prom-client's registry
 * takes: its own classes count in themselves, and its histogram cannot be set from outside.
 */

type Labels = Readonly<Record<string, string>>;

interface Value {
  readonly value: number;
  readonly labels: Labels;
  /** The name on the line, when it is not that of the family. */
  readonly metricName?: string;
}

export interface Family<Scrape> {
  readonly name: string;
  readonly help: string;
  readonly type: `${MetricType}`;
  readonly values: (reading: Scrape) => Value[];
}

type Single = number | boolean | undefined;

/** One number without labels, or none while it is not known. */
function gauge<Scrape>(name: string, help: string, value: (reading: Scrape) => Single): Family<Scrape> {
  return { name, help, type: 'gauge', values: (reading) => single(value(reading)) };
}

/** @param name ends in `_total`. */
function counter<Scrape>(name: string, help: string, value: (reading: Scrape) => Single): Family<Scrape> {
  return { name, help, type: 'counter', values: (reading) => single(value(reading)) };
}

/** A line for each set of labels; what is undefined is left out. */
function labelled<Scrape>(
  type: 'gauge' | 'counter',
  name: string,
  help: string,
  lines: (reading: Scrape) => (readonly [Labels, Single])[],
): Family<Scrape> {
  return {
    name,
    help,
    type,
    values: (reading) =>
      lines(reading).flatMap(([labels, value]) => (value === undefined ? [] : single(value, labels))),
  };
}

/** Counts in a row of buckets as they are kept: one a bucket, not summed up. */
interface Buckets {
  readonly counts: ArrayLike<number>;
  readonly sum: number;
}

/**
 * @param bounds of the buckets that are counted.
 * @param shown those of them that become buckets of the metric.
 * @param scale what a bound and the sum are divided by to come to the unit in the name.
 */
function histogram<Scrape>(
  name: string,
  help: string,
  { bounds, shown, scale }: { bounds: readonly number[]; shown: readonly number[]; scale: number },
  buckets: (reading: Scrape) => Buckets | undefined,
): Family<Scrape> {
  return {
    name,
    help,
    type: 'histogram',
    values(reading) {
      const row = buckets(reading);
      if (row === undefined) return [];
      const { counts, sum } = row;
      const values: Value[] = [];
      let total = 0;
      for (let i = 0; i < counts.length; i++) {
        total += counts[i] ?? 0;
        const bound = bounds[i];
        if (bound === undefined || !shown.includes(bound)) continue;
        values.push({ metricName: `${name}_bucket`, labels: { le: String(bound / scale) }, value: total });
      }
      values.push({ metricName: `${name}_bucket`, labels: { le: '+Inf' }, value: total });
      values.push({ metricName: `${name}_sum`, labels: {}, value: sum / scale });
      values.push({ metricName: `${name}_count`, labels: {}, value: total });
      return values;
    },
  };
}

function single(value: Single, labels: Labels = {}): Value[] {
  return value === undefined ? [] : [{ labels, value: Number(value) }];
}

/** Enters a family into a registry. `reading` is called once for it at each scrape. */
function register<Scrape>(registry: Registry, family: Family<Scrape>, reading: () => Scrape): void {
  const { name, help, type, values } = family;
  // All that the registry asks of a metric.
  const metric = {
    name,
    get: () => Promise.resolve({ name, help, type, values: values(reading()), aggregator: 'sum' }),
  };
  registry.registerMetric(metric as unknown as Metric);
}

/** What one scrape is made of, so that its lines belong together. */
interface Scrape {
  readonly collectorStatus: CollectorStatus;
  readonly watch: Watch;
  readonly ledger: LedgerCounts;
  readonly facts: Facts;
}

/** Times become these buckets, in milliseconds: from a fast disk's flush to what no sender waits for. */
const SHOWN_MS = [0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];
const TIMES = { bounds: TIME_BOUNDS_MS, shown: SHOWN_MS, scale: 1000 };
const SHOWN_MERGE_MS = [200, 500, 1000, 2000, 5000, 10_000];
const MERGES = { bounds: TIME_BOUNDS_MS, shown: SHOWN_MERGE_MS, scale: 1000 };
const SIZES = { bounds: SIZE_BOUNDS, shown: SIZE_BOUNDS, scale: 1 };
const SINK_STATES = ['ok', 'failing', 'forked', 'untried'] as const;
const LEDGER_STATES = ['open', 'refusing', 'failed'] as const;

/** Gauges of prom-client with the ending of a counter: sums of those of the same name without it. */
const MISNAMED = ['resources', 'handles', 'requests'].map((what) => `nodejs_active_${what}_total`);

export const FAMILIES: readonly Family<Scrape>[] = [
  labelled(
    'gauge',
    'collector_build_info',
    'Which version of the collector this is. Always 1.',
    ({ collectorStatus }) => [[{ version: collectorStatus.version, node_version: process.version }, 1]],
  ),
  gauge(
    'collector_ready',
    'Whether an event sent now would most likely be stored (1), as /readyz says.',
    (reading) => isReady(healthOf(reading.collectorStatus, performance.now())),
  ),
  labelled(
    'counter',
    'collector_requests_total',
    'Requests answered, by kind of event, HTTP status and code; kind otlp: requests of OTLP, each with any number of events; kind none: refused before the kind was known.',
    ({ collectorStatus }) =>
      collectorStatus.ingest.counters
        .answers()
        .map(({ kind, status, code, count }) => [{ kind, status: String(status), code }, count]),
  ),
  labelled(
    'counter',
    'collector_connections_closed_total',
    'Connections closed because all were taken: displaced, before a key was shown on them, or no_place, on arrival.',
    ({ collectorStatus }) =>
      Object.entries(collectorStatus.ingest.counters.lostPlaces).map(([reason, count]) => [
        { reason },
        count,
      ]),
  ),
  labelled(
    'counter',
    'collector_otlp_events_total',
    'Events made of spans and log records that are durable, repeats too, by kind.',
    ({ collectorStatus }) =>
      collectorStatus.otlp() === undefined
        ? []
        : Object.entries(collectorStatus.ingest.counters.ofRequests).map(([kind, count]) => [
            { kind },
            count,
          ]),
  ),
  labelled(
    'counter',
    'collector_otlp_items_total',
    'Spans (signal traces) and log records (logs) of requests answered with 200: stored, ignored because they are about no run, or rejected because they can never be stored; reason is that of the mapping, or the code of the error.',
    ({ collectorStatus }) => otlpItems(collectorStatus.otlp()),
  ),
  counter(
    'collector_otlp_shortened_total',
    'Events stored without their longest contents, because they were larger than an event may be.',
    ({ collectorStatus }) => collectorStatus.otlp()?.shortened,
  ),
  histogram(
    'collector_ack_duration_seconds',
    'Time from the last header of a request to its 201 (200 of OTLP), its events being durable.',
    TIMES,
    ({ collectorStatus }) => collectorStatus.ingest.counters.latencies(),
  ),
  counter(
    'collector_http_thread_busy_seconds_total',
    'Time for which the HTTP thread had work; near one a second, it takes no more.',
    () => performance.eventLoopUtilization().active / 1000,
  ),
  gauge(
    'collector_http_thread_connections',
    'Connections to the event listener that are open.',
    ({ collectorStatus }) => collectorStatus.connections(),
  ),
  gauge(
    'collector_queue_events',
    'Events that are being received or wait for the ledger.',
    ({ facts }) => facts.queue.events,
  ),
  gauge(
    'collector_queue_bytes',
    'Bytes that these events hold or were promised.',
    ({ facts }) => facts.queue.bytes,
  ),
  gauge(
    'collector_queue_capacity_events',
    'Events beyond which senders are told to retry.',
    ({ facts }) => facts.queue.maxEvents,
  ),
  gauge(
    'collector_queue_capacity_bytes',
    'Bytes beyond which senders are told to retry.',
    ({ facts }) => facts.queue.maxBytes,
  ),
  labelled(
    'counter',
    'collector_events_total',
    'What became of events in the ledger: accepted ones were new, duplicate ones were repeats of a stored event, or of the span that a stored one was made of.',
    ({ ledger }) =>
      EVENT_OUTCOMES.map((outcome) => [{ outcome: snakeCase(outcome) }, ledger.outcomes[outcome]]),
  ),
  histogram(
    'collector_batch_events',
    'Events taken from the queue at once.',
    SIZES,
    ({ ledger }) => ledger.batches,
  ),
  histogram(
    'collector_ledger_flush_duration_seconds',
    'Time of the flush (fdatasync) of a batch to the disk; of a log in a database, of its commit and replication.',
    TIMES,
    ({ ledger }) => ledger.flushes,
  ),
  labelled(
    'gauge',
    'collector_ledger_state',
    'How the ledger is: 1 for its state, 0 for the others.',
    ({ facts }) => LEDGER_STATES.map((state) => [{ state }, facts.storage.state === state]),
  ),
  gauge('collector_ledger_events', 'Events in the log.', ({ ledger }) => ledger.events),
  gauge(
    'collector_ledger_entries',
    "Entries of the log: the events, and the log's own.",
    ({ ledger }) => ledger.entries,
  ),
  gauge('collector_ledger_bytes', 'Bytes of frames in the log.', ({ ledger }) => ledger.bytes),
  labelled(
    'gauge',
    'collector_runs',
    'Runs that began since collector_runs_since_timestamp_seconds, by how complete they are so far.',
    ({ collectorStatus }) => {
      const runs = collectorStatus.runs();
      return (['full', 'minimum', 'incomplete', 'retired'] as const).map((completeness) => [
        { completeness },
        runs?.[completeness],
      ]);
    },
  ),
  gauge(
    'collector_runs_without_outcome',
    'Of these runs, those of which no outcome has come yet.',
    ({ collectorStatus }) => collectorStatus.runs()?.withoutOutcome,
  ),
  gauge(
    'collector_orphan_events',
    'Events of records that began since then whose run has no start, or whose parent is not there.',
    ({ collectorStatus }) => collectorStatus.runs()?.orphanEvents,
  ),
  gauge(
    'collector_runs_since_timestamp_seconds',
    'Since when runs are counted: 30 days ago, to the hour.',
    ({ collectorStatus }) => seconds(collectorStatus.runs()?.since),
  ),
  gauge(
    'collector_catalogue_events_behind',
    'Events of the log that the catalogue has not taken in yet.',
    ({ ledger, collectorStatus }) => {
      const runs = collectorStatus.runs();
      return runs && Math.max(0, ledger.events - runs.events);
    },
  ),
  gauge(
    'collector_index_entries',
    'Entries of the id index.',
    ({ collectorStatus }) => collectorStatus.index()?.entries,
  ),
  gauge(
    'collector_index_runs',
    'Files of the id index.',
    ({ collectorStatus }) => collectorStatus.index()?.runs,
  ),
  gauge(
    'collector_index_unwritten_tables',
    'Full tables of the id index that wait in memory; at 2 with a full third one events are refused.',
    ({ collectorStatus }) => collectorStatus.index()?.frozenTables,
  ),
  gauge(
    'collector_index_disk_bytes',
    'Bytes of the id index on the disk.',
    ({ collectorStatus }) => collectorStatus.index()?.diskBytes,
  ),
  gauge(
    'collector_index_memory_bytes',
    'Bytes of the id index in memory.',
    ({ collectorStatus }) => collectorStatus.index()?.memoryBytes,
  ),
  gauge(
    'collector_disk_free_bytes',
    "Bytes that the collector may still write to the data directory's file system.",
    ({ facts }) => facts.disk?.freeBytes,
  ),
  gauge(
    'collector_disk_size_bytes',
    "Size of the data directory's file system.",
    ({ facts }) => facts.disk?.totalBytes,
  ),
  gauge(
    'collector_checkpoint_entries',
    'Entries under the newest checkpoint.',
    ({ facts }) => facts.checkpoint?.entries,
  ),
  gauge('collector_checkpoint_timestamp_seconds', 'When the newest checkpoint was signed.', ({ facts }) =>
    seconds(facts.checkpoint?.at),
  ),
  gauge(
    'collector_checkpoint_failing',
    'Whether checkpoints are owed and cannot be made.',
    ({ facts }) => facts.checkpointTroubleSince !== undefined,
  ),
  histogram(
    'collector_merge_delay_seconds',
    'Time from the commit of a batch in the database to the checkpoint over it, of batches that this collector gave their places.',
    MERGES,
    ({ ledger }) => ledger.shared?.merges,
  ),
  gauge(
    'collector_unsequenced_batches',
    'Batches in the database, of all collectors, that have no place in the log yet.',
    ({ ledger }) => ledger.shared?.waiting.batches,
  ),
  gauge(
    'collector_unsequenced_oldest_seconds',
    'Age of the oldest of these batches; 0 without one.',
    ({ ledger }) => seconds(ledger.shared?.waiting.oldestMs),
  ),
  gauge(
    'collector_signing_stalled_seconds',
    'Age of the oldest of these batches while none can be given its place, so that nothing is signed; 0 when they can.',
    ({ ledger }) => seconds(ledger.shared?.stalledMs),
  ),
  gauge(
    'collector_replication_safe',
    'Whether what was stored last is known to be replicated, and an event sent now would be (1). Absent where the log asks for no standby.',
    ({ ledger }) => ledger.shared?.replicated,
  ),
  gauge(
    'collector_log_forked',
    'Whether the log in the database was found behind what was signed (1): nothing is signed any more.',
    ({ ledger, facts }) => ledger.shared && facts.alarms.has('fork'),
  ),
  gauge(
    'collector_acked_lost',
    'Whether acknowledged events were found gone from the database (1), since the start.',
    ({ ledger, facts }) => ledger.shared && facts.alarms.has('lost'),
  ),
  gauge(
    'collector_partition_months_ahead',
    'Coming months that have their tables in the database.',
    ({ ledger }) => ledger.shared?.months,
  ),
  labelled(
    'gauge',
    'collector_sink_state',
    'How a checkpoint sink does: 1 for its state, 0 for the others.',
    ({ facts }) =>
      sinkLines(facts, (sink, labels) =>
        SINK_STATES.map((name) => [{ ...labels, state: name }, (sink.state?.state ?? 'untried') === name]),
      ),
  ),
  labelled(
    'gauge',
    'collector_sink_entries',
    'Entries under the last checkpoint that a sink took.',
    ({ facts }) => sinkLines(facts, ({ state }, labels) => [[labels, state?.size]]),
  ),
  labelled(
    'gauge',
    'collector_sink_delivery_timestamp_seconds',
    'When a sink took its last checkpoint.',
    ({ facts }) =>
      sinkLines(facts, ({ state }, labels) => [
        [labels, state?.at === undefined ? undefined : seconds(Date.parse(state.at))],
      ]),
  ),
  labelled(
    'gauge',
    'collector_sink_waiting_checkpoints',
    'Checkpoints that a sink is still owed.',
    ({ facts }) => sinkLines(facts, ({ waiting }, labels) => [[labels, waiting]]),
  ),
  labelled('counter', 'collector_key_requests_total', 'Requests that a key was accepted for.', (reading) =>
    keyLines(reading, ({ uses }) => uses),
  ),
  labelled(
    'counter',
    'collector_key_rate_limited_total',
    'Requests of a key over its rate limit.',
    (reading) => keyLines(reading, ({ overRate }) => overRate),
  ),
  labelled(
    'gauge',
    'collector_key_last_used_timestamp_seconds',
    'When a key was last accepted since the start.',
    (reading) => keyLines(reading, ({ lastUsedAt }) => seconds(lastUsedAt)),
  ),
  labelled(
    'gauge',
    'collector_key_expiry_timestamp_seconds',
    'From when a key is no longer accepted; missing when it does not expire.',
    (reading) => keyLines(reading, ({ key }) => seconds(key.expiresAt)),
  ),
  labelled(
    'gauge',
    'collector_certificate_expiry_timestamp_seconds',
    'Until when a certificate is valid.',
    ({ facts }) => facts.certificates.map(({ name, notAfter }) => [{ certificate: name }, seconds(notAfter)]),
  ),
  gauge(
    'collector_verify_timestamp_seconds',
    'When collector verify last ran on this data directory.',
    ({ facts }) => seconds(facts.lastVerify?.at),
  ),
  gauge(
    'collector_verify_intact',
    'Whether it found the log intact.',
    ({ facts }) => facts.lastVerify?.intact,
  ),
  gauge(
    'collector_backup_timestamp_seconds',
    'When the last run of collector backup on this data directory began.',
    ({ facts }) => seconds(facts.lastBackup?.at),
  ),
  gauge(
    'collector_key_directories',
    'Directories of the keys of payloads, mirrors among them.',
    ({ facts }) => facts.privacy?.directories,
  ),
  gauge(
    'collector_key_directories_unreached',
    'Of these, how many could not be written the last time.',
    ({ facts }) => facts.privacy?.unreached,
  ),
  gauge(
    'collector_key_epoch_timestamp_seconds',
    'When the epoch of the keys of payloads began.',
    ({ facts }) => seconds(facts.privacy?.epochBegun),
  ),
  gauge(
    'collector_retired_events',
    'Events whose keys were destroyed.',
    ({ facts }) => facts.privacy?.retired,
  ),
  gauge(
    'collector_erasures_pending',
    'Erasures that have begun and are not at their end.',
    ({ facts }) => facts.privacy?.pending,
  ),
  gauge('collector_holds', 'Legal holds that are not over.', ({ facts }) => facts.privacy?.holds),
  gauge('collector_backup_events', 'Events in that back-up.', ({ facts }) => facts.lastBackup?.events),
  counter(
    'collector_clock_steps_total',
    'How often the wall clock was set by more than a second.',
    ({ collectorStatus }) => collectorStatus.clockSteps().count,
  ),
  counter(
    'collector_log_lines_dropped_total',
    'Lines of the log that standard error did not take and that were dropped.',
    ({ facts }) => facts.droppedLines.lines,
  ),
  labelled(
    'gauge',
    'collector_warnings',
    'Warnings that the console shows, by what they warn of.',
    ({ facts }) => {
      const warnings = warningsOf(facts);
      return WARNING_IDS.map((id) => [{ id }, warnings.filter((warning) => warning.id === id).length]);
    },
  ),
];

export class Metrics {
  readonly #registry = new Registry();
  readonly #collectorStatus: CollectorStatus;
  readonly #watch: Watch;
  #reading: Scrape | undefined;

  constructor(collectorStatus: CollectorStatus, watch: Watch) {
    this.#collectorStatus = collectorStatus;
    this.#watch = watch;
    collectDefaultMetrics({ register: this.#registry });
    for (const name of MISNAMED) this.#registry.removeSingleMetric(name);
    for (const family of FAMILIES) register(this.#registry, family, () => this.#reading ?? this.#read());
  }

  /** Every metric as it is now, and the media type of the text. */
  async text(openMetrics: boolean): Promise<{ readonly type: string; readonly text: string }> {
    this.#reading = this.#read();
    const registry = openMetrics ? await asOpenMetrics(this.#registry) : this.#registry;
    return { type: registry.contentType, text: await registry.metrics() };
  }

  #read(): Scrape {
    const [collectorStatus, watch] = [this.#collectorStatus, this.#watch];
    return {
      collectorStatus,
      watch,
      ledger: collectorStatus.ledger(),
      facts: factsOf(collectorStatus, watch, Date.now()),
    };
  }
}

/**
 * A registry with the same numbers that writes OpenMetrics. Not the same metrics: prom-client changes the names of
 * those it writes so, and from then on its other text would be wrong.
 */
async function asOpenMetrics(registry: Registry): Promise<Registry<OpenMetricsContentType>> {
  const copy = new Registry<OpenMetricsContentType>();
  copy.setContentType(Registry.OPENMETRICS_CONTENT_TYPE);
  for (const read of await registry.getMetricsAsJSON()) {
    const metric = { ...read, get: () => Promise.resolve({ ...read, name: metric.name }) };
    copy.registerMetric(metric as unknown as Metric);
  }
  return copy;
}

type Sinks = Facts['sinks'];
type Lines = ReturnType<Parameters<typeof labelled<Scrape>>[3]>;

function sinkLines(
  { sinks }: Facts,
  lines: (sink: Sinks[number], labels: Record<'sink' | 'kind', string>) => Lines,
): Lines {
  return sinks.flatMap((sink, i) => lines(sink, { sink: String(i + 1), kind: sink.kind }));
}

function keyLines({ facts }: Scrape, value: (use: Facts['keys'][number]) => number | undefined): Lines {
  return shownKeys(facts.keys, facts.now)
    .filter(({ key }) => key.revokedAt === undefined)
    .map((use) => [{ key_id: use.key.keyId, organisation: use.key.organisation }, value(use)]);
}

function seconds(ms: number | undefined): number | undefined {
  return ms === undefined ? undefined : ms / 1000;
}

function otlpItems(counters: OtlpCounters | undefined): (readonly [Labels, number])[] {
  return Object.entries(counters?.signals ?? {}).flatMap(([signal, { stored, ignored, rejected }]) => {
    const all = { stored: [['', stored]], ignored: [...ignored], rejected: [...rejected] } as const;
    return Object.entries(all).flatMap(([result, counts]) =>
      counts.map(([reason, count]) => [{ signal, result, reason }, count] as const),
    );
  });
}

function snakeCase(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

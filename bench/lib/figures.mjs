/** The target figures of the collector, and the comparison of a measurement with them. */
import { decimals, median, spread, whole, withSpread } from './numbers.mjs';
import { table } from './table.mjs';

/**
 * `judgedBy` selects the value that is compared with the target: the median of rates and ratios, because
 * rounds on a shared machine scatter both ways; the maximum of memory and start-up times.
 */
export const FIGURES = {
  'rate/raw': { title: 'Rate, collector / raw node:http', atLeast: 1, judgedBy: 'median' },
  'rate/raw-tls': { title: 'Rate, over TLS, collector / raw node:https', atLeast: 0.9, judgedBy: 'median' },
  'rate/fastify-pg': { title: 'Rate, collector / Fastify + pg', atLeast: 8, judgedBy: 'median' },
  'rate/redis': { title: 'Rate, collector / node:http + Redis', atLeast: 1, judgedBy: 'median' },
  'rate/postgres-insert': {
    title: 'Rate, collector / node:http + PostgreSQL INSERT',
    atLeast: 6,
    judgedBy: 'median',
  },
  'postgres/postgres-insert': {
    title: 'Rate, collector on PostgreSQL / node:http + PostgreSQL INSERT',
    atLeast: 2,
    judgedBy: 'median',
  },
  'postgres/encrypted-plain': {
    title: 'Rate on PostgreSQL, encrypted / plain',
    atLeast: 0.75,
    judgedBy: 'median',
  },
  'encrypted/plain': { title: 'Rate, payloads encrypted / plain', atLeast: 0.75, judgedBy: 'median' },
  'postgres/embedded': {
    title: 'Rate, collector on PostgreSQL / on its embedded store',
    atLeast: 0.5,
    judgedBy: 'median',
  },
  'postgres/replicated': {
    title: 'Rate, with a synchronous standby beside / without',
    atLeast: 0.55,
    judgedBy: 'median',
  },
  'postgres/server': {
    title: 'Driver of PostgreSQL, batches of 512: server CPU, us an event',
    atMost: 20,
    judgedBy: 'median',
    places: 1,
  },
  'postgres/node': { title: 'the same: Node CPU, us an event', atMost: 9, judgedBy: 'median', places: 1 },
  'postgres/wal': { title: 'the same: WAL, bytes an event', atMost: 1_700, judgedBy: 'median', places: 0 },
  'postgres/filled': { title: 'Rate, filled registry / empty', atLeast: 0.9, judgedBy: 'median' },
  'postgres/snapshot': {
    title: 'Rate, with a snapshot open / without',
    atLeast: 0.95,
    judgedBy: 'median',
  },
  'postgres/repeats': { title: 'Repeats alone, events/s', atLeast: 20_000, judgedBy: 'median', places: 0 },
  'postgres/dead': { title: 'Dead rows that repeats leave', atMost: 0, judgedBy: 'max', places: 0 },
  'postgres/mirror': { title: 'Mirror, events/s', atLeast: 120_000, judgedBy: 'median', places: 0 },
  'p99/raw': { title: 'p99, collector / raw node:http', atMost: 1.2, judgedBy: 'median' },
  'cpu/raw': {
    title: 'Processor time an event, collector / raw node:http',
    atMost: 1.2,
    judgedBy: 'median',
  },
  'postgres/merge-delay': { title: 'Merge delay p99 under load, s', atMost: 3, judgedBy: 'max' },
  'stored/rate': { title: 'Rate, filled / empty ledger', atLeast: 0.9, judgedBy: 'median' },
  'stored/rss': { title: 'Highest RSS on the filled ledger, MiB', atMost: 400, judgedBy: 'max', places: 0 },
  'start/clean': { title: 'Start after a clean stop, s', atMost: 5, judgedBy: 'max' },
  'start/killed': { title: 'Start after kill -9 under load, s', atMost: 30, judgedBy: 'max' },
  'overload/rate': { title: 'Rate at 3 times the load / best rate', atLeast: 0.9, judgedBy: 'median' },
  'overload/work': {
    title: 'Events for the same processor time, at 3 times the load / at the best rate',
    atLeast: 0.9,
    judgedBy: 'median',
  },
  'overload/p99': {
    title: 'p99 of the accepted, at 3 times the load / normal',
    atMost: 2,
    judgedBy: 'median',
  },
  'overload/modest': {
    title: 'Of a modest sender beside the greedy one, accepted',
    atLeast: 0.99,
    judgedBy: 'median',
  },
  'overload/modest-p99': {
    title: 'p99 of the modest sender, at 3 times the load / normal',
    atMost: 2,
    judgedBy: 'median',
  },
  'overload/impatient': {
    title: 'The same from senders that do not keep to Retry-After: rate / best rate',
    atLeast: 0.9,
    judgedBy: 'median',
  },
  'overload/impatient-p99': {
    title: 'and p99 of the accepted, at 3 times the load / normal',
    atMost: 2,
    judgedBy: 'median',
  },
  'overload/memory': { title: 'RSS, 2nd half of the overload / 1st half', atMost: 1.05, judgedBy: 'max' },
  'overload/recovery': {
    title: 'Seconds until all is taken again',
    atMost: 3,
    judgedBy: 'max',
    places: 0,
  },
  'refused/p99': {
    title: 'p99 of a sender beside refused connections, ms',
    atMost: 100,
    judgedBy: 'max',
    places: 0,
  },
  'refused/probes': { title: 'Probes not answered within 1 s', atMost: 0, judgedBy: 'max', places: 0 },
  'hostile/cost': {
    title: 'Worst body of a MiB / plain body of a MiB, examined or compared',
    atMost: 5,
    judgedBy: 'max',
    places: 1,
  },
  'hostile/p99': {
    title: 'p99 of a modest sender beside one key with the worst bodies, ms',
    atMost: 250,
    judgedBy: 'max',
    places: 0,
  },
  'hostile/rss': { title: 'RSS meanwhile, MiB', atMost: 464, judgedBy: 'max', places: 0 },
  'verify/rate': {
    title: 'verify on one core, events/s',
    atLeast: 300_000,
    judgedBy: 'median',
    places: 0,
  },
  'verify/growth': {
    title: 'verify, peak RSS: growth over ten times the events, MiB',
    atMost: 64,
    judgedBy: 'max',
    places: 0,
  },
  'records/rate': {
    title: 'records to Parquet, events/s',
    atLeast: 150_000,
    judgedBy: 'median',
    places: 0,
  },
  'viewer/run': { title: 'Viewer, a run, p95, ms', atMost: 400, judgedBy: 'max', places: 0 },
  'viewer/list': { title: 'Viewer, a list, p95, ms', atMost: 400, judgedBy: 'max', places: 0 },
  'questions/lookup': {
    title: 'One run, one event, its proof, the newest 20, runs of a target, s',
    atMost: 0.6,
    judgedBy: 'max',
  },
  'questions/after': { title: 'records --after, with 100 newer events, s', atMost: 1, judgedBy: 'max' },
  'questions/report': { title: 'report of all, s', atMost: 6, judgedBy: 'max' },
  'questions/ratio': {
    title: 'Questions but for the report, large / small log',
    atMost: 1.5,
    judgedBy: 'max',
  },
  'questions/making': {
    title: 'Events taken into the catalogue a second',
    atLeast: 100_000,
    judgedBy: 'median',
    places: 0,
  },
  'questions/bytes': { title: 'Catalogue, bytes an event', atMost: 90, judgedBy: 'max', places: 0 },
  'client/drain': {
    title: "Client: backlog drained / the collector's rate",
    atLeast: 0.7,
    judgedBy: 'median',
  },
  'client/backlog': {
    title: 'Client: RSS with a backlog, growth, MiB',
    atMost: 64,
    judgedBy: 'max',
    places: 0,
  },
  'client/p50': { title: 'Client: a capture, p50, us', atMost: 30, judgedBy: 'max', places: 1 },
  'client/p99': { title: 'Client: a capture, p99, us', atMost: 300, judgedBy: 'max', places: 1 },
  'client/fsync': {
    title: 'Client: durable events/s of 20,000 offered, fsync',
    atLeast: 19_900,
    judgedBy: 'median',
    places: 0,
  },
  'client-python/p50': { title: 'Python: a capture, p50, us', atMost: 60, judgedBy: 'max', places: 1 },
  'client-python/p99': { title: 'Python: a capture, p99, us', atMost: 1000, judgedBy: 'max', places: 1 },
  'client-python/rate': {
    title: 'Python: captured events/s, at full speed',
    atLeast: 20_000,
    judgedBy: 'median',
    places: 0,
  },
  'client-python/drain': {
    title: 'Python: backlog drained, events/s',
    atLeast: 8000,
    judgedBy: 'median',
    places: 0,
  },
  'client-python/backlog': {
    title: 'Python: RSS with a backlog, growth, MiB',
    atMost: 16,
    judgedBy: 'max',
    places: 1,
  },
  'client-python/import': { title: 'Python: import, ms', atMost: 30, judgedBy: 'median', places: 1 },
  'otlp/rate': {
    title: 'OTLP, protobuf, encrypted: spans/s',
    atLeast: 10_000,
    judgedBy: 'median',
    places: 0,
  },
  'otlp/gzip': { title: 'the same, gzip', atLeast: 10_000, judgedBy: 'median', places: 0 },
  'otlp/json': { title: 'the same, JSON', atLeast: 10_000, judgedBy: 'median', places: 0 },
  'otlp/events': { title: 'OTLP: durable events/s', atLeast: 14_000, judgedBy: 'median', places: 0 },
  'otlp/memory': {
    title: 'OTLP, RSS, 2nd half of a million spans / 1st half',
    atMost: 1.05,
    judgedBy: 'max',
  },
  'records/rss': { title: 'records to Parquet, peak RSS, MiB', atMost: 1024, judgedBy: 'max', places: 0 },
};

const JUDGES = { median, max: (values) => Math.max(...values) };

export function targetOf({ atLeast, atMost }) {
  const show = (value) => value.toLocaleString('en-US');
  return atLeast === undefined ? `at most ${show(atMost)}` : `at least ${show(atLeast)}`;
}

/** A value of the figure as it is printed. */
export function shownBy({ places }) {
  return (value) => (places === 0 ? whole(value) : decimals(value, places));
}

export function isReached({ atLeast, atMost, judgedBy }, values) {
  const value = JUDGES[judgedBy](values);
  return (atLeast === undefined || value >= atLeast) && (atMost === undefined || value <= atMost);
}

/** `measured` holds lists of values by the figures' names. */
export function figuresTable(measured) {
  const rows = Object.entries(measured).map(([name, values]) => {
    const figure = FIGURES[name];
    const reached = isReached(figure, values) ? 'yes' : 'NO';
    return [figure.title, targetOf(figure), withSpread(spread(values), shownBy(figure)), reached];
  });
  return table([['Figure', 'Target', 'Median (min to max)', 'Reached'], ...rows]);
}

/**
 * The OTLP receiver: durable spans a second, beside an OpenTelemetry Collector that flushes each request to
 * its queue and delivers none. In each round every encoding has its turn, on an empty store. Then a million
 * spans and the largest requests on one collector, and an ordinary sender beside an overload of OTLP.
 */
import { figuresTable } from '../lib/figures.mjs';
import { decimals, mebibytes, spread, whole, withSpread } from '../lib/numbers.mjs';
import { OpenLoop } from '../lib/open-loop.mjs';
import { buildOtelCollector } from '../lib/otel-collector.mjs';
import { OtlpLoad } from '../lib/otlp.mjs';
import { OTLP_PEERS, startOurs } from '../lib/otlp-peers.mjs';
import { eventsOf } from '../lib/otlp-spans.mjs';
import { RssSampler, usageOf } from '../lib/procfs.mjs';
import { table } from '../lib/table.mjs';

const SPANS = 512;
const CONNECTIONS = 4;
const LOADS = {
  protobuf: { encoding: 'protobuf' },
  'protobuf, gzip': { encoding: 'protobuf', gzip: true },
  JSON: { encoding: 'json' },
};
/** Spans of the largest requests; the second is nearly 64 MiB. */
const LARGE = { '10,000 spans': 10_000, '64 MiB': 47_000 };
const ORDINARY = { connections: 64, rate: 500 };
const OVERLOAD_CONNECTIONS = 32;

/** @throws unless every acknowledged event is stored exactly once. */
function checkStored(what, stored, requests, spans = SPANS) {
  if (stored !== requests * eventsOf(spans))
    throw new Error(
      `${what}: ${requests} requests of ${spans} spans were acknowledged, ${stored} events are stored`,
    );
}

async function measureSide(side, load, options, seed) {
  const { pid, port, key, stop } = await OTLP_PEERS[side].start(options);
  const generator = new OtlpLoad({ ...LOADS[load], port, key, connections: CONNECTIONS, seed, spans: SPANS });
  await generator.step({ seconds: options.warmup });
  const before = usageOf(pid);
  const sent = await generator.step({ seconds: options.seconds });
  const after = usageOf(pid);
  await generator.stop();
  const stored = await stop();
  if (stored !== undefined) checkStored(`${OTLP_PEERS[side].title}, ${load}`, stored, sent.next);
  return {
    ...{ side, load, rate: sent.spans / sent.seconds, latencyMs: sent.latencyMs },
    cpuSeconds: after.cpuSeconds - before.cpuSeconds,
    ...{ spans: sent.spans, memory: { rss: after.rss, peak: after.peak } },
    ...{ later: sent.later, failures: sent.unanswered + sent.partial, generatorCpu: sent.generatorCpu },
  };
}

const EVENTS_OF_SPAN = eventsOf(SPANS) / SPANS;

export function otlpTable(rounds) {
  const rows = rounds.flatMap(([title, sides]) =>
    sides.map(({ side, load, rate, latencyMs, cpuSeconds, spans, memory, later, generatorCpu }) => [
      ...[title, OTLP_PEERS[side].title, load, whole(rate)],
      side === 'otel-collector' ? '' : whole(rate * EVENTS_OF_SPAN),
      ...[latencyMs.p50, latencyMs.p99].map((ms) => decimals(ms, 0)),
      ...[
        decimals((cpuSeconds / spans) * 1e6, 1),
        mebibytes(memory.peak),
        decimals(generatorCpu),
        whole(later),
      ],
    ]),
  );
  const heading = ['Round', 'Receiver', 'Requests', 'spans/s', 'events/s', 'p50 ms', 'p99 ms', 'CPU us/span'];
  return table([[...heading, 'peak MiB', 'generator CPU', '503'], ...rows]);
}

/**
 * Sends many spans and then the largest requests. Memory is flat if its second half is no higher than the
 * first.
 */
async function measureMemory({ options, seeds, say }) {
  const { pid, port, key, stop } = await startOurs({ ...options, encrypted: true });
  const common = { ...LOADS.protobuf, port, key };
  const many = new OtlpLoad({ ...common, connections: CONNECTIONS, seed: seeds.next(), spans: SPANS });
  say(`${whole(options.events)} spans`);
  await many.step({ seconds: options.warmup });
  const sampler = new RssSampler(pid);
  const { next, seconds, spans } = await many.step({ requests: Math.ceil(options.events / SPANS) });
  const samples = sampler.stop();
  await many.stop();
  const half = samples.length >> 1;
  const highest = (list) => Math.max(...list.map(({ rss }) => rss));
  const rss = {
    start: samples[0].rss,
    first: highest(samples.slice(0, half)),
    second: highest(samples.slice(half)),
  };
  const large = {};
  let expected = next * eventsOf(SPANS);
  for (const [name, count] of options.smoke ? [] : Object.entries(LARGE)) {
    say(`a request of ${name}`);
    const one = new OtlpLoad({ ...common, connections: 1, seed: seeds.next(), spans: count });
    const sent = await one.step({ requests: 1 });
    await one.stop();
    large[name] = { spans: count, seconds: sent.seconds, later: sent.later, peak: usageOf(pid).peak };
    expected += eventsOf(count);
  }
  const stored = await stop();
  if (stored !== expected) throw new Error(`${expected} events were to be stored, and ${stored} are`);
  return { spans, rate: spans / seconds, rss, large };
}

export function otlpMemoryTable({ spans, rss, large }) {
  const rows = Object.entries(large).map(([name, { spans: count, seconds, peak }]) => [
    ...[`one request, ${name}`, whole(count), decimals(seconds), '', '', mebibytes(peak)],
  ]);
  const many = ['many requests', whole(spans), '', ...[rss.start, rss.first, rss.second].map(mebibytes)];
  return table([['Load', 'spans', 's', 'RSS MiB before', '1st half', '2nd half or peak'], many, ...rows]);
}

/**
 * Measures the latency of an ordinary sender, alone and beside connections that send OTLP without a pause.
 */
async function measureBeside({ options, seeds, say }) {
  const { port, key, collector, stop } = await startOurs({ ...options, encrypted: true });
  const { key: other, ...ordinary } = { ...ORDINARY, key };
  const loop = new OpenLoop(collector.port, { ordinary: { key: other, connections: ordinary.connections } });
  await loop.step(options.warmup, { ordinary: ordinary.rate });
  say('an ordinary sender, without OTLP');
  const alone = await loop.step(options.seconds, { ordinary: ordinary.rate });
  say('and beside OTLP');
  const settings = { ...LOADS.protobuf, port, key, connections: OVERLOAD_CONNECTIONS };
  const generator = new OtlpLoad({ ...settings, seed: seeds.next(), spans: SPANS });
  const load = generator.step({ seconds: options.seconds + options.warmup + 1 });
  await loop.step(options.warmup, { ordinary: ordinary.rate });
  const beside = await loop.step(options.seconds, { ordinary: ordinary.rate });
  const otlp = await load;
  await Promise.all([generator.stop(), loop.stop()]);
  await stop();
  return { alone: alone.senders.ordinary, beside: beside.senders.ordinary, rate: otlp.spans / otlp.seconds };
}

export function otlpBesideTable({ alone, beside, rate }) {
  const rows = Object.entries({ 'without OTLP': alone, 'beside it': beside }).map(([name, sender]) => [
    ...[
      name,
      name === 'beside it' ? whole(rate) : '',
      whole(sender.offered),
      whole(sender.answers['201'].count),
    ],
    ...['p50', 'p99', 'max'].map((part) => decimals(sender.answers['201'][part], 1)),
    whole(sender.held + (sender.answers['503']?.count ?? 0)),
  ]);
  const heading = ['An ordinary sender', 'OTLP spans/s', 'offered', '201', 'p50 ms', 'p99 ms', 'max ms'];
  return table([[...heading, 'held or 503'], ...rows]);
}

/** The rates of one side and load, of all rounds that have them. */
const ratesOf = (rounds, side, load) =>
  rounds.flat().flatMap((one) => (one.side === side && one.load === load ? [one.rate] : []));

/** The ratios of the collector's rate to the others, within a round. */
export function otlpRatios(rounds) {
  const pairs = [...Object.keys(LOADS).map((load) => ['otel-collector', load]), ['collector', 'protobuf']];
  return pairs.flatMap(([side, load]) => {
    const others = ratesOf(rounds, side, load);
    const ours = ratesOf(rounds, 'collector-encrypted', load);
    if (others.length === 0 || ours.length !== others.length) return [];
    const ratios = spread(ours.map((rate, i) => rate / others[i]));
    return [`Spans/s, collector / ${OTLP_PEERS[side].title}, ${load}: ${withSpread(ratios)}`];
  });
}

export async function otlp({ options, seeds, say, print }) {
  if (options.peers.includes('otel-collector')) buildOtelCollector();
  const rounds = [];
  const loads = options.smoke ? ['protobuf'] : Object.keys(LOADS);
  const turns = loads.flatMap((load) =>
    options.peers
      .filter((side) => OTLP_PEERS[side].loads?.includes(load) ?? true)
      .map((side) => [side, load]),
  );
  for (let i = 0; i < options.rounds; i++) {
    const round = [];
    for (const [side, load] of i % 2 === 0 ? turns : turns.toReversed()) {
      say(`round ${i + 1} of ${options.rounds}: ${OTLP_PEERS[side].title}, ${load}`);
      round.push(await measureSide(side, load, options, seeds.next()));
    }
    rounds.push(round);
    print(`\n${otlpTable([[`${i + 1}`, round]])}`);
  }
  const memory = await measureMemory({ options, seeds, say });
  print(`\n${otlpMemoryTable(memory)}`);
  const beside = await measureBeside({ options, seeds, say });
  print(`\n${otlpBesideTable(beside)}`);
  for (const line of otlpRatios(rounds)) print(`\n${line}`);
  const [rates, gzip, json] = Object.keys(LOADS).map((load) => ratesOf(rounds, 'collector-encrypted', load));
  const measured = {
    'otlp/rate': rates,
    'otlp/gzip': gzip,
    'otlp/json': json,
    'otlp/events': rates.map((rate) => rate * EVENTS_OF_SPAN),
    'otlp/memory': [memory.rss.second / memory.rss.first],
  };
  const figures = Object.fromEntries(Object.entries(measured).filter(([, values]) => values.length > 0));
  print(`\n${figuresTable(figures)}`);
  const failures = rounds.flat().reduce((sum, { failures: n }) => sum + n, 0);
  return { rounds, memory, beside, figures, failures };
}

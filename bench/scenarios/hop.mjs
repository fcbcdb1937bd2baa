/**
 * An OpenTelemetry Collector, with its queue on the disk, between senders and the collector. While spans
 * arrive, the collector is killed by kill -9 three times and the OpenTelemetry Collector once. The log must
 * have the events of each acknowledged span once, and no others.
 */
import { createInterface } from 'node:readline';
import { spawn } from 'node:child_process';
import { setTimeout as sleep } from 'node:timers/promises';
import { freePort } from '../../test/free-port.ts';
import { removeDirectory, temporaryDirectory } from '../lib/children.mjs';
import { collectorCommand, createKey, MAIN, startCollector, stopCollector } from '../lib/collector.mjs';
import { whole } from '../lib/numbers.mjs';
import { buildOtelCollector, startOtelCollector } from '../lib/otel-collector.mjs';
import { OtlpLoad } from '../lib/otlp.mjs';
import { expectedOf } from '../lib/otlp-spans.mjs';
import { table } from '../lib/table.mjs';

const KILLS = ['collector', 'collector', 'OTel Collector', 'collector'];
const LOAD = { encoding: 'protobuf', connections: 4, spans: 64, everyMs: 20 };
const DOWN_MS = 2000;
/** Without a new event for this time, the wait ends. */
const SILENCE_MS = 120_000;

/** Random numbers from 0 to 1 by a seed. */
function chance(seed) {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 32;
  };
}

/** The two processes. Each can be killed and restarted with its directory and port. */
class Hop {
  starts = 0;
  repeats = 0;
  #collector;
  #otel;
  #collectorOptions;
  #otelOptions;
  #key;

  static async start({ scratch }) {
    const hop = new Hop();
    hop.directory = temporaryDirectory(scratch, 'hop');
    hop.queue = temporaryDirectory(scratch, 'otel-collector');
    hop.port = await freePort();
    const target = await freePort();
    hop.#key = (await createKey(hop.directory)).key;
    hop.#collectorOptions = { more: ['--otlp-port', `${target}`, '--encryption', 'on'] };
    hop.#otelOptions = { directory: hop.queue, port: hop.port, target, key: hop.#key };
    await hop.startAgain('collector');
    await hop.startAgain('OTel Collector');
    return hop;
  }

  async startAgain(who) {
    if (who === 'collector') {
      this.#collector = await startCollector(this.directory, this.#key, this.#collectorOptions);
      this.starts++;
    } else this.#otel = await startOtelCollector(this.#otelOptions);
  }

  async kill(who) {
    if (who === 'collector') this.repeats += (await this.count()).repeats;
    const { child } = who === 'collector' ? this.#collector : { child: this.#otel };
    child.signal('SIGKILL');
    await child.exited;
  }

  /** Counts the events of the log, and the repeats since the start of the collector. */
  async count() {
    const answer = await fetch(`http://127.0.0.1:${this.#collector.management}/metrics`);
    const text = await answer.text();
    const value = (name) => Number(new RegExp(`^${name} (\\d+)`, 'm').exec(text)?.[1] ?? 0);
    return {
      events: value('collector_ledger_events'),
      repeats: value('collector_events_total\\{outcome="duplicate"\\}'),
    };
  }

  async stop() {
    this.repeats += (await this.count()).repeats;
    await this.#otel.stop();
    await stopCollector(this.#collector);
  }

  remove() {
    removeDirectory(this.directory);
    removeDirectory(this.queue);
  }
}

/** Kills and restarts at random moments. @returns the time of each kill and the length of the outage. */
async function disturb(hop, seconds, random, say) {
  const part = (seconds * 1000) / KILLS.length;
  const began = performance.now();
  const kills = [];
  for (const [i, who] of KILLS.entries()) {
    await sleep(Math.max(0, began + part * (i + random() * 0.8) - performance.now()));
    const at = (performance.now() - began) / 1000;
    say(`kill -9 of the ${who}`);
    await hop.kill(who);
    const down = Math.round(random() * DOWN_MS);
    await sleep(down);
    await hop.startAgain(who);
    kills.push({ who, at, down });
  }
  return kills;
}

/** Resolves when the log has this number of events, or after SILENCE_MS without a new one. */
async function arrived(hop, events) {
  let seen = 0;
  for (let since = performance.now(); performance.now() < since + SILENCE_MS; await sleep(250)) {
    const now = (await hop.count()).events;
    if (now >= events) return;
    if (now > seen) since = performance.now();
    seen = now;
  }
}

/** Compares the output of `collector events` with the expected events of each span. */
async function compare(directory, expected) {
  const child = spawn(process.execPath, [MAIN, 'events', '--data-dir', directory], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ids = new Set();
  const found = new Map();
  const seen = { events: 0, twice: 0, others: 0 };
  for await (const line of createInterface({ input: child.stdout })) {
    const { event_id: id, kind, body } = JSON.parse(line);
    const { trace_id: trace, span_id: span } = JSON.parse(body).system_metadata.instrumentation ?? {};
    seen.events++;
    if (ids.has(id)) seen.twice++;
    ids.add(id);
    if (!expected.has(`${trace} ${span}`)) seen.others++;
    else {
      const kinds = found.get(`${trace} ${span}`) ?? {};
      kinds[kind] = (kinds[kind] ?? 0) + 1;
      found.set(`${trace} ${span}`, kinds);
    }
  }
  const wrong = [...expected].filter(([span, kinds]) => {
    const made = found.get(span) ?? {};
    return [...Object.keys(kinds), ...Object.keys(made)].some((kind) => kinds[kind] !== made[kind]);
  });
  return { ...seen, wrong: wrong.length };
}

async function measureRound({ options, seed, say }) {
  const hop = await Hop.start(options);
  const generator = new OtlpLoad({ ...LOAD, port: hop.port, key: 'none', seed });
  const sending = generator.step({ seconds: options.seconds });
  const kills = await disturb(hop, options.seconds, chance(seed), say);
  const sent = await sending;
  await generator.stop();
  const expected = new Map();
  for (let number = 0; number < sent.next; number++)
    for (const [span, kinds] of expectedOf({ ...LOAD, seed }, number)) expected.set(span, kinds);
  const events = [...expected.values()].flatMap((kinds) => Object.values(kinds)).reduce((a, b) => a + b, 0);
  say(`${whole(sent.spans)} spans are sent; ${whole(events)} events are to come`);
  // Each start adds one event of its own.
  await arrived(hop, events + hop.starts);
  await hop.stop();
  const found = await compare(hop.directory, expected);
  const { intact } = JSON.parse(await collectorCommand('verify', '--data-dir', hop.directory, '--json'));
  const { starts, repeats } = hop;
  hop.remove();
  const { next, spans, unanswered, later } = sent;
  return {
    seed,
    kills,
    requests: next,
    spans,
    unanswered,
    later,
    expected: events,
    starts,
    repeats,
    ...found,
    intact,
  };
}

const isGood = ({ events, expected, starts, twice, others, wrong, intact }) =>
  events === expected + starts && twice === 0 && others === starts && wrong === 0 && intact;

export function hopTable(rounds) {
  const rows = rounds.map((round, i) => [
    ...[`${i + 1}`, `${round.seed}`, whole(round.spans), whole(round.unanswered), whole(round.expected)],
    ...[whole(round.events - round.starts), whole(round.repeats), whole(round.twice), whole(round.wrong)],
    round.intact ? 'intact' : 'NOT INTACT',
  ]);
  const heading = ['Round', 'seed', 'spans', 'sent again', 'events to come', 'stored', 'repeats', 'twice'];
  return table([[...heading, 'spans with other events', 'verify'], ...rows]);
}

export async function hop({ options, seeds, say, print }) {
  buildOtelCollector();
  const rounds = [];
  for (let i = 0; i < options.rounds; i++) {
    say(`round ${i + 1} of ${options.rounds}`);
    rounds.push(await measureRound({ options, seed: seeds.next(), say }));
  }
  print(`\n${hopTable(rounds)}`);
  const bad = rounds.filter((round) => !isGood(round)).length;
  if (bad > 0) throw new Error(`in ${bad} of ${rounds.length} rounds an event was lost or is there twice`);
  return { rounds, figures: {}, failures: 0 };
}

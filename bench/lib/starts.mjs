/** Time of a start, after a stop and after kill -9 under load. */
import { setTimeout as sleep } from 'node:timers/promises';
import { startCollector, stopCollector } from './collector.mjs';
import { dropFromMemory } from './disk.mjs';
import { decimals, whole } from './numbers.mjs';
import { table } from './table.mjs';
import { beginLoad } from './wrk.mjs';

/**
 * One round on a log that was closed in order: start, kill -9 under load, start, stop.
 * @throws when an acknowledged event is missing after the kill.
 */
async function oneRound({ directory, key, options, seeds }) {
  const { connections, seconds, cold } = options;
  if (cold) dropFromMemory(directory);
  const first = await startCollector(directory, key);
  const sending = await beginLoad({
    port: first.port,
    key,
    seed: seeds.next(),
    seconds: seconds + 60,
    connections,
  });
  await sleep(seconds * 1000 * (0.5 + Math.random() / 2));
  first.child.signal('SIGKILL');
  await first.child.exited;
  sending.stop();
  const { acked } = await sending.result;
  if (cold) dropFromMemory(directory);
  const second = await startCollector(directory, key);
  // startCollector has sent one event more.
  const stored = second.opened.events - first.opened.events;
  if (stored < acked + 1 || stored > acked + 1 + connections) {
    throw new Error(`${acked + 1} events were acknowledged before kill -9, and ${stored} are stored`);
  }
  const stopMs = await stopCollector(second);
  return {
    clean: { ...first.start, ...first.opened },
    killed: { ...second.start, ...second.opened },
    acked,
    stored,
    stopMs,
  };
}

export async function measureStarts({ directory, key, options, seeds, say }) {
  const rounds = [];
  for (let round = 0; round < options.rounds; round++) {
    say(`starts, round ${round + 1} of ${options.rounds}`);
    rounds.push(await oneRound({ directory, key, options, seeds }));
  }
  return rounds;
}

/** Seconds from the start of the process to the first 201. */
export function startFigures(rounds) {
  return {
    'start/clean': rounds.map(({ clean }) => clean.firstAnswerMs / 1000),
    'start/killed': rounds.map(({ killed }) => killed.firstAnswerMs / 1000),
  };
}

export function startsTable(rounds) {
  const row = (what, start) => [
    what,
    whole(start.events),
    whole(start.replayed),
    decimals(start.listeningMs / 1000),
    decimals(start.firstAnswerMs / 1000),
  ];
  const rows = rounds.flatMap(({ clean, killed }) => [
    row('clean stop', clean),
    row('kill -9 under load', killed),
  ]);
  return table([['Start after', 'events', 'read again', 'listening s', 'first 201 s'], ...rows]);
}

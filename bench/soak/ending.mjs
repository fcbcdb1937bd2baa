/** The end of a soak: the remaining events are sent, and all answers are compared with the log. */
import { setTimeout as sleep } from 'node:timers/promises';
import { PATIENCE_MS, sum } from './course.mjs';
import { checkLedger } from './ledger-check.mjs';
import { collectorCommand } from './setting.mjs';
import { KINDS } from './soak-events.mjs';

const PAGE_EVERY_MS = 500;
/**
 * Highest allowed ratio of the maximum RSS of the second half of the longest run to that of the first.
 */
const RSS_BOUND = 1.15;

export async function end(course) {
  const { say } = course.options;
  say('the end: the remaining events are sent');
  await course.senders.enter('end');
  const waiting = await course.senders.drain(PATIENCE_MS);
  course.checks.that('every event that was not finally refused is acknowledged', waiting === 0, waiting);
  await course.watch.stop();
  const quiet = await course.watch.until(
    (s) => s.queue.events === 0 && s.checkpoint?.entries_behind === 0,
    PATIENCE_MS,
  );
  course.checks.that('the newest checkpoint covers every event', quiet !== undefined);
  await course.watch.compare();
  const { compared, unanswered, faults, state } = course.watch;
  const { lives, life, unexpected } = await course.senders.counts();
  const told = faults.map(({ at, faults: of }) => `${at} ${of.join(', ')}`).join('; ');
  course.checks.that(
    'the console counted by kind and by reason what the senders counted, each second',
    faults.length === 0,
    told,
  );
  const open = sum(lives[life].unanswered) + (lives[life].refused.request_timeout ?? 0);
  const wrong = course.applications.flatMap(({ keyId, name }) => {
    const shown = state.keys.find((key) => key.key_id === keyId)?.requests ?? 0;
    const counted = lives[life].byKey[name] ?? 0;
    if (shown >= counted && shown <= counted + open) return [];
    return [`${name}: ${shown} shown, ${counted} to ${counted + open} counted`];
  });
  course.checks.that('it counted the requests of each key', wrong.length === 0, wrong.join('; '));
  course.checks.that(
    'no request was answered as none should be',
    unexpected.length === 0,
    JSON.stringify(unexpected),
  );
  await comparePage(course);
  await course.picture('end');
  const phases = await course.senders.phases();
  const fates = await course.senders.end();
  course.checks.that('stopped, the collector ends with 0', (await course.collector.stop()) === 0);
  const ledger = await examine(course, state, fates);
  return {
    minutes: course.options.minutes,
    rate: course.rate,
    disk: course.setting.disk.what,
    segmentBytes: course.segmentBytes,
    browser: course.page !== undefined,
    phases,
    lives,
    console: { compared, unanswered, faults },
    ledger,
    starts: course.collector.starts,
    memory: memory(course),
    complaints: course.collector.complaints,
    checks: course.checks.list,
    failures: course.checks.failures,
  };
}

/** At the end, when every answer has arrived, page and senders agree to the last event. */
async function comparePage(course) {
  if (course.page === undefined) return;
  const until = performance.now() + PATIENCE_MS;
  let wrong;
  do {
    await sleep(PAGE_EVERY_MS);
    wrong = await differencesOf(course);
  } while (wrong.length > 0 && performance.now() < until);
  course.checks.that('the page shows these counts at the end', wrong.length === 0, wrong.join('; '));
  const { complaints } = course.page;
  course.checks.that('the browser found no fault', complaints.length === 0, complaints.join('; '));
}

async function differencesOf(course) {
  const { totals } = await course.watch.read();
  const { lives, life } = await course.senders.counts();
  const { accepted, refused, unanswered } = lives[life];
  const isExact = sum(unanswered) === 0;
  const wrong = [];
  for (const [name, shown] of Object.entries({ ...totals.accepted, ...totals.refused })) {
    const [cell = ''] = await course.page.cells(name);
    const counted = isExact ? ((KINDS.includes(name) ? accepted : refused)[name] ?? 0) : shown;
    if (Number(cell.replaceAll(',', '')) !== counted) wrong.push(`${name}: ${cell}, and ${counted} counted`);
  }
  return wrong;
}

async function examine(course, { ledger: shown }, fates) {
  course.options.say('the log is read');
  const where = ['--data-dir', course.dataDir];
  const verified = await collectorCommand(
    'verify',
    ...where,
    '--against',
    course.setting.sinkFile,
    '--json',
  ).then(
    (text) => JSON.parse(text).intact,
    (error) => error.message,
  );
  course.checks.that(
    'collector verify finds the log intact, also against the sink',
    verified === true,
    verified,
  );
  const doctor = await collectorCommand('doctor', ...where, '--json').then(
    (text) => JSON.parse(text),
    (error) => ({ damaged: error.message }),
  );
  course.checks.that('collector doctor finds no damage', doctor.damaged === false, doctor.damaged);
  const found = await checkLedger(course.dataDir, course.events, course.applications, fates);
  const none = (what, { count, first }) =>
    course.checks.that(what, count === 0, `${count}: ${first.join(', ')}`);
  course.checks.that('events were acknowledged', found.acknowledged > 0);
  none('every acknowledged event is stored', found.lost);
  none('each once', found.twice);
  none('each as it was sent, in order, under its key', found.changed);
  none('nothing is stored that was not sent', found.notSent);
  none('nothing is stored that was refused each time', found.refused);
  course.checks.that(
    'the console showed how many events are stored',
    shown.events === found.stored,
    shown.events,
  );
  return found;
}

/** The maximum RSS of both halves of the longest run between two starts, after its warm-up. */
function memory(course) {
  const samples = course.collector.starts
    .map(({ rss }) => rss)
    .reduce((longest, each) => (each.length > longest.length ? each : longest), []);
  const half = samples.length >> 1;
  const highest = (list) => list.reduce((most, { rss }) => Math.max(most, rss), 0);
  const tenth = Math.max(1, Math.ceil(samples.length / 10));
  const curve = Array.from({ length: Math.ceil(samples.length / tenth) }, (_, i) =>
    highest(samples.slice(i * tenth, (i + 1) * tenth)),
  );
  const [firstHalf, secondHalf] = [highest(samples.slice(0, half)), highest(samples.slice(half))];
  const ratio = secondHalf / firstHalf;
  course.inTime(
    `memory stays flat: the second half is at most ${RSS_BOUND} of the first`,
    ratio <= RSS_BOUND,
    ratio.toFixed(2),
  );
  return { firstHalf, secondHalf, curve };
}

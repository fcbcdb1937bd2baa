/**
 * Minutes of load over HTTPS with a kill -9, a full disk, a new certificate and a revoked key. In the end
 * every acknowledged event must be stored once, as it was sent, and nothing else. The console must be right
 * meanwhile.
 */
import { rmSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { Course, NEXT_DAYS } from './course.mjs';
import { end } from './ending.mjs';
import { Senders } from './senders.mjs';
import { bytesOf, RATE_AT_MOST, Setting } from './setting.mjs';
import { SoakEvents } from './soak-events.mjs';
import { asUsual, changeCertificate, fillDisk, kill, revokeKey } from './steps.mjs';
import { SupervisedCollector } from './supervised-collector.mjs';

/** The moments of the steps, as parts of the whole time. */
const AT = { usual: 0.18, kill: 0.2, full: 0.4, certificate: 0.6, revoke: 0.75, end: 1 };
const FULL_PART = 0.03;
const LEAST_FULL_MS = 4000;
const BEST = { warmupMs: 3000, measuredMs: 8000, segmentBytes: 64 << 20 };

/**
 * @typedef {object} SoakOptions
 * @property {number} minutes
 * @property {number} load the rate as a part of the best rate
 * @property {number} [rate] events a second, instead of `load`
 * @property {number} connections
 * @property {string} scratch a directory on a disk with room for it
 * @property {string} [out] directory for pictures of the console
 * @property {boolean} timesCount whether delays and growing memory are failures
 * @property {(text: string) => void} say
 */

/**
 * @typedef {object} SoakResult
 * @property {number | undefined} best events a second
 * @property {string} disk the kind of disk of the data directory
 * @property {boolean} browser whether the page was checked
 * @property {{ what: string, ok: boolean, detail: string, isNoGate?: boolean }[]} checks
 * @property {number} failures
 * @property {{ code: number | null, listeningMs: number }[]} starts of the collector
 * @property {Record<number, { accepted: Record<string, number>, refused: Record<string, number> }>} lives
 * answers to the senders since each start
 * @property {{ acknowledged: number, stored: number }} ledger
 * @property {{ compared: number }} console
 */

/**
 * Runs a soak and removes everything that it made.
 * @param {SoakOptions} options
 * @returns {Promise<SoakResult>}
 */
export async function soak(options) {
  const expected = bytesOf((options.rate ?? RATE_AT_MOST * options.load) * options.minutes * 60);
  const setting = await Setting.make(options.scratch, expected);
  options.say(`the data directory is on ${setting.disk.what}`);
  try {
    const best = options.rate === undefined ? await bestRate(setting, options) : undefined;
    const course = new Course(setting, options, options.rate ?? best * options.load);
    try {
      await course.begin();
      return { best, ...(await run(course)) };
    } finally {
      await course.close();
    }
  } finally {
    setting.remove();
  }
}

/** Acknowledged events a second when each connection sends immediately after an answer. */
async function bestRate(setting, { connections, say }) {
  const dataDir = setting.dataDir('best');
  setting.renewCertificate(NEXT_DAYS);
  const applications = await setting.applications(dataDir, connections);
  const collector = new SupervisedCollector(setting.options(dataDir, BEST.segmentBytes));
  const events = new SoakEvents();
  await collector.listening;
  const senders = new Senders({ ...setting.forSenders, events, senders: applications });
  try {
    await senders.begin(Infinity);
    await sleep(BEST.warmupMs);
    await senders.enter('best');
    await sleep(BEST.measuredMs);
    const { best } = await senders.phases();
    const rate = best.answered.count / best.seconds;
    say(`best rate: ${Math.round(rate)} events/s`);
    return rate;
  } finally {
    await senders.stop();
    await collector.stop();
    rmSync(dataDir, { recursive: true });
    rmSync(setting.sinkFile, { force: true });
  }
}

/** Resolves with the results. Rejects if the collector ends with a code that no restart fixes. */
async function run(course) {
  const { senders, collector, rate, options } = course;
  const { minutes, say } = options;
  const failed = collector.failed.then((reason) => {
    throw new Error(reason);
  });
  const begun = Date.now();
  const until = (part) => sleep(Math.max(0, begun + part * minutes * 60_000 - Date.now()));
  const steps = async () => {
    await senders.enter('as usual');
    await senders.begin(rate);
    say(`${Math.round(rate)} events/s for ${minutes} minutes`);
    await until(AT.usual);
    await asUsual(course);
    await until(AT.kill);
    await kill(course);
    await until(AT.full);
    await fillDisk(course, Math.max(LEAST_FULL_MS, FULL_PART * minutes * 60_000));
    await until(AT.certificate);
    await changeCertificate(course);
    await until(AT.revoke);
    await revokeKey(course);
    await until(AT.end);
    return end(course);
  };
  return Promise.race([steps(), failed]);
}

/** The steps of a soak and their checks. */
import { X509Certificate } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import tls from 'node:tls';
import { isSameProcess } from '../lib/procfs.mjs';
import { SERVER_NAME } from './connection.mjs';
import { isUntil, NEXT_DAYS, PATIENCE_MS, sum } from './course.mjs';
import { collectorCommand } from './setting.mjs';

/** a new certificate is loaded within seconds. */
const REVOKED_WITHIN_MS = 1000;
const CERTIFICATE_WITHIN_MS = 10_000;
const WELL_WITHIN_MS = 10_000;
const IDS_OF_FULL = ['storage_unavailable', 'checkpoints_fail'];

/** Columns of the table of keys, after the heading of the row. */
const STATE_COLUMN = 2;

const warningOf = (state, id) => state.warnings.find((warning) => warning.id === id);
const isOfDisk = ({ id }) => id === 'disk_full_soon';

/** The expected warnings: a certificate that expires soon, and no other. */
export async function asUsual(course) {
  const state = await course.watch.until((s) => s.certificates.length > 0, PATIENCE_MS);
  course.isUntil('the console shows when the first certificate ends', state, course.firstCertificate);
  const others = state.warnings.filter(({ id }) => id !== 'certificate_expires_soon');
  const warns = warningOf(state, 'certificate_expires_soon') !== undefined;
  course.checks.that('the console warns of a certificate that ends within two weeks', warns);
  // On a machine with a nearly full disk the warning is right.
  const expected = course.setting.disk.isReal ? others.length === 0 : others.every(isOfDisk);
  course.checks.that('it warns of nothing else', expected, others.map(({ title }) => title).join('; '));
  await course.picture('as-usual');
}

export async function kill(course) {
  const { say } = course.options;
  say('kill -9');
  const { lives, life } = await course.senders.counts();
  const acknowledged = sum(lives[life].accepted) - lives[life].repeats;
  const killedAt = Date.now();
  // The page gets enough time to notice the missing answers, also on a slow machine.
  const seen = Promise.withResolvers();
  const processes = await course.collector.kill(seen.promise);
  await course.senders.nextLife();
  await course.senders.enter('killed');
  await course.pageShows(
    '[role=status]',
    /^No answer since/,
    'the page shows that the collector does not answer',
  );
  await course.picture('killed');
  seen.resolve();
  await course.collector.listening;
  await course.senders.enter('after the kill');
  const state = await course.watch.until(
    (s) => Date.parse(s.started_at) >= killedAt && s.health.ready,
    PATIENCE_MS,
  );
  course.checks.that('the console shows the restart', state !== undefined, state?.started_at);
  const events = state?.ledger.events ?? 0;
  course.checks.that(
    'it shows at least the events that were acknowledged before the kill',
    events >= acknowledged,
    `${events} shown, ${acknowledged} acknowledged`,
  );
  await course.pageShows('[role=status]', /^Taking events/, 'the page says that events are taken again');
  await course.pageShows('.about', /up \d+\s?s/, 'the page says that it was started a moment ago');
  await course.picture('restarted');
  const left = processes.filter(isSameProcess).map(({ pid }) => pid);
  course.checks.that('nothing of the killed collector lives on', left.length === 0, left.join());
}

export async function fillDisk(course, forMs) {
  const { disk } = course.setting;
  const starts = course.collector.starts.length;
  course.options.say('the disk gets full');
  await course.senders.enter('disk full');
  const target = { pid: course.collector.pid, segmentBytes: course.segmentBytes };
  disk.fill(target);
  await course.counted(
    (life) => life.refused.storage_unavailable > 0,
    'senders are refused with storage_unavailable',
  );
  const since = Date.now();
  const entries = await showsFullDisk(course);
  await course.picture('disk-full');
  await sleep(Math.max(0, since + forMs - Date.now()));
  course.options.say('the disk has room again');
  disk.relieve(target);
  await course.senders.enter('room again');
  const relieved = performance.now();
  const isWell = (s) =>
    s.ledger.state === 'open' &&
    s.health.ready &&
    s.checkpoint.entries > entries &&
    [...IDS_OF_FULL, ...(disk.isReal ? ['disk_full_soon'] : [])].every(
      (id) => warningOf(s, id) === undefined,
    );
  const well = await course.watch.until(isWell, PATIENCE_MS);
  const took = Math.round(performance.now() - relieved);
  course.checks.that('the console shows that all is well again, newer checkpoints too', well !== undefined);
  course.inTime('within ten seconds', took <= WELL_WITHIN_MS, `${took} ms`);
  const ended = course.collector.starts.slice(starts - 1).map(({ last }) => last);
  course.checks.that('a full disk ends no collector', ended.length === 1, ended.join('\n'));
  await course.pageShows('[role=status]', /^Taking events/, 'the page says that events are taken again');
  if (disk.isReal) await course.pageShows('#attention', /^(?![^]*% left)/, 'and that the disk has room');
  await course.picture('room-again');
}

/** Resolves with the number of entries that the console shows. */
async function showsFullDisk(course) {
  const isCritical = (state, id) => warningOf(state, id)?.severity === 'critical';
  const full = await course.watch.until(
    (s) => isCritical(s, 'storage_unavailable') && !s.health.ready,
    PATIENCE_MS,
  );
  course.checks.that('the console shows that events cannot be stored, and is not ready', full !== undefined);
  const advice = full && warningOf(full, 'storage_unavailable')?.what_to_do;
  course.checks.that('it says what to do', /free space on the disk/i.test(advice ?? ''), advice);
  if (course.setting.disk.isReal) {
    const noRoom = await course.watch.until((s) => isCritical(s, 'disk_full_soon'), PATIENCE_MS);
    const { free_bytes: free = NaN, total_bytes: total = NaN } = noRoom?.disk ?? {};
    course.checks.that(
      'it shows the full disk, as critical',
      free < 0.05 * total,
      `${free} of ${total} free`,
    );
    // Without an entry after the newest checkpoint, no checkpoint is made that could fail.
    const unsigned = await course.watch.until(
      (s) => warningOf(s, 'checkpoints_fail') !== undefined || s.checkpoint.entries_behind === 0,
      PATIENCE_MS,
    );
    course.checks.that('it shows that no checkpoint can be made', unsigned !== undefined);
  }
  const words = /Events cannot be stored[^]*Free space on the disk/;
  await course.pageShows('#attention', words, 'the page says so, and what to do');
  await course.pageShows('[role=status]', /^Not accepting events/, 'the page says that no events are taken');
  const { entries = 0, entries_behind: behind = 0 } = full?.checkpoint ?? {};
  return entries + behind;
}

export async function changeCertificate(course) {
  course.options.say('the certificate is changed');
  await course.senders.enter('new certificate');
  const old = fingerprintOf(course.firstCertificate);
  const issued = course.setting.renewCertificate(NEXT_DAYS);
  const next = fingerprintOf(issued);
  const since = performance.now();
  let shown = await shownFingerprint(course);
  while (shown !== next && performance.now() - since < PATIENCE_MS) {
    await sleep(100);
    shown = await shownFingerprint(course);
  }
  const took = Math.round(performance.now() - since);
  course.checks.that('new connections see the new certificate', shown === next);
  course.inTime('within ten seconds', took <= CERTIFICATE_WITHIN_MS, `${took} ms`);
  const { lives, life } = await course.senders.counts();
  const before = lives[life].byCertificate[old];
  const goesOn = ({ byCertificate }) => byCertificate[old] > before;
  await course.counted(goesOn, 'connections that saw the old one go on sending');
  await course.senders.renewHalf();
  await course.counted(
    ({ byCertificate }) => byCertificate[next] > 0,
    'senders send over connections that saw the new one',
  );
  const state = await course.watch.until((s) => isUntil(s, issued), PATIENCE_MS);
  course.isUntil('the console shows when the new certificate ends', state, issued);
  course.checks.that(
    'it does not warn of it any more',
    state !== undefined && warningOf(state, 'certificate_expires_soon') === undefined,
  );
  const day = new X509Certificate(issued.certificate).validToDate.toISOString().slice(0, 10);
  await course.pageShows('#proof', new RegExp(day), 'the page shows the day when it ends');
  await course.picture('new-certificate');
}

export async function revokeKey(course) {
  course.options.say('a key is revoked');
  await course.senders.enter('key revoked');
  const { keyId, name } = course.applications.find((application) => application.name === 'leaving');
  await collectorCommand('keys', 'revoke', keyId, '--data-dir', course.dataDir);
  const at = Date.now();
  await course.counted(({ refused }) => refused.key_revoked > 0, 'its sender is answered 401 key_revoked');
  await sleep(REVOKED_WITHIN_MS);
  const { newestAccepted, lives, life } = await course.senders.counts();
  const late = Math.round(newestAccepted[name] - at);
  course.inTime('within a second', late <= REVOKED_WITHIN_MS, `last accepted ${late} ms after the command`);
  const before = sum(lives[life].accepted);
  await course.counted(({ accepted }) => sum(accepted) > before, 'the others go on');
  const stateOf = (state, id) => state.keys.find((key) => key.key_id === id)?.state;
  const others = course.applications.filter((application) => application.keyId !== keyId);
  const shown = await course.watch.until(
    (s) => stateOf(s, keyId) === 'revoked' && others.every((other) => stateOf(s, other.keyId) === 'usable'),
    PATIENCE_MS,
  );
  course.checks.that('the console shows the key as revoked, and the others as usable', shown !== undefined);
  if (course.page !== undefined)
    course.checks.that('the page says so', await course.page.showsCell(keyId, STATE_COLUMN, 'revoked'));
  await course.picture('key-revoked');
}

function shownFingerprint(course) {
  const { port, authority } = course.setting;
  return new Promise((resolve, reject) => {
    const socket = tls.connect({
      port,
      host: '127.0.0.1',
      servername: SERVER_NAME,
      ca: authority.certificate,
    });
    socket.once('secureConnect', () => {
      resolve(socket.getPeerX509Certificate().fingerprint256);
      socket.destroy();
    });
    socket.once('error', reject);
  });
}

function fingerprintOf({ certificate }) {
  return new X509Certificate(certificate).fingerprint256;
}

/**
 * Warnings for operators, with instructions: pure functions of the facts. The ids must not change, because
 * alerts and run books use them.
 *
 * A title may contain a key's id, a sink's number and kind, a count or a time; never a path, and nothing of
 * an event.
 */
import { describeStep } from '../clock.js';
import type { SharedCounts } from '../ledger/ledger-counters.js';
import { counted } from '../quantity.js';
import { isInUse, isUsable } from '../access/key-ring.js';
import type { Facts } from './snapshot.js';

/** `critical`: senders lose events now or within a day, or the ledger is contradicted. */
type Severity = 'critical' | 'warning';

interface Rule {
  /** The matching alert in deploy/prometheus/rules.yaml. */
  readonly alert: string;
  readonly severity: Severity;
  readonly what_to_do: string;
  /** A title for each problem and, where they differ from the rule, its severity and instructions. */
  readonly find: (facts: Facts) => Found | readonly Found[];
}

type Found = string | false | (Partial<Pick<Rule, 'severity' | 'what_to_do'>> & { readonly title: string });

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const SOON_DAYS = 14;
const CHECKPOINT_OLD_MS = MINUTE_MS;
const MERGE_LATE_MS = MINUTE_MS;
const STALLED_MS = 5000;
const FEW_MONTHS = 3;
const CLOCK_STEP_SHOWN_MS = DAY_MS;
const BREAK_GLASS_SHOWN_MS = DAY_MS;
const DROPPED_SHOWN_MS = 60 * MINUTE_MS;
/** A follower copies every few seconds; a large copy takes minutes. */
const FOLLOWER_MAX_AGE_MS = 5 * MINUTE_MS;

const OF_THE_LEDGER = {
  storage_unavailable: {
    alert: 'CollectorNotReady',
    severity: 'critical',
    what_to_do:
      'The collector ends with exit code 4. Check the disk and the log, then restart it: it reads the ' +
      'stored events.',
    find: storageTrouble,
  },
  disk_full_soon: {
    alert: 'CollectorDiskFills',
    severity: 'warning',
    what_to_do: 'Enlarge it, or move other files away. Never delete anything from the ledger.',
    find: diskTrouble,
  },
  queue_nearly_full: {
    alert: 'CollectorQueueFull',
    severity: 'warning',
    what_to_do:
      'Events arrive faster than the disk stores them. Check the flush time and the senders; give a ' +
      'greedy key a rate limit.',
    find({ queue: { events, bytes, maxEvents, maxBytes } }) {
      const part = Math.max(events / maxEvents, bytes / maxBytes);
      return part >= 0.8 && `The queue to the disk is ${Math.min(100, Math.floor(part * 100))} % full`;
    },
  },
  checkpoint_old: {
    alert: 'CollectorCheckpointOld',
    severity: 'warning',
    what_to_do: 'The log has the reason. The collector keeps trying.',
    find: ({ now, ledger: { entries }, checkpoint, checkpointTroubleSince }) =>
      checkpointTroubleSince === undefined &&
      checkpoint !== undefined &&
      checkpoint.entries < entries &&
      now - checkpoint.at > CHECKPOINT_OLD_MS &&
      `${counted(entries - checkpoint.entries, 'entry', 'entries')} not under a checkpoint; the newest ` +
        `is ${duration(now - checkpoint.at)} old`,
  },
  checkpoints_fail: {
    alert: 'CollectorCheckpointOld',
    severity: 'warning',
    what_to_do:
      'Entries stored since then are not signed. Run collector doctor or read the log: the signing ' +
      'command, the signing key or the disk fails.',
    find: ({ now, checkpointTroubleSince: since }) =>
      since !== undefined && `No checkpoint could be made for ${duration(now - since)}`,
  },
  sink_forked: {
    alert: 'CollectorSinkForked',
    severity: 'critical',
    what_to_do:
      'Someone may have altered the log, or an old copy was started. Change nothing, and run collector ' +
      'verify --against the checkpoints of the sink; see docs/guide/alerts.md, CollectorSinkForked, and ' +
      'after a restore "When events are lost".',
    find: ({ sinks }) =>
      sinks.map(
        (sink, i) =>
          sink.state?.state === 'forked' &&
          `${sinkName(sink, i)} holds a checkpoint that contradicts this ledger`,
      ),
  },
  sink_down: {
    alert: 'CollectorSinkDown',
    severity: 'warning',
    what_to_do: 'Nothing waits for it and nothing is lost. Run collector doctor for the reason.',
    find: ({ now, sinks }) =>
      sinks.map((sink, i) => {
        if (sink.state?.state !== 'failing') return false;
        const { failing_since: from } = sink.state;
        const since = from === undefined ? '' : ` for ${duration(now - Date.parse(from))}`;
        return `${sinkName(sink, i)} has accepted no checkpoint${since}`;
      }),
  },
  signing_key_gone: {
    alert: 'CollectorSigningKeyGone',
    severity: 'critical',
    what_to_do:
      'This collector still signs, but the next start cannot. Restore the file from its copy before any ' +
      'restart; collector doctor names it.',
    find: ({ keyGone }) => keyGone && 'A file of the signing key is missing',
  },
  access_log_altered: {
    alert: 'CollectorAccessLogAltered',
    severity: 'critical',
    what_to_do:
      'Events are accepted, and new lines get heads again. Keep a copy of the data directory; run ' +
      'collector verify to find the altered lines, and follow docs/INTEGRITY.md, "When the access log ' +
      'was changed".',
    find: ({ alarms }) => alarms.has('access-log') && 'The access log does not match its heads in the log',
  },
} as const satisfies Record<string, Rule>;

/** The rules for a log with several writing collectors. */
const OF_THE_DATABASE = {
  log_forked: {
    alert: 'CollectorLogForked',
    severity: 'critical',
    what_to_do:
      'Events are accepted, but nothing is signed: a failover or a restore lost the end of the log, or ' +
      'someone altered it. Change nothing in the database; see docs/guide/alerts.md, CollectorLogForked.',
    find: ({ alarms }) => alarms.has('fork') && 'The log in the database differs from the signed one',
  },
  acked_lost: {
    alert: 'CollectorAckedLost',
    severity: 'critical',
    what_to_do:
      'A standby without them became the primary. The log of the collector names the batches; see ' +
      'docs/guide/alerts.md, CollectorAckedLost.',
    find: ({ alarms }) => alarms.has('lost') && 'Acknowledged events are missing from the database',
  },
  replication_off: {
    alert: 'CollectorReplicationOff',
    severity: 'critical',
    what_to_do:
      'Events are refused until a synchronous standby has the stored ones. Check the standby and ' +
      'synchronous_standby_names; see docs/guide/alerts.md, CollectorReplicationOff.',
    find: ({ ledger: { shared } }) =>
      shared?.replicated === false && 'Stored events are not known to be replicated',
  },
  signing_stalled: {
    alert: 'CollectorSigningStalled',
    severity: 'critical',
    what_to_do:
      'Events are accepted, but not signed. Run collector verify --store for the lane and the reason; ' +
      'collector store quarantine moves foreign rows away. See docs/guide/alerts.md, ' +
      'CollectorSigningStalled.',
    find: ({ ledger: { shared } }) =>
      shared !== undefined &&
      isSigningStalled(shared) &&
      `No batch can be sequenced: ${counted(shared.waiting.batches, 'batch', 'batches')} stored and not ` +
        `signed, the oldest ${duration(shared.stalledMs)} ago`,
  },
  merge_delay: {
    alert: 'CollectorMergeDelay',
    severity: 'warning',
    what_to_do:
      'Nothing is lost. Each collector tries about once a second and logs the reason; run collector ' +
      'store check for more.',
    find: ({ ledger: { shared } }) =>
      shared !== undefined &&
      shared.waiting.oldestMs > MERGE_LATE_MS &&
      `${counted(shared.waiting.batches, 'batch', 'batches')} stored, the oldest ` +
        `${duration(shared.waiting.oldestMs)} ago, but not sequenced`,
  },
  partitions_low: {
    alert: 'CollectorPartitionsLow',
    severity: 'warning',
    what_to_do:
      'Run collector store maintain, ideally from a weekly timer. Until then events go to the last tables.',
    find: ({ ledger: { shared } }) =>
      shared !== undefined &&
      shared.months < FEW_MONTHS &&
      `The database has tables for ${counted(shared.months, 'coming month')}`,
  },
} as const satisfies Record<string, Rule>;

const OF_THE_OPERATION = {
  verify_found_damage: {
    alert: 'CollectorDamage',
    severity: 'critical',
    what_to_do:
      'Change nothing in the data directory, and follow docs/INTEGRITY.md, "When something is ' + 'found".',
    find: ({ lastVerify }) =>
      lastVerify?.intact === false && `Verification found damage on ${new Date(lastVerify.at).toISOString()}`,
  },
  erasure_incomplete: {
    alert: 'CollectorErasureIncomplete',
    severity: 'warning',
    what_to_do:
      'A key directory cannot be written and may still decrypt erased events. Mount it; the collector ' +
      'keeps trying. If it is lost, restart without it (--encryption-keys); collector erase --list ' +
      'names the erasures.',
    find: ({ now, privacy }) =>
      privacy !== undefined &&
      privacy.pending > 0 &&
      `${counted(privacy.pending, 'erasure')} not complete, the oldest begun ` +
        `${duration(now - (privacy.pendingSince ?? now))} ago`,
  },
  key_mirror_behind: {
    alert: 'CollectorKeyMirrorBehind',
    severity: 'warning',
    what_to_do:
      'While only one other directory has all keys, the first event of an organisation is refused. Mount ' +
      'it again; collector encryption-keys status names it, and the next start updates it.',
    find: ({ privacy }) =>
      privacy !== undefined &&
      privacy.unreached > 0 &&
      `${counted(privacy.unreached, 'directory', 'directories')} of payload keys cannot be written`,
  },
  backup_old: {
    alert: 'CollectorBackupOld',
    severity: 'warning',
    what_to_do:
      'Run collector backup --follow as the collector’s user, and find out why it stopped: ' +
      'docs/guide/back-up-and-restore.md. If you back up otherwise, set limits.backup-max-age-ms to 0.',
    find: backupTrouble,
  },
  key_expires_soon: {
    alert: 'CollectorKeyExpires',
    severity: 'warning',
    what_to_do: 'Rotate it and give the new key to its sender.',
    find: ({ now, keys }) => keys.map((key) => expiryTrouble(key, now)),
  },
  keys_unreadable: {
    alert: 'CollectorKeysUnreadable',
    severity: 'warning',
    what_to_do:
      'The keys of the last read stay valid, even if revoked since. Check keys.db in the data directory.',
    find: ({ keysCurrent }) => !keysCurrent && 'The API keys cannot be read',
  },
  certificate_expires_soon: {
    alert: 'CollectorCertificateExpires',
    severity: 'warning',
    what_to_do: 'Replace it; the collector uses the new one without a restart.',
    find: ({ now, certificates }) =>
      certificates.map(({ name, notAfter }) => {
        const left = notAfter - now;
        const when = left <= 0 ? 'has expired' : `expires in ${duration(left)}`;
        if (left > SOON_DAYS * DAY_MS) return false;
        return { title: `The certificate ${name} ${when}`, ...(left < DAY_MS && { severity: 'critical' }) };
      }),
  },
  break_glass: {
    alert: 'CollectorBreakGlass',
    severity: 'warning',
    what_to_do:
      'Someone used break-glass in collector-viewer. The access log has the person, the stated reason and ' +
      'each page; see docs/guide/alerts.md, CollectorBreakGlass.',
    find: ({ now, breakGlass: { looks, at } }) =>
      at !== undefined &&
      now - at <= BREAK_GLASS_SHOWN_MS &&
      `${counted(looks, 'look')} with break-glass since the start, the last one ${duration(now - at)} ago`,
  },
  clock_stepped: {
    alert: 'CollectorClockStepped',
    severity: 'warning',
    what_to_do:
      'The order of events does not depend on it, but received_at does. Use a time server that slews the ' +
      'clock.',
    find: ({ now, clockSteps: { last } }) =>
      last !== undefined && now - last.at <= CLOCK_STEP_SHOWN_MS && `The clock was set ${describeStep(last)}`,
  },
  log_lines_dropped: {
    alert: 'CollectorLogDropped',
    severity: 'warning',
    what_to_do:
      'Events are not affected. Check the reader of standard error, or the disk of the log file: it ' +
      'accepts too little.',
    find: ({ now, droppedLines: { lines, at } }) =>
      at !== undefined &&
      now - at <= DROPPED_SHOWN_MS &&
      `${counted(lines, 'line')} of the log could not be written, the last ${duration(now - at)} ago`,
  },
  catalogue_fails: {
    alert: 'CollectorCatalogueFails',
    severity: 'warning',
    what_to_do:
      'Events are not affected, and the collector keeps trying. Its log has the reason, usually a full ' +
      'disk or a process that locks the file. The directory catalogue in the data directory may be ' +
      'deleted: it is rebuilt.',
    find: ({ now, catalogueTroubleSince: since }) =>
      since !== undefined && `The catalogue of runs has not been updated for ${duration(now - since)}`,
  },
  data_directory_exposed: {
    alert: 'CollectorExposed',
    severity: 'warning',
    what_to_do: 'It holds patient data: chmod 700, unless a group needs to read it for back-ups.',
    find: ({ exposed }) => exposed && 'Other users of the host can enter the data directory',
  },
  operator_token_in_clear: {
    alert: 'CollectorTokenInClear',
    severity: 'warning',
    what_to_do:
      'Set --tls-cert and --tls-key, so that this listener uses HTTPS too; or listen on 127.0.0.1 behind ' +
      'a proxy with HTTPS, and change the token.',
    find: ({ tokenInClear }) => tokenInClear && 'Other machines send the operator token unencrypted',
  },
} as const satisfies Record<string, Rule>;

/** All rules, by id. */
export const WARNINGS = { ...OF_THE_LEDGER, ...OF_THE_DATABASE, ...OF_THE_OPERATION };

export interface Warning {
  readonly id: keyof typeof WARNINGS;
  readonly severity: Severity;
  readonly title: string;
  readonly what_to_do: string;
}

/** The warnings, critical ones first; within a severity, in the order of {@link WARNINGS}. */
export function warningsOf(facts: Facts): Warning[] {
  const rules = Object.entries(WARNINGS) as [Warning['id'], Rule][];
  const found = rules.flatMap(([id, { severity, what_to_do, find }]) =>
    [find(facts)].flat().flatMap((each) => {
      if (each === false) return [];
      return [{ id, severity, what_to_do, ...(typeof each === 'string' ? { title: each } : each) }];
    }),
  );
  return [
    ...found.filter(({ severity }) => severity === 'critical'),
    ...found.filter(({ severity }) => severity === 'warning'),
  ];
}

function storageTrouble({ storage: { state, reason }, ledger: { shared } }: Facts): Found {
  if (state === 'open') return false;
  if (state === 'failed') return 'The ledger has failed';
  const where =
    reason === 'keys_unwritable'
      ? 'Check the directories of payload keys (docs/guide/encryption.md)'
      : shared === undefined
        ? 'Free space on the disk of the data directory'
        : 'Check the database and its standby';
  return {
    title: 'Events cannot be stored',
    what_to_do:
      `Senders are asked to retry, and lose nothing while they do. ${where}; the log has the ` + 'error.',
  };
}

function diskTrouble({ disk, daysUntilFull: days = Infinity }: Facts): Found {
  if (disk === undefined) return false;
  const part = disk.freeBytes / disk.totalBytes;
  const isCritical = part < 0.05 || days < 1;
  if (!isCritical && part >= 0.1 && days >= SOON_DAYS) return false;
  const when = days < SOON_DAYS ? `, and is full in ${counted(Math.max(1, Math.floor(days)), 'day')}` : '';
  return {
    severity: isCritical ? 'critical' : 'warning',
    title: `The disk of the data directory has ${Math.floor(part * 100)} % left${when}`,
  };
}

function sinkName({ kind }: Facts['sinks'][number], i: number): string {
  return `Sink ${i + 1} (${kind})`;
}

/** Whether batches have waited so long for their places that sequencing must have failed. */
export function isSigningStalled({ stalledMs }: SharedCounts): boolean {
  return stalledMs >= STALLED_MS;
}

/**
 * Whether the last back-up is older than configured or, with `--follow`, older than a follower should allow.
 */
export function isBackupOld({ now, ledger, lastBackup, backupMaxAgeMs, logBeganAt = 0 }: Facts): boolean {
  const most = lastBackup?.follows === true ? Math.min(FOLLOWER_MAX_AGE_MS, backupMaxAgeMs) : backupMaxAgeMs;
  return backupMaxAgeMs !== 0 && ledger.events !== 0 && now - (lastBackup?.at ?? logBeganAt) > most;
}

function backupTrouble(facts: Facts): Found {
  if (!isBackupOld(facts)) return false;
  const { now, ledger, lastBackup } = facts;
  if (lastBackup === undefined) return 'This log has no back-up by collector backup';
  const since = counted(Math.max(0, ledger.events - lastBackup.events), 'event');
  const title = `The last back-up was made ${duration(now - lastBackup.at)} ago; ${since} since then`;
  return lastBackup.follows === true ? `The back-up no longer follows the log. ${title}` : title;
}

function expiryTrouble(key: Facts['keys'][number], now: number): Found {
  const { keyId, createdAt, expiresAt, replacedBy } = key;
  if (!isUsable(key, now) || expiresAt === undefined || expiresAt - now > SOON_DAYS * DAY_MS) return false;
  const left = duration(expiresAt - now);
  if (replacedBy === undefined) {
    // A key that was made for a day, as for a demonstration, is meant to expire.
    if (expiresAt - createdAt <= DAY_MS) return false;
    return {
      title: `The key ${keyId} expires in ${left}`,
      what_to_do: `Rotate it and give the new key to its sender: collector keys rotate ${keyId}`,
    };
  }
  // A rotated key is meant to expire, but not while a sender still uses it.
  if (!isInUse(key, now)) return false;
  return {
    title: `The key ${keyId} was replaced, is still in use, and expires in ${left}`,
    what_to_do: `Give its sender the new key, ${replacedBy}, before then; afterwards the old key is refused.`,
  };
}

const UNITS = [
  [DAY_MS, 'day'],
  [60 * MINUTE_MS, 'hour'],
  [MINUTE_MS, 'minute'],
] as const;

/** A duration in words, in its largest unit. */
function duration(ms: number): string {
  for (const [unit, name] of UNITS) if (ms >= unit) return counted(Math.floor(ms / unit), name);
  return counted(Math.max(0, Math.floor(ms / 1000)), 'second');
}

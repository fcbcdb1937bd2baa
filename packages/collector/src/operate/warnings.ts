/**
 * What an operator should look at, and what to do about it: pure functions of what is known. The ids are a promise,
 * because alerts and run books name them.
 *
 * A title may name a key's id, a sink by its number and kind, a count or a time; never a path, and nothing of an event.
 */
import { describeStep } from '../clock.js';
import type { SharedCounts } from '../ledger/ledger-counters.js';
import { counted } from '../quantity.js';
import { isInUse, isUsable } from '../access/key-ring.js';
import type { Facts } from './snapshot.js';

/** `critical`: events are being lost to senders, or will be within a day, or the ledger is contradicted. */
type Severity = 'critical' | 'warning';

interface Rule {
  /** That of deploy/prometheus/rules.yaml that fires for it. */
  readonly alert: string;
  readonly severity: Severity;
  readonly what_to_do: string;
  /** A title for each trouble that there is, and where it differs from the rule, its severity and what to do. */
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
const DROPPED_SHOWN_MS = 60 * MINUTE_MS;
/** A follower makes a round every few seconds; a large one takes minutes. */
const FOLLOWER_MAX_AGE_MS = 5 * MINUTE_MS;

const OF_THE_LEDGER = {
  storage_unavailable: {
    alert: 'CollectorNotReady',
    severity: 'critical',
    what_to_do:
      'The collector ends with exit code 4. Look at the disk and the log, then start it again: it reads what is stored.',
    find: storageTrouble,
  },
  disk_full_soon: {
    alert: 'CollectorDiskFills',
    severity: 'warning',
    what_to_do: 'Make it larger, or move what else is on it. Nothing may be deleted from the ledger.',
    find: diskTrouble,
  },
  queue_nearly_full: {
    alert: 'CollectorQueueFull',
    severity: 'warning',
    what_to_do:
      'More events come than the disk takes. Look at the time of a flush and at who sends; give a greedy key a rate limit.',
    find({ queue: { events, bytes, maxEvents, maxBytes } }) {
      const part = Math.max(events / maxEvents, bytes / maxBytes);
      return part >= 0.8 && `The queue to the disk is ${Math.min(100, Math.floor(part * 100))} % full`;
    },
  },
  checkpoint_old: {
    alert: 'CollectorCheckpointOld',
    severity: 'warning',
    what_to_do: 'Look at the log for why none is made. It is tried again by itself.',
    find: ({ now, ledger: { entries }, checkpoint, checkpointTroubleSince }) =>
      checkpointTroubleSince === undefined &&
      checkpoint !== undefined &&
      checkpoint.entries < entries &&
      now - checkpoint.at > CHECKPOINT_OLD_MS &&
      `${counted(entries - checkpoint.entries, 'entry', 'entries')} not under a checkpoint, the newest of which is ${duration(now - checkpoint.at)} old`,
  },
  checkpoints_fail: {
    alert: 'CollectorCheckpointOld',
    severity: 'warning',
    what_to_do:
      'What was stored since is not yet signed. collector doctor or the log says why: the signing command, the signing key or the disk.',
    find: ({ now, checkpointTroubleSince: since }) =>
      since !== undefined && `No checkpoint could be made for ${duration(now - since)}`,
  },
  sink_forked: {
    alert: 'CollectorSinkForked',
    severity: 'critical',
    what_to_do:
      'Someone may have changed the log, or an old copy was started again. Keep everything as it is, and run collector verify --against what the sink holds; docs/guide/alerts.md, CollectorSinkForked, and after a restore "When events are lost".',
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
    what_to_do: 'Nothing waits for it and nothing is lost. collector doctor says what is wrong with it.',
    find: ({ now, sinks }) =>
      sinks.map((sink, i) => {
        if (sink.state?.state !== 'failing') return false;
        const { failing_since: from } = sink.state;
        const since = from === undefined ? '' : ` for ${duration(now - Date.parse(from))}`;
        return `${sinkName(sink, i)} has taken no checkpoint${since}`;
      }),
  },
  signing_key_gone: {
    alert: 'CollectorSigningKeyGone',
    severity: 'critical',
    what_to_do:
      'This collector still signs, and the next start will not. Put the file back from its copy before anything is restarted; collector doctor names it.',
    find: ({ keyGone }) => keyGone && 'A file of the signing key is gone',
  },
  access_log_altered: {
    alert: 'CollectorAccessLogAltered',
    severity: 'critical',
    what_to_do:
      'Events are taken, and what is noted from now on is under heads again. Keep a copy of the data directory as it is; collector verify says which lines were changed, and docs/INTEGRITY.md, "When the access log was changed", what to do.',
    find: ({ alarms }) =>
      alarms.has('access-log') && 'The access log is not the one that the log has heads of',
  },
} as const satisfies Record<string, Rule>;

/** Of a log that other collectors write to as well. */
const OF_THE_DATABASE = {
  log_forked: {
    alert: 'CollectorLogForked',
    severity: 'critical',
    what_to_do:
      'Events are taken and nothing is signed any more: a failover or a restore has lost the end of the log, or someone has changed it. Keep the database as it is; docs/guide/alerts.md, CollectorLogForked.',
    find: ({ alarms }) => alarms.has('fork') && 'The log in the database is not the one that was signed',
  },
  acked_lost: {
    alert: 'CollectorAckedLost',
    severity: 'critical',
    what_to_do:
      'A failover went to a standby that did not have them. The log of the collector names the batches; docs/guide/alerts.md, CollectorAckedLost.',
    find: ({ alarms }) => alarms.has('lost') && 'Acknowledged events are gone from the database',
  },
  replication_off: {
    alert: 'CollectorReplicationOff',
    severity: 'critical',
    what_to_do:
      'Events are refused until a synchronous standby has what was stored. Look at the standby and at synchronous_standby_names; docs/guide/alerts.md, CollectorReplicationOff.',
    find: ({ ledger: { shared } }) =>
      shared?.replicated === false && 'What is stored is not known to be replicated',
  },
  signing_stalled: {
    alert: 'CollectorSigningStalled',
    severity: 'critical',
    what_to_do:
      'Events are taken, and none is signed. collector verify --store names the lane and what is wrong with it; what no collector has stored is moved away by collector store quarantine. docs/guide/alerts.md, CollectorSigningStalled.',
    find: ({ ledger: { shared } }) =>
      shared !== undefined &&
      isSigningStalled(shared) &&
      `No batch can be given its place in the log: ${counted(shared.waiting.batches, 'batch', 'batches')} stored and not signed, the oldest ${duration(shared.stalledMs)} ago`,
  },
  merge_delay: {
    alert: 'CollectorMergeDelay',
    severity: 'warning',
    what_to_do:
      'Nothing is lost. Each collector tries about once a second, and its log says why it fails; collector store check tells more.',
    find: ({ ledger: { shared } }) =>
      shared !== undefined &&
      shared.waiting.oldestMs > MERGE_LATE_MS &&
      `${counted(shared.waiting.batches, 'batch', 'batches')} stored, the oldest ${duration(shared.waiting.oldestMs)} ago, and not yet in the log`,
  },
  partitions_low: {
    alert: 'CollectorPartitionsLow',
    severity: 'warning',
    what_to_do:
      'Run collector store maintain, best by a timer every week. Until then events are stored in the last tables.',
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
    what_to_do: 'Keep the data directory as it is, and follow docs/INTEGRITY.md, "When something is found".',
    find: ({ lastVerify }) =>
      lastVerify?.intact === false &&
      `The log was found not intact on ${new Date(lastVerify.at).toISOString()}`,
  },
  erasure_incomplete: {
    alert: 'CollectorErasureIncomplete',
    severity: 'warning',
    what_to_do:
      'A directory of keys cannot be written, and may still open what is to be erased. Mount it: it is tried again by itself. If it is lost for good, start without it (--encryption-keys); collector erase --list names the erasures.',
    find: ({ now, privacy }) =>
      privacy !== undefined &&
      privacy.pending > 0 &&
      `${counted(privacy.pending, 'erasure')} begun and not at their end, the oldest ${duration(now - (privacy.pendingSince ?? now))} ago`,
  },
  key_mirror_behind: {
    alert: 'CollectorKeyMirrorBehind',
    severity: 'warning',
    what_to_do:
      'While only one other has all keys, the first event of an organisation is refused. Mount it again; collector encryption-keys status names it, and the next start brings it up to date.',
    find: ({ privacy }) =>
      privacy !== undefined &&
      privacy.unreached > 0 &&
      `${counted(privacy.unreached, 'directory', 'directories')} of the keys of payloads cannot be written`,
  },
  backup_old: {
    alert: 'CollectorBackupOld',
    severity: 'warning',
    what_to_do:
      'Have collector backup --follow run as the collector’s user, and look why it does not: docs/guide/back-up-and-restore.md. If you back up otherwise, set limits.backup-max-age-ms to 0.',
    find: backupTrouble,
  },
  key_expires_soon: {
    alert: 'CollectorKeyExpires',
    severity: 'warning',
    what_to_do: 'Rotate it, and give the new one to its sender.',
    find: ({ now, keys }) => keys.map((key) => expiryTrouble(key, now)),
  },
  keys_unreadable: {
    alert: 'CollectorKeysUnreadable',
    severity: 'warning',
    what_to_do:
      'Those last read stay valid, so a key that is revoked now still works. Look at keys.db in the data directory.',
    find: ({ keysCurrent }) => !keysCurrent && 'The API keys cannot be read',
  },
  certificate_expires_soon: {
    alert: 'CollectorCertificateExpires',
    severity: 'warning',
    what_to_do: 'Put a new one in its place; the collector takes it without a restart.',
    find: ({ now, certificates }) =>
      certificates.map(({ name, notAfter }) => {
        const left = notAfter - now;
        const when = left <= 0 ? 'has expired' : `expires in ${duration(left)}`;
        if (left > SOON_DAYS * DAY_MS) return false;
        return { title: `The certificate ${name} ${when}`, ...(left < DAY_MS && { severity: 'critical' }) };
      }),
  },
  clock_stepped: {
    alert: 'CollectorClockStepped',
    severity: 'warning',
    what_to_do:
      'Order and dedup do not depend on it, but received_at does. Have the clock follow a time server that slews it.',
    find: ({ now, clockSteps: { last } }) =>
      last !== undefined && now - last.at <= CLOCK_STEP_SHOWN_MS && `The clock was set ${describeStep(last)}`,
  },
  log_lines_dropped: {
    alert: 'CollectorLogDropped',
    severity: 'warning',
    what_to_do:
      'Events are not affected. Check what reads standard error, or the disk that the log is written to: it accepts too little, or nothing.',
    find: ({ now, droppedLines: { lines, at } }) =>
      at !== undefined &&
      now - at <= DROPPED_SHOWN_MS &&
      `${counted(lines, 'line')} of the log could not be written, the last ${duration(now - at)} ago`,
  },
  catalogue_fails: {
    alert: 'CollectorCatalogueFails',
    severity: 'warning',
    what_to_do:
      "Events are not affected, and it is tried again. The collector's log says why; most likely there is no room, or another process holds it. The directory catalogue in the data directory may be deleted: it is rebuilt.",
    find: ({ now, catalogueTroubleSince: since }) =>
      since !== undefined &&
      `The catalogue of runs has not been brought up to date for ${duration(now - since)}`,
  },
  data_directory_exposed: {
    alert: 'CollectorExposed',
    severity: 'warning',
    what_to_do: 'It holds patient data: chmod 700. If a group reads it for a back-up, that may be meant.',
    find: ({ exposed }) => exposed && 'Other users of the host can enter the data directory',
  },
  operator_token_in_clear: {
    alert: 'CollectorTokenInClear',
    severity: 'warning',
    what_to_do:
      'Give the collector a certificate, --tls-cert and --tls-key, with which this listener speaks HTTPS too; or listen on 127.0.0.1 behind a proxy on this host that does, and change the token.',
    find: ({ tokenInClear }) => tokenInClear && 'The operator token comes from other machines in the clear',
  },
} as const satisfies Record<string, Rule>;

/** By id. */
export const WARNINGS = { ...OF_THE_LEDGER, ...OF_THE_DATABASE, ...OF_THE_OPERATION };

export interface Warning {
  readonly id: keyof typeof WARNINGS;
  readonly severity: Severity;
  readonly title: string;
  readonly what_to_do: string;
}

/** Critical ones first; within a severity in the order of {@link WARNINGS}. */
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
      ? 'Look at where the keys of payloads are (docs/guide/encryption.md)'
      : shared === undefined
        ? 'Make space on the disk of the data directory'
        : 'Look at the database and its standby';
  return {
    title: 'Events cannot be stored',
    what_to_do: `Senders are told to retry and lose nothing as long as they do. ${where}; the log says what failed.`,
  };
}

function diskTrouble({ disk, daysUntilFull: days = Infinity }: Facts): Found {
  if (disk === undefined) return false;
  const part = disk.freeBytes / disk.totalBytes;
  const isCritical = part < 0.05 || days < 1;
  if (!isCritical && part >= 0.1 && days >= SOON_DAYS) return false;
  const when =
    days < SOON_DAYS ? `, and will be full in ${counted(Math.max(1, Math.floor(days)), 'day')}` : '';
  return {
    severity: isCritical ? 'critical' : 'warning',
    title: `The disk of the data directory has ${Math.floor(part * 100)} % left${when}`,
  };
}

function sinkName({ kind }: Facts['sinks'][number], i: number): string {
  return `Sink ${i + 1} (${kind})`;
}

/** Whether batches wait for longer than giving places ever takes, and it fails. */
export function isSigningStalled({ stalledMs }: SharedCounts): boolean {
  return stalledMs >= STALLED_MS;
}

/** Whether there is something to back up, and it was not for longer than is configured, or than a follower takes. */
export function isBackupOld({ now, ledger, lastBackup, backupMaxAgeMs, logBeganAt = 0 }: Facts): boolean {
  const most = lastBackup?.follows === true ? Math.min(FOLLOWER_MAX_AGE_MS, backupMaxAgeMs) : backupMaxAgeMs;
  return backupMaxAgeMs !== 0 && ledger.events !== 0 && now - (lastBackup?.at ?? logBeganAt) > most;
}

function backupTrouble(facts: Facts): Found {
  if (!isBackupOld(facts)) return false;
  const { now, ledger, lastBackup } = facts;
  if (lastBackup === undefined) return 'No back-up of this log was made by collector backup';
  const since = counted(Math.max(0, ledger.events - lastBackup.events), 'event');
  const title = `The last back-up was made ${duration(now - lastBackup.at)} ago, and ${since} came since`;
  return lastBackup.follows === true ? `The back-up follows the log no longer. ${title}` : title;
}

function expiryTrouble(key: Facts['keys'][number], now: number): Found {
  const { keyId, createdAt, expiresAt, replacedBy } = key;
  if (!isUsable(key, now) || expiresAt === undefined || expiresAt - now > SOON_DAYS * DAY_MS) return false;
  const left = duration(expiresAt - now);
  if (replacedBy === undefined) {
    // One that was made for a day is meant to end, like that of a demonstration.
    if (expiresAt - createdAt <= DAY_MS) return false;
    return {
      title: `The key ${keyId} expires in ${left}`,
      what_to_do: `Rotate it, and give the new one to its sender: collector keys rotate ${keyId}`,
    };
  }
  // One that was rotated is meant to expire, but not under a sender that still has it.
  if (!isInUse(key, now)) return false;
  return {
    title: `The key ${keyId} was replaced, is still in use, and expires in ${left}`,
    what_to_do: `Give its sender the new one, ${replacedBy}, before that: afterwards what comes with the old one is refused.`,
  };
}

const UNITS = [
  [DAY_MS, 'day'],
  [60 * MINUTE_MS, 'hour'],
  [MINUTE_MS, 'minute'],
] as const;

/** Coarsely, in words. */
function duration(ms: number): string {
  for (const [unit, name] of UNITS) if (ms >= unit) return counted(Math.floor(ms / unit), name);
  return counted(Math.max(0, Math.floor(ms / 1000)), 'second');
}

/**
 * What an operator should look at, and what to do about it: pure functions of what is known. The ids are a promise,
 * because alerts and run books name them.
 *
 * A title may name a key's id, a sink by its number and kind, a count or a time; never a path, and nothing of an event.
 */
import { describeStep } from '../clock.js';
import type { SharedCounts } from '../ledger/ledger-counters.js';
import { counted } from '../quantity.js';
import { type Facts, isInUse, isUsable } from './snapshot.js';
import type { SinkView } from '../tree/publisher.js';

/** Every warning, and the alert of deploy/prometheus/rules.yaml that fires for it. */
export const WARNINGS = {
  storage_unavailable: 'CollectorNotReady',
  disk_full_soon: 'CollectorDiskFills',
  queue_nearly_full: 'CollectorQueueFull',
  checkpoint_old: 'CollectorCheckpointOld',
  checkpoints_fail: 'CollectorCheckpointOld',
  sink_forked: 'CollectorSinkForked',
  sink_down: 'CollectorSinkDown',
  signing_key_gone: 'CollectorSigningKeyGone',
  access_log_altered: 'CollectorAccessLogAltered',
  log_forked: 'CollectorLogForked',
  acked_lost: 'CollectorAckedLost',
  replication_off: 'CollectorReplicationOff',
  signing_stalled: 'CollectorSigningStalled',
  merge_delay: 'CollectorMergeDelay',
  partitions_low: 'CollectorPartitionsLow',
  verify_found_damage: 'CollectorDamage',
  erasure_incomplete: 'CollectorErasureIncomplete',
  key_mirror_behind: 'CollectorKeyMirrorBehind',
  backup_old: 'CollectorBackupOld',
  key_expires_soon: 'CollectorKeyExpires',
  keys_unreadable: 'CollectorKeysUnreadable',
  certificate_expires_soon: 'CollectorCertificateExpires',
  clock_stepped: 'CollectorClockStepped',
  log_lines_dropped: 'CollectorLogDropped',
  catalogue_fails: 'CollectorCatalogueFails',
  data_directory_exposed: 'CollectorExposed',
  operator_token_in_clear: 'CollectorTokenInClear',
} as const;
type WarningId = keyof typeof WARNINGS;

export interface Warning {
  readonly id: WarningId;
  /** `critical`: events are being lost to senders, or will be within a day, or the ledger is contradicted. */
  readonly severity: 'critical' | 'warning';
  readonly title: string;
  readonly what_to_do: string;
}

const MINUTE_MS = 60_000;
const DAY_MS = 24 * 60 * MINUTE_MS;
const SOON_DAYS = 14;
const CHECKPOINT_OLD_MS = MINUTE_MS;
const MERGE_LATE_MS = MINUTE_MS;
const STALLED_MS = 5000;
const FEW_MONTHS = 3;
const CLOCK_STEP_SHOWN_MS = DAY_MS;
const DROPPED_SHOWN_MS = 60 * MINUTE_MS;

/** Critical ones first; within a severity in the order of {@link WARNINGS}. */
export function warningsOf(facts: Facts): Warning[] {
  const found = [
    ...storage(facts),
    ...disk(facts),
    ...queue(facts),
    ...checkpoints(facts),
    ...sinks(facts),
    ...signingKey(facts),
    ...accessLog(facts),
    ...shared(facts),
    ...verify(facts),
    ...erasures(facts),
    ...backup(facts),
    ...keys(facts),
    ...certificates(facts),
    ...clock(facts),
    ...log(facts),
    ...catalogue(facts),
    ...exposure(facts),
  ];
  return [
    ...found.filter(({ severity }) => severity === 'critical'),
    ...found.filter(({ severity }) => severity === 'warning'),
  ];
}

function* storage({ storage: { state, reason }, ledger: { shared: counts } }: Facts): Generator<Warning> {
  if (state === 'open') return;
  const what =
    reason === 'keys_unwritable'
      ? 'Look at where the keys of payloads are (docs/guide/encryption.md)'
      : counts === undefined
        ? 'Make space on the disk of the data directory'
        : 'Look at the database and its standby';
  yield {
    id: 'storage_unavailable',
    severity: 'critical',
    title: state === 'failed' ? 'The ledger has failed' : 'Events cannot be stored',
    what_to_do:
      state === 'failed'
        ? 'The collector ends with exit code 4. Look at the disk and the log, then start it again: it reads what is stored.'
        : `Senders are told to retry and lose nothing as long as they do. ${what}; the log says what failed.`,
  };
}

function* disk({ disk: space, daysUntilFull: days = Infinity }: Facts): Generator<Warning> {
  if (space === undefined) return;
  const part = space.freeBytes / space.totalBytes;
  const critical = part < 0.05 || days < 1;
  if (!critical && part >= 0.1 && days >= SOON_DAYS) return;
  const when =
    days < SOON_DAYS ? `, and will be full in ${counted(Math.max(1, Math.floor(days)), 'day')}` : '';
  yield {
    id: 'disk_full_soon',
    severity: critical ? 'critical' : 'warning',
    title: `The disk of the data directory has ${Math.floor(part * 100)} % left${when}`,
    what_to_do: 'Make it larger, or move what else is on it. Nothing may be deleted from the ledger.',
  };
}

function* queue({ queue: { events, bytes, maxEvents, maxBytes } }: Facts): Generator<Warning> {
  const part = Math.max(events / maxEvents, bytes / maxBytes);
  if (part < 0.8) return;
  yield {
    id: 'queue_nearly_full',
    severity: 'warning',
    title: `The queue to the disk is ${Math.min(100, Math.floor(part * 100))} % full`,
    what_to_do:
      'More events come than the disk takes. Look at the time of a flush and at who sends; give a greedy key a rate limit.',
  };
}

function* checkpoints({
  now,
  ledger: { entries },
  checkpoint,
  checkpointTroubleSince: since,
}: Facts): Generator<Warning> {
  if (since !== undefined) {
    yield {
      id: 'checkpoints_fail',
      severity: 'warning',
      title: `No checkpoint could be made for ${duration(now - since)}`,
      what_to_do:
        'What was stored since is not yet signed. collector doctor or the log says why: the signing command, the signing key or the disk.',
    };
  } else if (
    checkpoint !== undefined &&
    checkpoint.entries < entries &&
    now - checkpoint.at > CHECKPOINT_OLD_MS
  ) {
    yield {
      id: 'checkpoint_old',
      severity: 'warning',
      title: `${counted(entries - checkpoint.entries, 'entry', 'entries')} not under a checkpoint, the newest of which is ${duration(now - checkpoint.at)} old`,
      what_to_do: 'Look at the log for why none is made. It is tried again by itself.',
    };
  }
}

function* sinks({ now, sinks: views }: Facts): Generator<Warning> {
  for (const [i, { kind, state }] of views.entries()) {
    const name = `Sink ${i + 1} (${kind})`;
    if (state?.state === 'forked') {
      yield {
        id: 'sink_forked',
        severity: 'critical',
        title: `${name} holds a checkpoint that contradicts this ledger`,
        what_to_do:
          'Someone may have changed the log, or an old copy was started again. Keep everything as it is, and run collector verify --against what the sink holds; docs/guide/alerts.md, CollectorSinkForked, and after a restore "When events are lost".',
      };
    }
    if (state?.state === 'failing') {
      const { failing_since: from } = state;
      const since = from === undefined ? '' : ` for ${duration(now - Date.parse(from))}`;
      yield {
        id: 'sink_down',
        severity: 'warning',
        title: `${name} has taken no checkpoint${since}`,
        what_to_do: 'Nothing waits for it and nothing is lost. collector doctor says what is wrong with it.',
      };
    }
  }
}

function* signingKey({ keyGone }: Facts): Generator<Warning> {
  if (!keyGone) return;
  yield {
    id: 'signing_key_gone',
    severity: 'critical',
    title: 'A file of the signing key is gone',
    what_to_do:
      'This collector still signs, and the next start will not. Put the file back from its copy before anything is restarted; collector doctor names it.',
  };
}

function* accessLog({ alarms }: Facts): Generator<Warning> {
  if (!alarms.has('access-log')) return;
  yield {
    id: 'access_log_altered',
    severity: 'critical',
    title: 'The access log is not the one that the log has heads of',
    what_to_do:
      'Events are taken, and what is noted from now on is under heads again. Keep a copy of the data directory as it is; collector verify says which lines were changed, and docs/INTEGRITY.md, "When the access log was changed", what to do.',
  };
}

function* shared({ alarms, ledger: { shared: counts } }: Facts): Generator<Warning> {
  if (alarms.has('fork')) {
    yield {
      id: 'log_forked',
      severity: 'critical',
      title: 'The log in the database is not the one that was signed',
      what_to_do:
        'Events are taken and nothing is signed any more: a failover or a restore has lost the end of the log, or someone has changed it. Keep the database as it is; docs/guide/alerts.md, CollectorLogForked.',
    };
  }
  if (alarms.has('lost')) {
    yield {
      id: 'acked_lost',
      severity: 'critical',
      title: 'Acknowledged events are gone from the database',
      what_to_do:
        'A failover went to a standby that did not have them. The log of the collector names the batches; docs/guide/alerts.md, CollectorAckedLost.',
    };
  }
  if (counts === undefined) return;
  if (counts.replicated === false) {
    yield {
      id: 'replication_off',
      severity: 'critical',
      title: 'What is stored is not known to be replicated',
      what_to_do:
        'Events are refused until a synchronous standby has what was stored. Look at the standby and at synchronous_standby_names; docs/guide/alerts.md, CollectorReplicationOff.',
    };
  }
  const { waiting, months } = counts;
  if (isSigningStalled(counts)) {
    yield {
      id: 'signing_stalled',
      severity: 'critical',
      title: `No batch can be given its place in the log: ${counted(waiting.batches, 'batch', 'batches')} stored and not signed, the oldest ${duration(counts.stalledMs)} ago`,
      what_to_do:
        'Events are taken, and none is signed. collector verify --store names the lane and what is wrong with it; what no collector has stored is moved away by collector store quarantine. docs/guide/alerts.md, CollectorSigningStalled.',
    };
  }
  if (waiting.oldestMs > MERGE_LATE_MS) {
    yield {
      id: 'merge_delay',
      severity: 'warning',
      title: `${counted(waiting.batches, 'batch', 'batches')} stored, the oldest ${duration(waiting.oldestMs)} ago, and not yet in the log`,
      what_to_do:
        'Nothing is lost. Each collector tries about once a second, and its log says why it fails; collector store check tells more.',
    };
  }
  if (months < FEW_MONTHS) {
    yield {
      id: 'partitions_low',
      severity: 'warning',
      title: `The database has tables for ${counted(months, 'coming month')}`,
      what_to_do:
        'Run collector store maintain, best by a timer every week. Events go on into the last tables.',
    };
  }
}

/** Whether batches wait for longer than giving places ever takes, and it fails. */
export function isSigningStalled(counts: SharedCounts | undefined): boolean {
  return counts !== undefined && counts.stalledMs >= STALLED_MS;
}

function* verify({ lastVerify }: Facts): Generator<Warning> {
  if (lastVerify === undefined || lastVerify.intact) return;
  yield {
    id: 'verify_found_damage',
    severity: 'critical',
    title: `The log was found not intact on ${new Date(lastVerify.at).toISOString()}`,
    what_to_do: 'Keep the data directory as it is, and follow docs/INTEGRITY.md, "When something is found".',
  };
}

function* erasures({ now, privacy }: Facts): Generator<Warning> {
  if (privacy === undefined) return;
  const { pending, pendingSince = now, unreached } = privacy;
  if (pending > 0) {
    yield {
      id: 'erasure_incomplete',
      severity: 'warning',
      title: `${counted(pending, 'erasure')} begun and not at their end, the oldest ${duration(now - pendingSince)} ago`,
      what_to_do:
        'A directory of keys cannot be written, and may still open what is to be erased. Mount it: it is tried again by itself. If it is lost for good, start without it (--encryption-keys); collector erase --list names the erasures.',
    };
  }
  if (unreached > 0) {
    yield {
      id: 'key_mirror_behind',
      severity: 'warning',
      title: `${counted(unreached, 'directory', 'directories')} of the keys of payloads cannot be written`,
      what_to_do:
        'While only one other has all keys, the first event of an organisation is refused. Mount it again; collector encryption-keys status names it, and the next start brings it up to date.',
    };
  }
}

/** A follower makes a round every few seconds; a large one takes minutes. */
const FOLLOWER_MAX_AGE_MS = 5 * 60_000;

/** Whether there is something to back up, and it was not for longer than is configured, or than a follower takes. */
export function isBackupOld({ now, ledger, lastBackup, backupMaxAgeMs, logBeganAt = 0 }: Facts): boolean {
  const most = lastBackup?.follows === true ? Math.min(FOLLOWER_MAX_AGE_MS, backupMaxAgeMs) : backupMaxAgeMs;
  return backupMaxAgeMs !== 0 && ledger.events !== 0 && now - (lastBackup?.at ?? logBeganAt) > most;
}

function* backup(facts: Facts): Generator<Warning> {
  if (!isBackupOld(facts)) return;
  const {
    now,
    ledger: { events },
    lastBackup,
  } = facts;
  const title =
    lastBackup === undefined
      ? 'No back-up of this log was made by collector backup'
      : `The last back-up was made ${duration(now - lastBackup.at)} ago, and ${counted(Math.max(0, events - lastBackup.events), 'event')} came since`;
  yield {
    id: 'backup_old',
    severity: 'warning',
    title: lastBackup?.follows === true ? `The back-up follows the log no longer. ${title}` : title,
    what_to_do:
      'Have collector backup --follow run as the collector’s user, and look why it does not: docs/guide/back-up-and-restore.md. If you back up otherwise, set limits.backup-max-age-ms to 0.',
  };
}

function* keys({ now, keys: all, keysCurrent }: Facts): Generator<Warning> {
  for (const key of all) {
    const { keyId, createdAt, expiresAt, replacedBy } = key;
    if (!isUsable(key, now) || expiresAt === undefined) continue;
    if (expiresAt - now > SOON_DAYS * DAY_MS) continue;
    if (replacedBy === undefined) {
      // One that was made for a day is meant to end, like that of a demonstration.
      if (expiresAt - createdAt <= DAY_MS) continue;
      yield {
        id: 'key_expires_soon',
        severity: 'warning',
        title: `The key ${keyId} expires in ${duration(expiresAt - now)}`,
        what_to_do: `Rotate it, and give the new one to its sender: collector keys rotate ${keyId}`,
      };
    } else if (isInUse(key, now)) {
      // One that was rotated is meant to expire, but not under a sender that still has it.
      yield {
        id: 'key_expires_soon',
        severity: 'warning',
        title: `The key ${keyId} was replaced, is still in use, and expires in ${duration(expiresAt - now)}`,
        what_to_do: `Give its sender the new one, ${replacedBy}, before that: afterwards what comes with the old one is refused.`,
      };
    }
  }
  if (keysCurrent) return;
  yield {
    id: 'keys_unreadable',
    severity: 'warning',
    title: 'The API keys cannot be read',
    what_to_do:
      'Those last read stay valid, so a key that is revoked now still works. Look at keys.db in the data directory.',
  };
}

function* certificates({ now, certificates: states }: Facts): Generator<Warning> {
  for (const { name, notAfter } of states) {
    if (notAfter - now > SOON_DAYS * DAY_MS) continue;
    const over = notAfter <= now;
    yield {
      id: 'certificate_expires_soon',
      severity: notAfter - now < DAY_MS ? 'critical' : 'warning',
      title: over
        ? `The certificate ${name} has expired`
        : `The certificate ${name} expires in ${duration(notAfter - now)}`,
      what_to_do: 'Put a new one in its place; the collector takes it without a restart.',
    };
  }
}

function* clock({ now, clockSteps: { last: clockStep } }: Facts): Generator<Warning> {
  if (clockStep === undefined || now - clockStep.at > CLOCK_STEP_SHOWN_MS) return;
  yield {
    id: 'clock_stepped',
    severity: 'warning',
    title: `The clock was set ${describeStep(clockStep)}`,
    what_to_do:
      'Order and dedup do not depend on it, but received_at does. Have the clock follow a time server that slews it.',
  };
}

function* log({ now, droppedLines: { lines, at } }: Facts): Generator<Warning> {
  if (at === undefined || now - at > DROPPED_SHOWN_MS) return;
  yield {
    id: 'log_lines_dropped',
    severity: 'warning',
    title: `${counted(lines, 'line')} of the log could not be written, the last ${duration(now - at)} ago`,
    what_to_do:
      'Events are not affected. Check what reads standard error, or the disk that the log is written to: it accepts too little, or nothing.',
  };
}

function* catalogue({ now, catalogueTroubleSince: since }: Facts): Generator<Warning> {
  if (since === undefined) return;
  yield {
    id: 'catalogue_fails',
    severity: 'warning',
    title: `The catalogue of runs has not been brought up to date for ${duration(now - since)}`,
    what_to_do:
      "Events are not affected, and it is tried again. The collector's log says why; most likely there is no room, or another process holds it. The directory catalogue in the data directory may be deleted: it is rebuilt.",
  };
}

function* exposure({ exposed, tokenInClear }: Facts): Generator<Warning> {
  if (exposed) {
    yield {
      id: 'data_directory_exposed',
      severity: 'warning',
      title: 'Other users of the host can enter the data directory',
      what_to_do: 'It holds patient data: chmod 700. If a group reads it for a back-up, that may be meant.',
    };
  }
  if (tokenInClear) {
    yield {
      id: 'operator_token_in_clear',
      severity: 'warning',
      title: 'The operator token comes from other machines in the clear',
      what_to_do:
        'Give the collector a certificate, --tls-cert and --tls-key, with which this listener speaks HTTPS too; or listen on 127.0.0.1 behind a proxy on this host that does, and change the token.',
    };
  }
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

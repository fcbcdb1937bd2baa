/**
 * Hints about missing settings that most logs should have. They are not problems, so they have no alarm and
 * no metric. Pure functions of the facts; the ids must not change.
 */
import type { Facts } from './snapshot.js';
import { isBackupOld } from './warnings.js';

export interface Hint {
  readonly id: 'no_checkpoint_sink' | 'keys_without_mirror' | 'no_backup_yet' | 'not_verified_yet';
  readonly title: string;
  readonly what_to_do: string;
}

/** The hints, in the recommended order. Each disappears within a second after the work is done. */
export function hintsOf(facts: Facts): Hint[] {
  return [...sink(facts), ...mirrorless(facts), ...missingBackup(facts), ...verification(facts)];
}

function* sink({ sinks }: Facts): Generator<Hint> {
  if (sinks.length > 0) return;
  yield {
    id: 'no_checkpoint_sink',
    title: 'Checkpoints stay on this host',
    what_to_do: 'Its owner could rewrite both the log and them. Send them elsewhere: --checkpoint-sink.',
  };
}

function* mirrorless({ privacy, ledger: { shared } }: Facts): Generator<Hint> {
  if (privacy === undefined || privacy.directories > 1 || shared !== undefined) return;
  yield {
    id: 'keys_without_mirror',
    title: 'The payload keys are in a single directory',
    what_to_do:
      'Without them no payload can be read. Keep them on a different disk from the data, with a mirror on ' +
      'a third: --encryption-keys DIR,MIRROR (docs/guide/encryption.md).',
  };
}

/**
 * Shown until a warning replaces it, or the operator has configured that back-ups are made in another way.
 */
function* missingBackup(facts: Facts): Generator<Hint> {
  if (facts.lastBackup !== undefined || facts.backupMaxAgeMs === 0 || isBackupOld(facts)) return;
  yield {
    id: 'no_backup_yet',
    title: 'No back-up yet',
    what_to_do: 'Keep collector backup DIRECTORY --follow running, ideally to another machine.',
  };
}

/** A log in a database is verified on its mirror. */
function* verification({ lastVerify, ledger: { shared } }: Facts): Generator<Hint> {
  if (lastVerify !== undefined || shared !== undefined) return;
  yield {
    id: 'not_verified_yet',
    title: 'Never verified',
    what_to_do: 'Run collector verify --note from a daily timer: it checks the whole log and reports here.',
  };
}

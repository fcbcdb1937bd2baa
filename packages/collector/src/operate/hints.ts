/**
 * What is not set up and most logs should have: no trouble, so no alarm, no metric and no place in the tab's title. Pure
 * functions of what is known, like the warnings; the ids are a promise too.
 */
import type { Facts } from './snapshot.js';
import { isBackupOld } from './warnings.js';

export interface Hint {
  readonly id: 'no_checkpoint_sink' | 'keys_without_mirror' | 'no_backup_yet' | 'not_verified_yet';
  readonly title: string;
  readonly what_to_do: string;
}

/** In the order in which they are best done. Each goes away by itself, within a second of being done. */
export function hintsOf(facts: Facts): Hint[] {
  return [...sink(facts), ...mirrorless(facts), ...missingBackup(facts), ...verification(facts)];
}

function* sink({ sinks }: Facts): Generator<Hint> {
  if (sinks.length > 0) return;
  yield {
    id: 'no_checkpoint_sink',
    title: 'Checkpoints stay on this host',
    what_to_do:
      'Anyone who owns it can rewrite the log and them together. Send them to someone else: --checkpoint-sink.',
  };
}

function* mirrorless({ privacy, ledger: { shared } }: Facts): Generator<Hint> {
  if (privacy === undefined || privacy.directories > 1 || shared !== undefined) return;
  yield {
    id: 'keys_without_mirror',
    title: 'The keys of payloads are in one directory alone',
    what_to_do:
      'Without them no payload can be read again. Keep them on another disk than the data, and a mirror on a third: --encryption-keys DIR,MIRROR (docs/guide/encryption.md).',
  };
}

/** Until a warning takes its place, or the operator has configured that back-ups are made otherwise. */
function* missingBackup(facts: Facts): Generator<Hint> {
  if (facts.lastBackup !== undefined || facts.backupMaxAgeMs === 0 || isBackupOld(facts)) return;
  yield {
    id: 'no_backup_yet',
    title: 'No back-up yet',
    what_to_do: 'Keep collector backup DIRECTORY --follow running, best to another machine.',
  };
}

/** A log in a database is verified where its mirror is. */
function* verification({ lastVerify, ledger: { shared } }: Facts): Generator<Hint> {
  if (lastVerify !== undefined || shared !== undefined) return;
  yield {
    id: 'not_verified_yet',
    title: 'Never verified',
    what_to_do:
      'Have a timer run collector verify --note every day: it checks the whole log and reports here.',
  };
}

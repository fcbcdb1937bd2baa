/**
 * What is not set up and most logs should have: no trouble, so no alarm, no metric and no place in the tab's title. Pure
 * functions of what is known, like the warnings; the ids are a promise too.
 */
import { isBackupOld, type Facts } from './warnings.js';

export interface Hint {
  readonly id: 'no_checkpoint_sink' | 'signing_key_not_copied' | 'no_backup_yet' | 'not_verified_yet';
  readonly title: string;
  readonly what_to_do: string;
}

/** In the order in which they are best done. Each goes away by itself, within a second of being done. */
export function hintsOf(facts: Facts): Hint[] {
  return [...sink(facts), ...signingKey(facts), ...backup(facts), ...verification(facts)];
}

function* sink({ sinks }: Facts): Generator<Hint> {
  if (sinks.length > 0) return;
  yield {
    id: 'no_checkpoint_sink',
    title: 'Checkpoints stay on this host',
    what_to_do:
      'Whoever owns it can rewrite the log and them together. Send them to somebody else: --checkpoint-sink.',
  };
}

function* signingKey({ keyDiesWithDisk }: Facts): Generator<Hint> {
  if (!keyDiesWithDisk) return;
  yield {
    id: 'signing_key_not_copied',
    title: 'The signing key is stored only on the disk of the log',
    what_to_do:
      'Without it the log cannot be continued. Copy it to a safe place (docs/guide/operate.md, "Escrow of the signing key"), then confirm the copy: collector signing-key copied',
  };
}

/** Until a warning takes its place, or somebody has said that back-ups are made otherwise. */
function* backup(facts: Facts): Generator<Hint> {
  if (facts.lastBackup !== undefined || facts.backupMaxAgeMs === 0 || isBackupOld(facts)) return;
  yield {
    id: 'no_backup_yet',
    title: 'No back-up yet',
    what_to_do: 'Keep collector backup DIRECTORY --follow running, best to another machine.',
  };
}

function* verification({ lastVerify }: Facts): Generator<Hint> {
  if (lastVerify !== undefined) return;
  yield {
    id: 'not_verified_yet',
    title: 'Never verified',
    what_to_do:
      'Have a timer run collector verify --note every day: it checks the whole log and tells of it here.',
  };
}

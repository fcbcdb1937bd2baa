/** The state of keys, erasures and holds, for operators. */
import { type Declared, gauge, seconds } from '../numbers.js';

export interface PrivacyState {
  readonly directories: number;
  /** Key directories that could not be written at the last attempt. */
  readonly unreached: number;
  /** Milliseconds since 1970. */
  readonly epochBegun: number;
  readonly erased: number;
  /** Erasures that have begun and not ended, and when the oldest began. */
  readonly pending: number;
  readonly pendingSince: number | undefined;
  /** Erasures whose encrypted bytes are still in the log; undefined for a log in a database. */
  readonly uncompacted: number | undefined;
  readonly holds: number;
}

export const PRIVACY_NUMBERS: readonly Declared<PrivacyState>[] = [
  gauge({
    name: 'collector_key_directories',
    help: 'Directories of payload keys, mirrors included.',
    read: ({ directories }) => directories,
  }),
  gauge({
    name: 'collector_key_directories_unreached',
    help: 'Key directories that could not be written at the last attempt.',
    read: ({ unreached }) => unreached,
    cell: {
      card: 'proof',
      label: 'Keys not written',
      format: 'count',
      noun: ['directory', 'directories'],
      warns: true,
    },
  }),
  gauge({
    name: 'collector_key_epoch_timestamp_seconds',
    help: 'When the epoch of the payload keys began.',
    read: ({ epochBegun }) => seconds(epochBegun),
    cell: { card: 'proof', label: 'Key epoch since', format: 'instant' },
  }),
  gauge({
    name: 'collector_erased_events',
    help: 'Events whose keys were destroyed.',
    read: ({ erased }) => erased,
    cell: { card: 'proof', label: 'Erased', format: 'count', noun: ['event', 'events'] },
  }),
  gauge({
    name: 'collector_erasures_pending',
    help: 'Erasures that have begun and are not complete.',
    read: ({ pending }) => pending,
    cell: {
      card: 'proof',
      label: 'Not yet erased',
      format: 'count',
      noun: ['erasure', 'erasures'],
      warns: true,
    },
  }),
  gauge({
    name: 'collector_erasures_uncompacted',
    help: 'Erasures with encrypted bytes left in the log on disk; the collector removes them within a day.',
    read: ({ uncompacted }) => uncompacted,
  }),
  gauge({
    name: 'collector_holds',
    help: 'Legal holds in force.',
    read: ({ holds }) => holds,
    cell: { card: 'proof', label: 'Legal holds', format: 'count' },
  }),
];

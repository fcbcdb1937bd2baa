/** How keys, erasures and holds fare, for operators. */
import { type Declared, gauge, seconds } from '../numbers.js';

export interface PrivacyState {
  readonly directories: number;
  /** Directories of keys that could not be written the last time. */
  readonly unreached: number;
  /** Milliseconds since 1970. */
  readonly epochBegun: number;
  readonly erased: number;
  /** Erasures that have begun and are not at their end, and when the oldest began. */
  readonly pending: number;
  readonly pendingSince: number | undefined;
  /** Erasures whose encrypted bytes the collector has not removed yet; undefined where a database has them. */
  readonly uncompacted: number | undefined;
  readonly holds: number;
}

export const PRIVACY_NUMBERS: readonly Declared<PrivacyState>[] = [
  gauge({
    name: 'collector_key_directories',
    help: 'Directories of the keys of payloads, mirrors among them.',
    read: ({ directories }) => directories,
  }),
  gauge({
    name: 'collector_key_directories_unreached',
    help: 'Of these, how many could not be written the last time.',
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
    help: 'When the epoch of the keys of payloads began.',
    read: ({ epochBegun }) => seconds(epochBegun),
    cell: { card: 'proof', label: 'Epoch of keys', format: 'instant' },
  }),
  gauge({
    name: 'collector_erased_events',
    help: 'Events whose keys were destroyed.',
    read: ({ erased }) => erased,
    cell: { card: 'proof', label: 'Erased', format: 'count', noun: ['event', 'events'] },
  }),
  gauge({
    name: 'collector_erasures_pending',
    help: 'Erasures that have begun and are not at their end.',
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
    help: 'Erasures whose encrypted bytes the collector has not removed yet from its log in files; it does so within a day.',
    read: ({ uncompacted }) => uncompacted,
  }),
  gauge({
    name: 'collector_holds',
    help: 'Legal holds that are not over.',
    read: ({ holds }) => holds,
    cell: { card: 'proof', label: 'Legal holds', format: 'count' },
  }),
];

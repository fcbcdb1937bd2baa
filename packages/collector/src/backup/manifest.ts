/**
 * `manifests/<UTC time>-<entries>.json`: what one run of `collector backup` has made sure of.
 *
 * Files of a back-up only ever grow or stay, so a manifest names each with a size and the hash of so many of its first
 * bytes, and holds as long as these stay. The hash of the manifest itself stands in it, because a flipped digit in a size
 * would else be a size. All that protects against accidents. Against a forger there is the signature on the checkpoint.
 */
import { hash } from 'node:crypto';
import { BackupDamaged } from './backup-fault.js';

/** The beginning of a file of the back-up. */
export interface Noted {
  readonly file: string;
  readonly bytes: number;
  /** Of these bytes, in hexadecimal. */
  readonly sha256: string;
}

/** The names are a promise to scripts. */
export interface Manifest {
  readonly format: 'clinical-events-backup';
  readonly version: 1;
  /** Of the collector that made it. */
  readonly tool: string;
  /** When the run began. */
  readonly time: string;
  readonly ledger_id: string;
  readonly origin: string;
  readonly events: number;
  /** How many entries there are, those of the log's own among them, and how many of them the checkpoint covers. */
  readonly entries: number;
  readonly signed_entries: number;
  /** Of the checkpoint, base64. */
  readonly root: string;
  /** When the last event was received; null when there is none. */
  readonly last_received_at: string | null;
  /** The newest signed checkpoint, and those that witnesses have cosigned by the names of their files. */
  readonly checkpoint: string;
  readonly cosigned: Readonly<Record<string, string>>;
  /** The list of all files that never change (catalogue.ts). */
  readonly catalogue: Noted;
  /** The last segment of the log. */
  readonly segment: Noted;
  readonly access_log: Noted | null;
  /** API keys: a file of the catalogue. */
  readonly keys: string | null;
  /** Private signing keys: files of the catalogue. */
  readonly signing_keys: readonly string[];
}

export const FORMAT = 'clinical-events-backup';
export const VERSION = 1;
export const CATALOGUE = 'files.sha256';
export const SEGMENT = /^ledger\/\d{16}\.segment$/;
const ACCESS_LOG = /^access-log\/\d{4}$/;
export const KEYS = /^keys\/[0-9a-f]{64}\.db$/;
export const SIGNING_KEY = /^signing-keys\/[0-9a-f]{8}\.pem$/;
const COSIGNED = /^cosigned-[0-9a-f]{8}$/;
const INSTANT = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/;
const SHA256 = /^[0-9a-f]{64}$/;
const NAME = /^(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(\d{3})Z-(\d{1,16})\.json$/;

/** What the name of a manifest says. */
export interface ManifestName {
  readonly name: string;
  /** Milliseconds since 1970 UTC. */
  readonly time: number;
  readonly entries: number;
}

export function manifestName({ time, entries }: Pick<Manifest, 'time' | 'entries'>): string {
  return `${time.replace(/[-:.]/g, '')}-${entries}.json`;
}

/** @returns undefined when a manifest has no such name. */
export function readManifestName(name: string): ManifestName | undefined {
  const found = NAME.exec(name);
  if (found === null) return undefined;
  const [, year, month, day, hour, minute, second, millisecond, entries] = found.map(Number);
  const time = Date.UTC(year ?? 0, (month ?? 0) - 1, day, hour, minute, second, millisecond);
  return { name, time, entries: entries ?? 0 };
}

/** Oldest first. A log only grows, while a clock may be put back. */
export function byAge(a: ManifestName, b: ManifestName): number {
  return a.entries - b.entries || a.time - b.time;
}

export function formatManifest(manifest: Manifest): string {
  const sha256 = hash('sha256', JSON.stringify(manifest), 'hex');
  return `${JSON.stringify({ manifest, sha256 }, undefined, 2)}\n`;
}

/**
 * @param name of its file, for messages.
 * @throws BackupDamaged when it is not as it was written; Error when a later version wrote it.
 */
export function parseManifest(text: string, name: string): Manifest {
  let manifest: unknown;
  let asWritten: string;
  try {
    manifest = (JSON.parse(text) as { manifest?: unknown } | null)?.manifest;
    asWritten = formatManifest(manifest as Manifest);
  } catch {
    // What is nested too deeply can be read, and not be written.
    throw damaged(name);
  }
  // Every byte of the file is in the comparison, so none can have changed.
  if (typeof manifest !== 'object' || manifest === null || asWritten !== text) throw damaged(name);
  if ('version' in manifest && typeof manifest.version === 'number' && manifest.version > VERSION) {
    throw new Error(`manifests/${name} was written by a later version of the collector`);
  }
  if (!isManifest(manifest) || manifestName(manifest) !== name) throw damaged(name);
  return manifest;
}

function damaged(name: string): BackupDamaged {
  return new BackupDamaged(`manifests/${name} is not as it was written`);
}

function isManifest(value: object): value is Manifest {
  const of = value as Record<keyof Manifest, unknown>;
  return (
    of.format === FORMAT &&
    of.version === VERSION &&
    [of.tool, of.time, of.ledger_id, of.origin, of.root, of.checkpoint].every(isText) &&
    [of.events, of.entries, of.signed_entries].every(isCount) &&
    (of.last_received_at === null || matches(of.last_received_at, INSTANT)) &&
    isNoted(of.catalogue, /^files\.sha256$/) &&
    isNoted(of.segment, SEGMENT) &&
    (of.access_log === null || isNoted(of.access_log, ACCESS_LOG)) &&
    (of.keys === null || matches(of.keys, KEYS)) &&
    Array.isArray(of.signing_keys) &&
    of.signing_keys.every((file) => matches(file, SIGNING_KEY)) &&
    typeof of.cosigned === 'object' &&
    of.cosigned !== null &&
    Object.entries(of.cosigned).every(([name, note]) => COSIGNED.test(name) && isText(note))
  );
}

function isNoted(value: unknown, name: RegExp): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { file, bytes, sha256 } = value as Record<keyof Noted, unknown>;
  return matches(file, name) && isCount(bytes) && matches(sha256, SHA256);
}

function matches(value: unknown, pattern: RegExp): boolean {
  return typeof value === 'string' && pattern.test(value);
}

function isText(value: unknown): boolean {
  return typeof value === 'string';
}

function isCount(value: unknown): boolean {
  return Number.isSafeInteger(value) && Number(value) >= 0;
}

/**
 * Sinks keep checkpoints outside this host. This file parses `--checkpoint-sink` and has the contract of a
 * sink.
 *
 *   dir:/mnt/worm                              a directory: each checkpoint is a new file
 *   file:/var/log/checkpoints                  a file to which each checkpoint is appended
 *   command:/opt/checkpoint-to-s3              a program that keeps each (docs/reference/sink-programs.md)
 *   https://witness.example/prefix#<vkey>      a witness (C2SP tlog-witness) and its verifier key
 *
 * Commas separate several sinks. The name of a sink appears in logs and in the state that doctor reads, so it
 * must not contain a secret.
 */
import path from 'node:path';
import type { Checkpoint } from '@clinical-events/protocol/verify';
import { noteKey, type NoteKey } from './note-signing.js';
import { showable } from './program.js';
import { Unusable } from '../unusable.js';
import { messageOf } from '../system-code.js';

/** A sink that a program serves: the operator's, or the collector's own for a directory or a file. */
export interface ProgramSinkSpec {
  readonly kind: 'directory' | 'file' | 'program';
  readonly shown: string;
  /** Path of the directory, the file or the program. */
  readonly path: string;
}

/** A configured sink. `shown` is its name for people. */
export type SinkSpec =
  | ProgramSinkSpec
  | {
      readonly kind: 'witness';
      readonly shown: string;
      /** URL without a slash at its end. */
      readonly prefix: string;
      readonly key: NoteKey;
    };

/** A checkpoint for the sinks. */
export interface Published {
  /** The signed note. */
  readonly note: string;
  readonly checkpoint: Checkpoint;
}

/** An attempt to deliver. */
export interface Attempt {
  /** Aborted when the collector ends. */
  readonly signal: AbortSignal;
  /** Size of the last checkpoint that the sink took, including earlier runs. */
  readonly delivered: number | undefined;
  /** Called by the sink if it holds a smaller checkpoint. */
  readonly lost: () => void;
}

export interface Sink {
  readonly shown: string;
  /** Whether it gets every checkpoint, or only the newest. */
  readonly wants: 'every' | 'newest';
  /**
   * On return the sink holds the checkpoint permanently. Each kind of sink has its time limit.
   * @throws {@link SinkTrouble}. The sink may still hold the checkpoint, which can be delivered again.
   */
  deliver(published: Published, attempt: Attempt): Promise<void>;
}

/**
 * Thrown if a sink did not take a checkpoint. The message gives the operator the reason and a remedy, and
 * contains no secret.
 */
export class SinkTrouble extends Error {
  override name = 'SinkTrouble';
}

/** Thrown if a checkpoint that a sink holds contradicts the ledger. */
export class SinkForked extends SinkTrouble {
  override name = 'SinkForked';
}

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/**
 * @param text the value of the option; may be empty.
 * @returns the sinks in order, with absolute paths.
 * @throws {@link Unusable}
 */
export function parseSinks(text: string): SinkSpec[] {
  if (text.trim() === '') return [];
  // An @ may end a password that contains a comma.
  const name = text.includes('@') ? schemeOf : quoted;
  const specs = text.split(',').map((part) => parseSink(part.trim(), name(part.trim())));
  const places = new Set<string>();
  for (const spec of specs) {
    // Two sinks with the same witness key would share the file of its cosignature.
    const place = spec.kind === 'witness' ? spec.key.vkey : spec.path;
    if (places.has(place)) throw new Unusable(`${spec.shown} is given twice`);
    places.add(place);
  }
  return specs;
}

/** @param named the sink in messages. */
function parseSink(part: string, named: string): SinkSpec {
  if (part === '') throw new Unusable('a sink is empty: there is a comma too many');
  const [, scheme = '', rest = ''] = /^([a-z]+):(.*)$/s.exec(part) ?? [];
  const kind = PROGRAM_KINDS.get(scheme);
  if (kind !== undefined) return programSink(kind, scheme, rest, named);
  if (scheme === 'https' || scheme === 'http') return witness(part, named);
  throw new Unusable(
    `${named} does not begin with dir:, file:, command: or https://; several sinks are separated by commas`,
  );
}

const PROGRAM_KINDS: ReadonlyMap<string, ProgramSinkSpec['kind']> = new Map([
  ['dir', 'directory'],
  ['file', 'file'],
  ['command', 'program'],
]);

function programSink(kind: ProgramSinkSpec['kind'], scheme: string, given: string, named: string): SinkSpec {
  if (given === '') throw new Unusable(`${scheme}: is not followed by a path`);
  if (given.startsWith('//')) {
    throw new Unusable(`${named} is a URL; write ${scheme}: and then the path`);
  }
  if (showable(given) !== given) {
    throw new Unusable(`the path in ${named} has a control character`);
  }
  const absolute = path.resolve(given);
  return { kind, path: absolute, shown: `${scheme}:${absolute}` };
}

function witness(part: string, named: string): SinkSpec {
  const hash = part.indexOf('#');
  const address = hash === -1 ? part : part.slice(0, hash);
  let url: URL;
  try {
    url = new URL(address);
  } catch {
    throw new Unusable(`${named} is not a URL`);
  }
  // A password in the option would appear in logs.
  if (url.username !== '' || url.password !== '') {
    throw new Unusable(`${named} contains a user name or a password, and witnesses need none`);
  }
  if (url.search !== '' || address.includes('?')) {
    throw new Unusable(`${named} contains a question mark; give the prefix before /add-checkpoint`);
  }
  if (url.protocol === 'http:' && !LOOPBACK.test(url.hostname)) {
    throw new Unusable(`${named} must be https://; http:// is for a witness on this host`);
  }
  const prefix = url.href.replace(/\/+$/, '');
  if (hash === -1 || hash === part.length - 1) {
    throw new Unusable(`${named} lacks the witness's verifier key; write ${prefix}#<name>+<id>+<key>`);
  }
  let key: NoteKey;
  try {
    key = witnessKey(part.slice(hash + 1));
  } catch (error) {
    const reason = messageOf(error);
    throw new Unusable(`the verifier key in ${named} cannot be used: ${reason}`, { cause: error });
  }
  return { kind: 'witness', prefix, key, shown: `${prefix} (${key.name})` };
}

/** Key types of cosignatures (C2SP tlog-cosignature). */
const WITNESS_KEY_TYPES = [0x04, 0x06];

function witnessKey(vkey: string): NoteKey {
  const key = noteKey(vkey);
  if (!WITNESS_KEY_TYPES.includes(key.type)) {
    throw new Unusable(`it has type ${key.type}; the key of a witness has type 4 or 6`);
  }
  // The name is shown on terminals.
  if (showable(key.name) !== key.name) throw new Unusable('its name has a control character');
  return key;
}

/** The scheme only: the rest may contain a secret. */
function schemeOf(given: string): string {
  return JSON.stringify(`${/^[a-z]{1,8}:/.exec(given)?.[0] ?? ''}...`);
}

const LONGEST_QUOTE = 120;

/** The value for a message, on one line and without parts that may be secret. */
function quoted(given: string): string {
  const harmless = given.replace(/[?#].*$/s, '');
  const short = harmless.length > LONGEST_QUOTE ? `${harmless.slice(0, LONGEST_QUOTE)}...` : harmless;
  return JSON.stringify(short);
}

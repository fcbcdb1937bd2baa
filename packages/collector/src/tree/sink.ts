/**
 * Where checkpoints go off this host: what `--checkpoint-sink` names, and what every kind of sink promises.
 *
 *   dir:/mnt/worm                              each checkpoint is a new file there
 *   file:/var/log/checkpoints                  each is appended there
 *   command:/opt/checkpoint-to-s3              a program keeps each (docs/reference/sink-programs.md)
 *   https://witness.example/prefix#<vkey>      a witness (C2SP tlog-witness); the verifier key is the witness's
 *
 * Several are separated by commas. A sink's name goes into logs and into the state that doctor reads, so nothing that
 * may be a secret can be part of one.
 */
import path from 'node:path';
import type { Checkpoint } from '@clinical-events/protocol/verify';
import { noteKey, type NoteKey } from './note-signing.js';
import { showable } from './program.js';
import { Unusable } from '../unusable.js';
import { messageOf } from '../system-code.js';

/** A sink that is a program: the operator's, or one of ours for a directory or a file. */
export interface ProgramSinkSpec {
  readonly kind: 'directory' | 'file' | 'program';
  readonly shown: string;
  /** Of the directory, the file or the program. */
  readonly path: string;
}

/** Somewhere that checkpoints go. `shown` names it to people. */
export type SinkSpec =
  | ProgramSinkSpec
  | {
      readonly kind: 'witness';
      readonly shown: string;
      /** Without a slash at its end. */
      readonly prefix: string;
      readonly key: NoteKey;
    };

/** A checkpoint on its way. */
export interface Published {
  /** The signed note. */
  readonly note: string;
  readonly checkpoint: Checkpoint;
}

/** One try to deliver. */
export interface Attempt {
  /** Aborted when the collector ends. */
  readonly signal: AbortSignal;
  /** The size of the checkpoint that the sink took last, in an earlier run too. */
  readonly delivered: number | undefined;
  /** To be called when the sink holds less than that. */
  readonly lost: () => void;
}

export interface Sink {
  readonly shown: string;
  /** Whether it is owed every checkpoint, or each time the newest. */
  readonly wants: 'every' | 'newest';
  /**
   * On return the sink holds the checkpoint for good. Settles by itself: each kind of sink has its time limit.
   * @throws {@link SinkTrouble}. The sink may hold it nonetheless, and it may be given again.
   */
  deliver(published: Published, attempt: Attempt): Promise<void>;
}

/** A sink did not take a checkpoint; the message tells an operator why and what to do, and nothing secret. */
export class SinkTrouble extends Error {
  override name = 'SinkTrouble';
}

/** What a sink holds and what the ledger holds cannot both be true. */
export class SinkForked extends SinkTrouble {
  override name = 'SinkForked';
}

const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/;

/**
 * @param text the option's value; an empty one names no sink.
 * @returns the sinks in the order given, their paths absolute.
 * @throws {@link Unusable}
 */
export function parseSinks(text: string): SinkSpec[] {
  if (text.trim() === '') return [];
  // An @ may end a password, whose other half stands in the part before a comma.
  const name = text.includes('@') ? schemeOf : quoted;
  const specs = text.split(',').map((part) => parseSink(part.trim(), name(part.trim())));
  const places = new Set<string>();
  for (const spec of specs) {
    // Two that share a witness's key would share the file of its cosignature as well.
    const place = spec.kind === 'witness' ? spec.key.vkey : spec.path;
    if (places.has(place)) throw new Unusable(`${spec.shown} is given twice`);
    places.add(place);
  }
  return specs;
}

/** @param named the sink, for messages. */
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
  // Witnesses ask for no password. One in the option would end up in logs.
  if (url.username !== '' || url.password !== '') {
    throw new Unusable(`${named} has a user name or a password in it, and a witness asks for none`);
  }
  if (url.search !== '' || address.includes('?')) {
    throw new Unusable(`${named} has a question mark in it; give the prefix that add-checkpoint goes behind`);
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
    throw new Unusable(`the verifier key behind ${named} cannot be used: ${reason}`, { cause: error });
  }
  return { kind: 'witness', prefix, key, shown: `${prefix} (${key.name})` };
}

/** Signs checkpoints, with the time at which it saw them (C2SP tlog-cosignature). */
const WITNESS_KEY_TYPES = [0x04, 0x06];

function witnessKey(vkey: string): NoteKey {
  const key = noteKey(vkey);
  if (!WITNESS_KEY_TYPES.includes(key.type)) {
    throw new Unusable(`it is of type ${key.type}, and that of a witness is of type 4 or 6`);
  }
  // The name is shown on terminals.
  if (showable(key.name) !== key.name) throw new Unusable('its name has a control character');
  return key;
}

/** As much of what was given as cannot be a secret. */
function schemeOf(given: string): string {
  return JSON.stringify(`${/^[a-z]{1,8}:/.exec(given)?.[0] ?? ''}...`);
}

const LONGEST_QUOTE = 120;

/** What was given, for a message: without what may be a secret, on one line. */
function quoted(given: string): string {
  const harmless = given.replace(/[?#].*$/s, '');
  const short = harmless.length > LONGEST_QUOTE ? `${harmless.slice(0, LONGEST_QUOTE)}...` : harmless;
  return JSON.stringify(short);
}

/** `collector signing-key`: shows and rotates the key that signs checkpoints, also while a collector runs. */
import { keyIdText } from '@clinical-events/protocol/verify';
import type { Config } from '../config.js';
import { exists } from '../files.js';
import type { NoteKey } from '../tree/note-signing.js';
import {
  escrowNotice,
  type KeyHistory,
  originKeyPath,
  readHistory,
  rotationPath,
  PrivateKeys,
  SigningKeyFault,
  signingProgram,
} from '../tree/key-files.js';
import { SigningKeys } from '../tree/signing-keys.js';
import { isShared } from '../store/open.js';
import { type OpenSharedStore, openSharedStore } from '../store/open-to-read.js';
import { logAct } from './access-log.js';
import { CommandFailure, EXIT, type ExitCode, usage } from './exit-codes.js';
import { overlapFrom } from './arguments.js';
import { defineCommand } from './define.js';
import { jsonText } from './terminal.js';
import { instant } from '../quantity.js';

const EXIT_CODES: Readonly<Record<SigningKeyFault['reason'], ExitCode>> = {
  'no-log': EXIT.notFound,
  'seal-missing': EXIT.usage,
  'key-missing': EXIT.notFound,
  broken: EXIT.damaged,
  overlapping: EXIT.usage,
  overtaken: EXIT.failure,
};

const SHOW_EXAMPLES = `  $ collector signing-key show
  $ collector signing-key show --json | jq -r .key > log.vkey

The verifier key is public. Give it to everyone who will check checkpoints and proofs, over a trusted channel
that does not pass through this host. Rotation notes lead from an earlier key to the newest.

Exit codes: 6 there is no log yet, 3 the keys and the rotation notes are inconsistent.`;

const ROTATE_EXAMPLES = `  $ collector signing-key rotate
  $ collector signing-key rotate --overlap 90d
  $ collector signing-key rotate --overlap 0     # the old key may be compromised and must not sign again

During the overlap both keys sign, so that verifiers with only the old one have time to follow the rotation
note. The old private key is destroyed with the first checkpoint after it. During an overlap the only rotation
allowed is one with --overlap 0, which ends the overlap.

With --store, run it as the role of the collectors: the log's public keys are in the database. A key that a
program manages (--signing-keys command:PROGRAM) cannot be rotated.

Exit codes: 6 there is no log yet, or its private key is missing; 2 an earlier rotation's overlap has not
ended; 1 another rotation came first; 3 the keys and the rotation notes are inconsistent.`;

interface RotateOptions {
  readonly overlap: string;
  readonly json?: true;
}

interface EarlierKey {
  readonly key: NoteKey;
  readonly until: number;
  readonly note: string;
}

/**
 * Runs `work` once the data directory has the public keys, which a log in a database keeps in the database.
 */
async function withPublicKeys(
  config: Config,
  work: (shared?: OpenSharedStore) => string | Promise<string>,
  makes = false,
): Promise<void> {
  if (!isShared(config)) {
    process.stdout.write(await work());
    return;
  }
  const shared = await openSharedStore(config);
  try {
    if (makes && !(await shared.publicKeys.mayAdd()))
      throw new CommandFailure(
        'this role may not add a key to the log; nothing was changed: rotate as the role of the collectors',
        EXIT.failure,
      );
    await shared.publicKeys.pull(config.dataDir);
    process.stdout.write(await work(shared));
  } finally {
    await shared.close();
  }
}

/** Turns a fault of the keys into a failure of the command. */
function reporting<Result>(config: Config, work: () => Result): Result {
  if (!exists(config.dataDir)) {
    throw new CommandFailure(`there is no data directory at ${config.dataDir}`, EXIT.notFound);
  }
  try {
    return work();
  } catch (error) {
    if (!(error instanceof SigningKeyFault)) throw error;
    const hint = error.reason === 'no-log' ? ': run "collector serve" first, which creates one' : '';
    throw new CommandFailure(error.message + hint, EXIT_CODES[error.reason], { cause: error });
  }
}

function earlierKeys({ keys, until }: KeyHistory, config: Config): EarlierKey[] {
  return until.flatMap((each, at) => {
    const key = keys[at];
    return key === undefined ? [] : [{ key, until: each, note: rotationPath(config.dataDir, at + 1) }];
  });
}

function show(options: { readonly json?: true }, config: Config): string {
  const history = reporting(config, () => readHistory(config.dataDir));
  const { origin, current } = history;
  const earlier = earlierKeys(history, config);
  const program = signingProgram(config.signingKeys);
  const file = program === undefined ? new PrivateKeys(config.signingKeys).pathOf(current) : undefined;
  const there = file !== undefined && exists(file);
  if (options.json) {
    return jsonText({
      origin,
      key: current.vkey,
      key_id: keyIdText(current.keyId),
      key_file: file ?? null,
      key_file_exists: file === undefined ? null : there,
      signing_command: program ?? null,
      first_key_file: originKeyPath(config.dataDir),
      earlier: earlier.map(({ key, until, note }) => ({
        key: key.vkey,
        key_id: keyIdText(key.keyId),
        signs_until: instant(until),
        rotation_note: note,
      })),
    });
  }
  const place = file === undefined ? `managed by ${program}` : there ? file : `${file} (missing)`;
  const texts = earlier.map(
    ({ key, until, note }) => `
Earlier key:   ${key.vkey}
Signs until:   ${instant(until)}
Rotation note: ${note}
`,
  );
  return `Origin:        ${origin}
Verifier key:  ${current.vkey}
Private key:   ${place}
First key:     ${originKeyPath(config.dataDir)}
${texts.join('')}`;
}

/**
 * Rotates the key and records the new one in the access log and, for a log in a database, in the database.
 */
async function rotate(options: RotateOptions, config: Config, shared?: OpenSharedStore): Promise<string> {
  const now = Date.now();
  const overlapMs = overlapFrom(options.overlap, now);
  const program = signingProgram(config.signingKeys);
  if (program !== undefined) {
    throw usage(
      `the key is managed by ${program} and must be rotated there; a log cannot follow such a rotation`,
    );
  }
  const { current } = reporting(config, () => readHistory(config.dataDir));
  const filter = { key_id: keyIdText(current.keyId), overlap: options.overlap };
  const { key, before, until, keyFile, note } = await logAct(
    shared?.accessLog ?? config.dataDir,
    { command: 'signing-key rotate', filter },
    async (logged) => {
      const rotated = reporting(config, () =>
        SigningKeys.rotate({
          dataDir: config.dataDir,
          directory: config.signingKeys,
          overlapMs,
          now: () => now,
        }),
      );
      await shared?.publicKeys.push(config.dataDir);
      Object.assign(logged, { complete: true, done: { key_id: keyIdText(rotated.key.keyId) } });
      return rotated;
    },
  );
  if (options.json) {
    return jsonText({
      origin: key.name,
      key: key.vkey,
      key_id: keyIdText(key.keyId),
      key_file: keyFile,
      rotated_from: before.vkey,
      old_key_signs_until: instant(until),
      rotation_note: note,
    });
  }
  const oldId = keyIdText(before.keyId);
  const oldEnds = overlapMs === 0 ? 'no longer signs' : `also signs until ${instant(until)}`;
  return `Key ${keyIdText(key.keyId)} replaces ${oldId}, which ${oldEnds}.
A running collector uses it from its next checkpoint on.

Verifier key:   ${key.vkey}
Rotation note:  ${note}
Private key:    ${keyFile}

Give the rotation note to anyone who checks this log; the first key and the notes lead to every later key.
${escrowNotice(config)}`;
}

const showing = defineCommand<{ readonly json?: true }>({
  name: 'show',
  description: 'Show the public keys that verify checkpoints.',
  options: { '--json': 'print them as one JSON object' },
  configuration: 'signing-key',
  examples: SHOW_EXAMPLES,
  run({ options, config }) {
    const settings = config();
    return withPublicKeys(settings, () => show(options, settings));
  },
});

const rotating = defineCommand<RotateOptions>({
  name: 'rotate',
  description: 'Make a new signing key, and a note signed by both keys that verifiers can follow.',
  options: {
    '--overlap <time>': { help: 'how long the old key also signs', default: '30d' },
    '--json': 'print the new key as one JSON object',
  },
  configuration: 'signing-key',
  examples: ROTATE_EXAMPLES,
  run({ options, config }) {
    const settings = config();
    return withPublicKeys(settings, (shared) => rotate(options, settings, shared), true);
  },
});

export const command = defineCommand({
  name: 'signing-key',
  description: 'Show and rotate the key that signs checkpoints. A running collector follows.',
  commands: [showing, rotating],
});

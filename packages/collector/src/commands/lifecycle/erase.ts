/** `collector erase`: makes a plan for review, and applies it by destroying the keys of the marked events. */
import fs from 'node:fs';
import path from 'node:path';
import { REASONS } from '../../privacy/actions.js';
import { systemCode } from '../../system-code.js';
import { createDurably } from '../../files.js';
import { logAccess } from '../access-log.js';
import { idFrom, idsIn, newPlaceFrom, organisationFrom, runIdFrom, wordFrom } from '../arguments.js';
import { openCatalogue } from '../catalogue.js';
import { type Call, defineCommand } from '../define.js';
import { CommandFailure, EXIT, type ExitCode, interruption, usage } from '../exit-codes.js';
import { assertReadable } from '../regular-files.js';
import { applyPlan, checkPlan } from './apply.js';
import { certificateIn } from './certificate.js';
import { compacted, isErased } from './delivery.js';
import { type ErasureOptions, printCertificate, showErasures } from './erasures.js';
import { planFile, planTable, planText } from './plan-file.js';
import { type Asked, makePlan } from './planning.js';

const EXAMPLES = `  $ collector erase plan --subject-file subject.txt --out plan.json
  $ collector erase apply plan.json --check
  $ collector erase apply plan.json --reason erasure-request --case DSR-2026/114
  $ collector erase --list
  $ collector erase --certificate 4c1d7f0a-93be-4f5e-8a3e-5d1f6f0c2b11

A plan reads the log and erases nothing. It lists every event that could be erased with the reason, the person
its run is about, and anything that keeps it. A reviewer may change its marks. Applying the plan destroys the
keys of the marked events in every key directory and prints the certificate. The encrypted bytes are removed
within a day, together with those of other erasures, or immediately with --wait. Neither the log nor its
back-ups can restore erased events; copies of the keys that were made by other means can decrypt them until
these copies are destroyed.

Exit codes: 0 erased, 10 something has changed since the plan was made: plan again, 9 begun but not complete
because a key directory cannot be reached, or with --wait a segment cannot be compacted, 8 a floor of the
retention policy forbids all of it, 7 erased except events that a floor keeps or that were stored unencrypted,
6 there is nothing to erase.`;

const PLAN_EXAMPLES = `  $ collector erase plan --subject-file - --out plan.json
  $ collector erase plan --subject-file subject.txt --organisation icu --mentions --out plan.json
  $ collector erase plan --run 0b2c5a3e --out plan.json
  $ collector erase plan --late 4c1d7f0a-93be-4f5e-8a3e-5d1f6f0c2b11 --out plan.json
  $ collector erase plan --certificate certificate.json --out plan.json

Give the ids of a person in a file, one per line, or on standard input (-): other users of this host can see
the argument list. They are compared exactly with target_id and caller_id of every start. Runs that are only
about this person are marked; for other runs the plan states why they are not. --mentions searches every
payload for the ids.

--late plans events that arrived for runs after an action had erased them. --certificate plans the events
named in certificates (JSON) again, for a log that was restored from an older back-up.

The plan is private and personal data: delete it after use.`;

interface PlanOptions {
  readonly subjectFile?: string;
  readonly run?: string[];
  readonly event?: string[];
  readonly late?: string;
  readonly certificate?: string[];
  readonly organisation?: string;
  readonly mentions?: true;
  readonly by?: string;
  readonly out?: string;
}

interface ApplyOptions {
  readonly reason?: string;
  readonly case?: string;
  readonly by?: string;
  readonly overrideFloor?: true;
  readonly incomplete?: true;
  readonly check?: true;
  readonly wait?: true;
  readonly json?: true;
}

const plan = defineCommand<PlanOptions>({
  name: 'plan',
  description: 'List the events that could be erased, for review. Erases nothing.',
  options: {
    '--subject-file <file>': 'file with the ids of a person, one per line; - for standard input',
    '--run <id>': { help: 'a run; repeatable', isRepeatable: true },
    '--event <id>': { help: 'an event; repeatable', isRepeatable: true },
    '--late <action>': 'events that arrived for runs after this action had erased them',
    '--certificate <file>': {
      help: 'the events named in a certificate (JSON); repeatable',
      isRepeatable: true,
    },
    '--organisation <name>': 'only within this organisation',
    '--mentions': 'search every payload for the ids',
    '--by <name>': 'name of the person who plans it, if the system knows no login user',
    '--out <file>': '(required) new file for the plan',
  },
  ...{ configuration: 'lifecycle', examples: PLAN_EXAMPLES, hidesArguments: true },
  run: ({ options, config }) => planErasure(config().dataDir, options),
});

const apply = defineCommand<ApplyOptions>({
  name: 'apply',
  description: 'Destroy the keys of the events that a plan marks.',
  arguments: { '<plan>': 'file written by "erase plan"' },
  options: {
    '--reason <word>': `(required) reason: ${REASONS.slice(1).join(', ')}`,
    '--case <reference>': '(required) reference of the case, for the certificate',
    '--by <name>': 'name of the person who applies it, if the system knows no login user',
    '--override-floor': 'erase events that a floor keeps, for a reason that overrides floors',
    '--incomplete': 'apply a plan although payloads could not be decrypted',
    '--wait': 'also wait until the encrypted bytes are removed from the data directory',
    '--check': 'print the plan with its marks, its hashes and its author; erases nothing',
    '--json': 'print the certificate as one JSON object',
  },
  ...{ configuration: 'lifecycle', examples: EXAMPLES, hidesArguments: true },
  run: ({ options, config }, file = '') => applyErasure(file, options, config),
});

export const command = defineCommand<ErasureOptions>({
  name: 'erase',
  description: 'Erase events by destroying their keys, in two steps: plan and apply.',
  options: {
    '--list': 'list erasures, holds, policies and key epochs, oldest first',
    '--certificate <action>': 'print the certificate of an erasure as of now',
    '--access-log <file>': {
      help: 'with --certificate: closed file of the access log that was moved elsewhere; repeatable',
      isRepeatable: true,
    },
    '--json': 'print JSON; with --list one object per line',
  },
  ...{ configuration: 'lifecycle', examples: EXAMPLES, commands: [plan, apply] },
  run: ({ options, config }) => showErasures(options, config),
});

async function planErasure(dataDir: string, options: PlanOptions): Promise<void> {
  const { subjectFile, run, event, late, certificate, organisation, mentions, by, out } = options;
  const given = [subjectFile, run, event, late, certificate].filter((each) => each !== undefined).length;
  if (given !== 1) throw usage('give one of --subject-file, --run, --event, --late and --certificate');
  if (mentions && subjectFile === undefined) throw usage('--mentions: requires --subject-file');
  if (organisation !== undefined && (late !== undefined || certificate !== undefined))
    throw usage('--organisation: requires --subject-file, --run or --event');
  if (out === undefined) throw usage('--out: give a file for the plan');
  assertName(by);
  const file = planPlaceFrom(out);
  const asked: Asked = {
    runs: run?.map((id) => runIdFrom('--run', id).id.replaceAll('-', '')),
    events: event?.map((id) => idFrom('--event', id)),
    late: late === undefined ? undefined : idFrom('--late', late),
    organisation: organisation === undefined ? undefined : organisationFrom(organisation),
    mentions: mentions === true,
    subjects: subjectFile === undefined ? undefined : idsIn('--subject-file', subjectFile),
    certificates: certificate?.map(readCertificate),
  };
  assertReadable(dataDir);
  const more = { ...(by !== undefined && { by }) };
  const certificates = asked.certificates?.map(({ action }) => action);
  const filter = { subjects: asked.subjects?.length, run, event, late, certificates, organisation, mentions };
  const reading = logAccess(dataDir, { command: 'erase plan', filter, ...more });
  // Signals are handled only after standard input was read: a handler would prevent them from ending that
  // read.
  const plan = planFile(await makePlan(dataDir, asked, interruption()));
  reading.complete = true;
  reading.events = plan.plan.events.length;
  if (plan.plan.events.length === 0) {
    process.stdout.write(planTable(plan));
    const late = plan.plan.late.length > 0 ? ' except late events (see above)' : '';
    throw new CommandFailure(`there is nothing to erase in ${dataDir}${late}`, EXIT.notFound);
  }
  // This line records who made the plan.
  const act = { command: 'erase plan', filter: { ...filter, plan: plan.sha256 }, isAct: true, ...more };
  const written = logAccess(dataDir, act);
  createDurably(file, planText(plan));
  written.complete = true;
  process.stdout.write(planTable(plan));
}

/** @throws CommandFailure */
function readCertificate(file: string): ReturnType<typeof certificateIn> {
  try {
    return certificateIn(fs.readFileSync(file), file);
  } catch (error) {
    const code = error instanceof CommandFailure ? undefined : systemCode(error);
    throw code === undefined ? error : usage(`--certificate: ${file} cannot be read (${code})`);
  }
}

/** Checks, before the log is read, that the plan can be written. @throws CommandFailure if it cannot. */
function planPlaceFrom(text: string): string {
  const out = newPlaceFrom(text);
  try {
    fs.accessSync(path.dirname(out), fs.constants.W_OK);
    return out;
  } catch (error) {
    throw usage(`--out: ${out} cannot be written (${systemCode(error) ?? 'UNKNOWN'})`);
  }
}

const CASE = /^[A-Za-z0-9._/-]{1,64}$/;
const NAME = /^[\p{L}\p{N}\p{P}\p{Zs}]{1,128}$/u;

/** @throws CommandFailure */
function assertName(by: string | undefined): void {
  if (by !== undefined && !NAME.test(by)) throw usage('--by: give a name of 1 to 128 characters');
}

async function applyErasure(
  file: string,
  options: ApplyOptions,
  configOf: Call['config'],
): Promise<ExitCode> {
  const { reason, case: reference, by, check, wait, json } = options;
  if (check) {
    process.stdout.write(await checkPlan(configOf().dataDir, file));
    return EXIT.ok;
  }
  const words = REASONS.slice(1);
  if (reason === undefined) throw usage(`--reason: give one of ${words.join(', ')}`);
  const why = wordFrom('--reason', reason, words);
  if (reference === undefined || !CASE.test(reference))
    throw usage('--case: give the reference of the case, 1 to 64 of A-Z a-z 0-9 . _ / -');
  assertName(by);
  const config = configOf();
  const { dataDir } = config;
  const asked = { ...options, reason: why, case: reference };
  const { action, erased, left } = await applyPlan(config, file, asked);
  // Updating the catalogue removes the data derived from the erased events.
  const signal = new AbortController().signal;
  await (await openCatalogue({ dataDir, quiet: !process.stderr.isTTY, signal })).close();
  if (wait) await compacted(dataDir, action);
  const bytesLeft = await printCertificate(dataDir, action, json === true);
  if (wait && bytesLeft > 0) return EXIT.pending;
  return (await isErased(dataDir, erased)) && left === 0 ? EXIT.ok : EXIT.partly;
}

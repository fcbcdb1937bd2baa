/** `collector erase`: a plan of what may be erased is made, reviewed, and applied: the keys of its events are destroyed. */
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

A plan reads the log and erases nothing. It lists every event that may be erased, why, about whom its run is, and what keeps
it. A person reviews it and may change its marks. To apply it destroys the keys of what is marked, in every directory of keys,
and prints the certificate. The encrypted bytes are removed within a day, for all erasures of that day together, or at once
by --wait. The log and its back-ups do not bring back what is erased; copies of the keys that were made
elsewhere can open it until they are destroyed.

Exit codes: 0 erased, 10 something has changed since it was planned: plan again, 9 begun and not at its end because a directory
of keys cannot be reached, or with --wait a segment cannot be compacted, 8 a floor of the retention policy forbids all of it, 7 erased but for events that a floor keeps or
that were stored in the clear, 6 there is nothing to erase.`;

const PLAN_EXAMPLES = `  $ collector erase plan --subject-file - --out plan.json
  $ collector erase plan --subject-file subject.txt --organisation icu --mentions --out plan.json
  $ collector erase plan --run 0b2c5a3e --out plan.json
  $ collector erase plan --late 4c1d7f0a-93be-4f5e-8a3e-5d1f6f0c2b11 --out plan.json
  $ collector erase plan --certificate certificate.json --out plan.json

The ids of a person go into a file, one a line, or to standard input (-): in a list of arguments other users of this host
could see them. They are compared with target_id and caller_id of every start, exactly. Marked are the runs that are about this
person and about no other; for each other run the plan gives the reason. --mentions searches every payload for the ids.

--late plans what came for runs after an action had erased these whole. --certificate plans again what certificates (JSON) name,
for a log that was restored from before them.

The file is for its owner alone, and personal data: delete it after use.`;

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
  description: 'List what may be erased, for review; nothing is erased.',
  options: {
    '--subject-file <file>': 'ids of a person, one a line; - for standard input',
    '--run <id>': { help: 'a run; may be given several times', isRepeatable: true },
    '--event <id>': { help: 'an event; may be given several times', isRepeatable: true },
    '--late <action>': 'what came for runs after this action had erased them',
    '--certificate <file>': {
      help: 'what a certificate (JSON) names; may be given several times',
      isRepeatable: true,
    },
    '--organisation <name>': 'of this organisation alone',
    '--mentions': 'search every payload for the ids',
    '--by <name>': 'who plans it, where the system knows no login user',
    '--out <file>': 'where the plan is written; no file is replaced',
  },
  ...{ configuration: 'lifecycle', examples: PLAN_EXAMPLES, hidesArguments: true },
  run: ({ options, config }) => planErasure(config().dataDir, options),
});

const apply = defineCommand<ApplyOptions>({
  name: 'apply',
  description: 'Destroy the keys of the events that a plan marks.',
  arguments: { '<plan>': 'the file that "erase plan" wrote' },
  options: {
    '--reason <word>': `why: ${REASONS.slice(1).join(', ')}`,
    '--case <reference>': 'the reference of the case, for the certificate',
    '--by <name>': 'who applies it, where the system knows no login user',
    '--override-floor': 'erase what a floor of the policy keeps, for a reason to which floors yield',
    '--incomplete': 'apply a plan for which payloads could not be opened',
    '--wait': 'end when the encrypted bytes are removed from the data directory too',
    '--check': 'print the plan as it is marked, its hashes and who planned it; nothing is erased',
    '--json': 'print the certificate as one JSON object',
  },
  ...{ configuration: 'lifecycle', examples: EXAMPLES, hidesArguments: true },
  run: ({ options, config }, file = '') => applyErasure(file, options, config),
});

export const command = defineCommand<ErasureOptions>({
  name: 'erase',
  description: 'Destroy the keys of events, so that no directory of keys opens their payloads any more.',
  options: {
    '--list': 'list erasures, holds, policies and epochs of keys, the oldest first',
    '--certificate <action>': 'print the certificate of an erasure, as it stands now',
    '--json': 'print JSON: with --list one object a line',
  },
  ...{ configuration: 'lifecycle', examples: EXAMPLES, commands: [plan, apply] },
  run: ({ options, config }) => showErasures(options, config),
});

async function planErasure(dataDir: string, options: PlanOptions): Promise<void> {
  const { subjectFile, run, event, late, certificate, organisation, mentions, by, out } = options;
  const given = [subjectFile, run, event, late, certificate].filter((each) => each !== undefined).length;
  if (given !== 1)
    throw usage(
      'say what is to be erased by one of --subject-file, --run, --event, --late and --certificate',
    );
  if (mentions && subjectFile === undefined)
    throw usage('--mentions: searches for the ids of --subject-file');
  if (organisation !== undefined && (late !== undefined || certificate !== undefined))
    throw usage('--organisation: goes with --subject-file, --run and --event');
  if (out === undefined) throw usage('--out: say where the plan is to be written');
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
  // Only now: what reads standard input is ended by the signal itself.
  const plan = planFile(await makePlan(dataDir, asked, interruption()));
  reading.complete = true;
  reading.events = plan.plan.events.length;
  if (plan.plan.events.length === 0) {
    process.stdout.write(planTable(plan));
    const late = plan.plan.late.length > 0 ? ', but for what came late (see above)' : '';
    throw new CommandFailure(`there is nothing to erase in ${dataDir}${late}`, EXIT.notFound);
  }
  // By this line it is known who planned it.
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

/** @throws CommandFailure before the log is read for a plan that could not be written. */
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
  // What was derived from what is erased goes with it.
  const signal = new AbortController().signal;
  await (await openCatalogue({ dataDir, quiet: !process.stderr.isTTY, signal })).close();
  if (wait) await compacted(dataDir, action);
  const bytesLeft = await printCertificate(dataDir, action, json === true);
  if (wait && bytesLeft > 0) return EXIT.pending;
  return (await isErased(dataDir, erased)) && left === 0 ? EXIT.ok : EXIT.partly;
}

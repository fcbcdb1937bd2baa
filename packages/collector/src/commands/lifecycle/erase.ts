/** `collector erase`: destroys the keys of events, for good and in every copy of the log. */
import { createInterface } from 'node:readline/promises';
import { randomUUID } from 'node:crypto';
import { Command } from 'commander';
import type { Config } from '../../config.js';
import type { LifecycleRequest } from '../../ledger/lifecycle.js';
import { type Actions, eventsOf, REASONS, type Reason } from '../../privacy/actions.js';
import { untilText } from '../../privacy/retention-policy.js';
import { SequenceSet } from '../../privacy/sequence-set.js';
import { aboutBytes, counted } from '../../quantity.js';
import type { EventLog } from '../../store/contract/events.js';
import { logAccess } from '../access-log.js';
import { addConfigOptions, idFrom, idsIn, runIdFrom, wordFrom } from '../arguments.js';
import { usage, interruption, EXIT, CommandFailure } from '../exit-codes.js';
import { openCatalogue, type CatalogueAccess } from '../catalogue.js';
import { assertReadable } from '../regular-files.js';
import { alignedTable, printableJson, ProgressBar } from '../terminal.js';
import { collect } from '../verify/trusted-keys.js';
import { certificateOf, certificateText } from './certificate.js';
import { assertCollectorRuns, considered, deliver, isErased, lifecycleConfigOf } from './delivery.js';
import { Holds, holdsOf } from './holds.js';
import { compactNow, floorsOf, wonText } from './retention.js';
import { erasable, select, type Erasable, type SelectedEvent, type Selection } from './selection.js';
import { mentions } from './mentions.js';

const EXAMPLES = `
Examples:
  $ collector erase --subject-file - --reason erasure-request --dry-run
  $ collector erase --subject-file subject.txt --reason erasure-request
  $ collector erase --again 4c1d7f0a-93be-4f5e-8a3e-5d1f6f0c2b11 --reason erasure-request
  $ collector erase --run 0b2c5a3e --reason sent-in-error
  $ collector erase --event 018f6f6e-8c2b-7cc0-9f6e-2f1d3a4b5c6d --reason test-data --confirm 1
  $ collector erase --run 0b2c5a3e --reason sent-in-error --data-dir /var/lib/mirror --store postgres://collector_officer@db1,db2/collector

The ids of a person go into a file, one a line, or to standard input (-): in a list of arguments other users of this host
could see them. They are those that senders write as target_id; several ids of one person are given together. Without an
id: --run, with what "collector runs" prints, and --event.

What comes late for a run whose start is erased names no person that it could be found by: --again, with the id of the
action that the certificate names, finds it.

--dry-run says what would be erased and changes nothing. Without it the number of events has to be typed, or given by
--confirm: what is erased cannot be brought back, from no back-up. --anywhere also reads every payload for the ids, which
takes a minute and a half for 10 million events; --and-mentions erases the events in which it finds them.

The collector that runs on the data directory does the work; where none runs, start "collector serve --no-listen". On a mirror
of a log in PostgreSQL give --store as well: the collectors of the log do it, and the mirror follows. It ends with a certificate (see also "collector
actions certificate"). Runs that are nested in an erased one are erased when they are about the same subject, else listed.

Exit codes: 0 erased, 9 begun and not at its end because a directory of keys cannot be reached, 8 a hold or a floor of the
retention policy forbids it, 7 erased but for events that were stored in the clear or are held, 6 there is nothing to erase.`;

interface EraseOptions {
  readonly subjectFile?: string;
  readonly run?: string[];
  readonly event?: string[];
  readonly again?: string;
  readonly reason?: string;
  readonly dryRun?: true;
  readonly confirm?: string;
  readonly anywhere?: true;
  readonly andMentions?: true;
  readonly leaveHeld?: true;
  readonly compact?: true;
  readonly json?: true;
}

export function command(): Command {
  const erase = new Command('erase')
    .description('Destroy the keys of events, so that their payloads can never be read again.')
    .option('--subject-file <file>', 'ids of a person, one a line; - for standard input')
    .option('--run <id>', 'a run; may be given several times', collect)
    .option('--event <id>', 'an event; may be given several times', collect)
    .option('--again <action>', 'what has come since to the runs that an erasure was about')
    .option('--reason <word>', `why: ${REASONS.slice(1).join(', ')}`)
    .option('--dry-run', 'say what would be erased, and change nothing')
    .option('--confirm <number>', 'how many events are to be erased, in place of a question')
    .option('--anywhere', 'look for the ids in every payload')
    .option('--and-mentions', 'erase the events in which --anywhere finds them')
    .option('--leave-held', 'erase what no hold and no floor of the policy forbids, and leave the rest')
    .option('--compact', 'give the room of what is erased back at once')
    .option('--json', 'print it as one JSON object');
  return addConfigOptions(erase, 'lifecycle')
    .addHelpText('after', EXAMPLES)
    .action(async (options: EraseOptions, self: Command) => {
      process.title = 'collector erase';
      process.exitCode = await new Erasure(lifecycleConfigOf(self), options).run();
    });
}

class Erasure {
  readonly #signal: AbortSignal;
  readonly #subjects: readonly string[];
  readonly #reason: Reason;
  readonly #action = randomUUID();
  readonly #events: readonly string[];
  readonly #again: string | undefined;

  constructor(
    private readonly config: Config,
    private readonly options: EraseOptions,
  ) {
    const { subjectFile, run, event, again, reason, anywhere, andMentions } = options;
    if ([subjectFile, run, event, again].every((each) => each === undefined))
      throw usage('say what is to be erased: --subject-file, --run, --event or --again');
    if (reason === undefined) throw usage(`--reason: give one of ${REASONS.slice(1).join(', ')}`);
    this.#reason = wordFrom('--reason', reason, REASONS.slice(1));
    if (anywhere && subjectFile === undefined) throw usage('--anywhere: looks for the ids of --subject-file');
    if (andMentions && !anywhere) throw usage('--and-mentions: goes with --anywhere');
    this.#events = (event ?? []).map((id) => idFrom('--event', id));
    this.#again = again === undefined ? undefined : idFrom('--again', again);
    // What is none may be a person's, and is written down nowhere.
    for (const id of run ?? []) runIdFrom('--run', id);
    this.#subjects = subjectFile === undefined ? [] : idsIn('--subject-file', subjectFile);
    // Only now: what reads standard input is ended by the signal itself.
    this.#signal = interruption();
  }

  async run(): Promise<number> {
    const { dataDir } = this.config;
    const { options } = this;
    assertReadable(dataDir);
    const { run, event, again, reason, dryRun } = options;
    if (!dryRun) assertCollectorRuns(this.config);
    const filter = {
      ...{ subjects: this.#subjects.length || undefined, run, event, again, reason },
      ...(dryRun ? { dry_run: dryRun } : { action: this.#action }),
    };
    const access = logAccess(dataDir, { command: 'erase', filter, isAct: !dryRun });
    const catalogue = await this.#openCatalogue();
    let plan: Plan;
    try {
      plan = await this.#plan(catalogue);
    } finally {
      // Closed before anything is erased: while it is open, its journal keeps the names of what goes.
      await catalogue.close();
    }
    access.complete = true;
    const isForbidden = plan.held.size + plan.floors.size > 0;
    if (dryRun || plan.events.length === 0 || (isForbidden && !options.leaveHeld)) {
      process.stdout.write(this.#told(plan));
      const why = this.#whyNothing(plan);
      if (why !== undefined) throw why;
      return EXIT.ok;
    }
    if (options.confirm === undefined) process.stderr.write(this.#told(plan));
    await this.#confirm(plan.events.length);
    return this.#erase(plan);
  }

  /** Undefined when it is only said what would be erased. */
  #whyNothing({ events, plain, held, floors, mentioned }: Plan): CommandFailure | undefined {
    const { dryRun } = this.options;
    const nothing = dryRun ? '' : 'nothing was erased: ';
    if (held.size + floors.size > 0) {
      const how =
        events.length === 0 ? 'all of it' : `some of it${dryRun ? '' : '; --leave-held erases the rest'}`;
      return new CommandFailure(`${nothing}a hold or a floor of the policy forbids ${how}`, EXIT.refused);
    }
    if (events.length > 0) return undefined;
    if (plain > 0)
      return new CommandFailure(`${nothing}it was stored in the clear, without a key`, EXIT.partly);
    const what =
      mentioned !== undefined && mentioned.length > 0
        ? 'nothing is about it: its id stands in events of others alone'
        : `there is nothing to erase in ${this.config.dataDir}`;
    return new CommandFailure(what, EXIT.notFound);
  }

  #openCatalogue(signal = this.#signal): Promise<CatalogueAccess> {
    const { dataDir } = this.config;
    return openCatalogue({ dataDir, quiet: !process.stderr.isTTY, signal });
  }

  async #plan(access: CatalogueAccess): Promise<Plan> {
    const { run = [] } = this.options;
    const { log } = access;
    const actions = log.actions?.();
    if (actions === undefined) throw usage('payloads of this log are not encrypted');
    const ofRuns = this.#again === undefined ? SequenceSet.EMPTY : eventsErasedBy(actions, this.#again);
    const asked = { subjects: this.#subjects, runs: run, events: this.#events, ofRuns };
    // What begins from here on, while it is planned or confirmed, was not considered.
    const byNow = considered(actions);
    const selection = await access.ask((catalogue) => select(catalogue, log, asked, this.config.dataDir));
    const mentioned = this.options.anywhere ? await this.#mentions(access, selection) : undefined;
    const wanted = this.options.andMentions ? [...selection.events, ...(mentioned ?? [])] : selection.events;
    const { free, held, floors } = await this.#judge(log, actions, wanted);
    return {
      considered: byNow,
      ...selection,
      ...erasable(log, free),
      mentioned: mentioned?.map(({ sequence }) => sequence),
      held,
      floors,
    };
  }

  /** What may be erased, and by which holds and until when by which floors the rest may not. */
  async #judge(log: EventLog, actions: Actions, wanted: readonly SelectedEvent[]) {
    const runs = new Map(wanted.flatMap(({ run }) => (run === undefined ? [] : [[run.row, run] as const])));
    const holds = await Holds.of(holdsOf(this.config.dataDir, actions), log, () => runs.values());
    const floorOf = floorsOf(log);
    const { retired } = actions;
    const held = new Map<string, number>();
    const floors = new Map<string, number>();
    const free = wanted.filter((event) => {
      if (retired.has(event.sequence)) return true;
      const names = holds.on(event.organisation, event.run, event.sequence);
      for (const name of names) held.set(name, (held.get(name) ?? 0) + 1);
      const floor = names.length === 0 ? floorOf(event) : undefined;
      if (floor !== undefined) {
        const name = `${floor.id} ${untilText(floor.until)}`;
        floors.set(name, (floors.get(name) ?? 0) + 1);
      }
      return names.length === 0 && floor === undefined;
    });
    return { free, held, floors };
  }

  async #mentions(access: CatalogueAccess, { events }: Selection): Promise<SelectedEvent[]> {
    const bar = new ProgressBar({
      ...{ wanted: process.stderr.isTTY, unit: 'MiB', per: 1 << 20, from: 32 },
    });
    try {
      const selected = SequenceSet.of(events.map(({ sequence }) => sequence));
      return await mentions(access, this.config.dataDir, {
        ...{ ids: this.#subjects, selected, signal: this.#signal },
        onProgress: (bytes) => bar.show(bytes, access.log.extent),
      });
    } finally {
      bar.clear();
    }
  }

  #told(plan: Plan): string {
    const { runs, events, plain, already, mentioned, nestedOfOthers, keys, held, floors, unknown } = plan;
    if (this.options.json) {
      const fields = {
        ...{ runs: runs.map(({ recordId }) => recordId), events: events.length },
        ...{ stored_in_the_clear: plain, already_erased: already, mentions: mentioned?.length ?? null },
        mentioned_in: mentioned ?? null,
        ...{ held: Object.fromEntries(held), below_floors: Object.fromEntries(floors) },
        nested_of_others: nestedOfOthers,
        ...{ subjects_without_runs: unknown.subjects, unknown_events: unknown.events },
        sequences: [...eventsOf(keys)].flatMap(({ first, end }) => [[first, end - 1]]),
      };
      return `${printableJson(JSON.stringify(fields, undefined, 2))}\n`;
    }
    const bytes = events.reduce((sum, { size }) => sum + size, 0);
    const days = runs.map(({ began }) => new Date(began.received).toISOString().slice(0, 10)).sort();
    const rows = [
      ['runs', String(runs.length), days.length === 0 ? '' : `first ${days[0]}, last ${days.at(-1)}`],
      ['events', String(events.length), aboutBytes(bytes)],
      ...unknown.subjects.map((number) => [
        ...[
          `id ${number} of ${this.#subjects.length}`,
          '0',
          'no run is about it (as it stands in --subject-file)',
        ],
      ]),
      ...unknown.events.map((id) => [`event ${id}`, '0', 'is not there']),
      ...(plain > 0
        ? [['stored in the clear', String(plain), 'they have no key, and cannot be erased']]
        : []),
      ...(already > 0 ? [['erased before', String(already), '']] : []),
      ...(mentioned === undefined
        ? []
        : [
            [
              'mentions',
              String(mentioned.length),
              this.options.andMentions
                ? 'events of others, erased too'
                : 'events of others with this id in them, not erased (--and-mentions)',
            ],
          ]),
      ...[...held].map(([name, count]) => ['held', String(count), `by ${name}`]),
      ...[...floors].map(([name, count]) => ['kept', String(count), `by the floor ${name}`]),
      ...(nestedOfOthers.length > 0
        ? [
            [
              'nested runs',
              String(nestedOfOthers.length),
              `about others, not erased: ${nestedOfOthers.slice(0, 3).join(', ')}`,
            ],
          ]
        : []),
    ];
    return alignedTable(rows);
  }

  /** @throws CommandFailure when it is another number. */
  async #confirm(events: number): Promise<void> {
    const { confirm, subjectFile } = this.options;
    let typed = confirm;
    if (typed === undefined) {
      if (!process.stdin.isTTY || subjectFile === '-')
        throw usage(
          `give --confirm ${events} to erase ${counted(events, 'event')}: nobody can be asked here`,
        );
      const asking = createInterface({ input: process.stdin, output: process.stderr });
      const question = `Erase ${counted(events, 'event')} for good? Type the number of events: `;
      typed = await asking.question(question, { signal: this.#signal }).catch((error: unknown) => {
        throw new CommandFailure('nothing was erased', EXIT.interrupted, { cause: error });
      });
      asking.close();
    }
    if (typed.trim() !== String(events))
      throw usage(
        `nothing was erased: ${counted(events, 'event')} would be, and ${JSON.stringify(typed)} was confirmed`,
      );
  }

  async #erase(plan: Plan): Promise<number> {
    const action = this.#action;
    const { keys } = plan;
    const answer = await deliver(
      this.config,
      {
        action: { action, does: 'retire', reason: this.#reason, part: 1, parts: 1, keys },
        considered: plan.considered,
      },
      { signal: this.#signal },
    );
    // What was derived from what is gone goes with it.
    const anew = await this.#openCatalogue(new AbortController().signal);
    await anew.close();
    if (this.options.compact)
      process.stderr.write(`collector: ${wonText(await compactNow(this.config.dataDir))}\n`);
    const made = await certificateOf(this.config.dataDir, action, {
      ...{ storedInTheClear: plan.plain, held: plan.held, floors: plan.floors },
    });
    process.stdout.write(
      this.options.json ? `${printableJson(JSON.stringify(made, undefined, 2))}\n` : certificateText(made),
    );
    const isAll = await isErased(this.config.dataDir, eventsOf(keys));
    if (answer.state === 'pending') return EXIT.pending;
    if (!isAll) return EXIT.partly;
    return plan.plain + plan.held.size + plan.floors.size > 0 ? EXIT.partly : EXIT.ok;
  }
}

/** @throws CommandFailure when the log has no such action, or it erases nothing. */
function eventsErasedBy(actions: Actions, action: string): SequenceSet {
  const erased = eventsOf(actions.partsIn(action).flatMap(({ keys }) => keys));
  if (erased.size > 0) return erased;
  throw new CommandFailure(`--again: no action ${action} erases anything`, EXIT.notFound);
}

interface Plan extends Omit<Selection, 'events'>, Erasable {
  readonly considered: LifecycleRequest['considered'];
  /** The events beside them in which an id stands; undefined when they were not looked for. */
  readonly mentioned: readonly number[] | undefined;
  /** How many may not be erased: by the holds on them, and by floors of the policy. */
  readonly held: ReadonlyMap<string, number>;
  readonly floors: ReadonlyMap<string, number>;
}

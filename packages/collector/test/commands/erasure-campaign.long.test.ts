/**
 * Random erasures by plan and apply beside a collector that is killed, has no room or lacks a directory of keys, while starts
 * come late, holds begin and policies change. A judge that knows what was sent decides what may be erased.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import fs from 'node:fs';
import http from 'node:http';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import { Random, runs, SEED } from '../../../../test/property-runs.js';
import { eventsOf } from '../../src/privacy/actions.js';
import { Inbox } from '../../src/store/embedded/inbox.js';
import { openStore } from '../../src/store/open-to-read.js';
import { createKey, eventsIn, launch, limits, type Running, start } from '../running/collector-process.js';
import { post } from '../running/load.js';
import {
  type Asked,
  type Decided,
  type Floor,
  type Hold,
  Judge,
  keyOf,
  runIdOf,
  type Sent,
  type Verdict,
} from './erasure-judge.js';
import { askForCompaction } from '../../src/store/embedded/inbox.js';
import { CALLERS, MODELS, ORGANISATIONS, OTHER_KINDS, PATIENTS, Sender } from './erasure-senders.js';

const PLANS = runs(1000, 20);
const PLANS_OF_A_LOG = 25;
const FULL_DISK = path.resolve(import.meta.dirname, '../running/full-disk.mjs');
const COMMANDS = path.resolve(import.meta.dirname, '../running/commands-in-one-process.mjs');

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Commands without the time that a process takes to start. */
class Commands {
  readonly #child: ChildProcess = fork(COMMANDS, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] });

  async run(...argv: readonly string[]): Promise<Ended> {
    this.#child.send({ argv });
    const [ended] = (await once(this.#child, 'message')) as [Ended];
    return ended;
  }

  end(): void {
    this.#child.disconnect();
  }
}

interface Waiting {
  readonly file: string;
  readonly asked: Asked;
  readonly decided: Decided;
}

interface PlanText {
  readonly through: number;
  readonly sha256: string;
  readonly late: readonly { readonly action: string; readonly events: number }[];
  readonly events: {
    id: string;
    organisation: string;
    erase: boolean;
    why: string;
    readonly blocked: readonly { readonly by: string; readonly name: string }[];
  }[];
}

const counts = {
  plans: 0,
  applies: 0,
  erased: 0,
  refusals: 0,
  kills: 0,
  faults: 0,
  events: 0,
  verified: 0,
  restored: 0,
};

class Site {
  /** A plan of another log. */
  static foreign: string | undefined;
  readonly judge = new Judge();
  readonly story: string[] = [];
  readonly #waiting: Waiting[] = [];
  readonly #directories: Readonly<Record<'keys' | 'mirror', string>>;
  readonly #dataDir: string;
  readonly #full: string;
  readonly #agent = new http.Agent({ keepAlive: true, maxSockets: 8 });
  readonly #apiKeys = new Map<string, string>();
  readonly #configured = ['--max-body-bytes', '64KiB', ...limits({ 'segment-bytes': '128KiB' })];
  #collector: Running | undefined;
  #phase = 0;
  /** The events that a copy of the data directory has. */
  #backUp: { readonly events: ReadonlySet<string>; readonly holds: readonly Hold[] } | undefined;
  readonly #certificates: string[] = [];
  #made = 0;

  constructor(
    private readonly root: string,
    private readonly random: Random,
    private readonly commands: Commands,
  ) {
    this.#dataDir = path.join(root, 'data');
    this.#full = path.join(root, 'full');
    this.#directories = { keys: path.join(root, 'keys'), mirror: path.join(root, 'mirror') };
  }

  async begin(): Promise<void> {
    for (const directory of Object.values(this.#directories)) fs.mkdirSync(directory);
    for (const name of ORGANISATIONS)
      this.#apiKeys.set(name, await createKey(this.#dataDir, '--organisation', name));
    await this.#start();
    await this.#send((sender) => {
      for (let i = 0; i < 40; i++) sender.run();
      for (let i = 0; i < 10; i++) sender.loose();
    });
  }

  async #start(): Promise<void> {
    const { keys, mirror } = this.#directories;
    const args = ['--encryption-keys', `${keys},${mirror}`, ...this.#configured];
    this.#collector = await start(this.#dataDir, args, ['--import', FULL_DISK], { FULL_DISK: this.#full });
  }

  async #kill(): Promise<void> {
    counts.kills++;
    this.story.push('kill -9 of the collector');
    await this.#collector?.kill();
    this.#agent.destroy();
    await this.#start();
  }

  /** In order; after a full disk it may have ended by itself. */
  async #restart(between: () => void = () => undefined): Promise<void> {
    await this.#collector?.stop();
    between();
    await this.#start();
  }

  #copy(): void {
    fs.cpSync(this.#dataDir, path.join(this.root, 'old'), { recursive: true });
    this.#backUp = { events: new Set(this.judge.sent.keys()), holds: this.judge.holds };
    this.story.push('copied');
  }

  /** A log that is restored from before erasures learns of them, so that its certificates name nothing that can be read. */
  async restore(): Promise<void> {
    if (this.#backUp === undefined) return;
    await this.#restart(() => {
      fs.rmSync(this.#dataDir, { recursive: true });
      fs.cpSync(path.join(this.root, 'old'), this.#dataDir, { recursive: true });
    });
    this.story.push('restored');
    counts.restored++;
    for (const key of this.judge.sent.keys()) if (!this.#backUp.events.has(key)) this.judge.sent.delete(key);
    // An erasure that a start learns is not a request: it is done once the log has it.
    const wanted = [...this.judge.sent.keys()].filter((key) => this.judge.erased.has(key)).length;
    const taken = async () => (await this.#erased()).reduce((sum, { events }) => sum + events, 0);
    await expect.poll(taken).toBe(wanted);
    await this.#settle();
    // The log no longer knows that these holds were released, and verify reports what was erased under them.
    const over = this.#backUp.holds.filter((hold) => !this.judge.holds.includes(hold));
    await this.check(over.length === 0);
    if (this.#certificates.length === 0) return;
    const named = this.#certificates.flatMap((file) => ['--certificate', file]);
    const out = path.join(this.root, 'again.json');
    const { code, stderr } = await this.on('erase', 'plan', ...named, '--by', 'planner', '--out', out);
    // Runs that are nested in what is erased may be listed; what a certificate names cannot be planned.
    expect([0, 6], stderr).toContain(code);
    const again = code === 0 ? (JSON.parse(fs.readFileSync(out, 'utf8')) as PlanText).events : [];
    expect(again.filter((event) => event.erase || this.judge.erased.has(keyOf(event)))).toEqual([]);
  }

  async end(): Promise<void> {
    const file = this.#waiting[0]?.file;
    Site.foreign = file === undefined ? Site.foreign : fs.readFileSync(file, 'utf8');
    await this.#collector?.stop();
    this.#agent.destroy();
  }

  on(...argv: readonly string[]): Promise<Ended> {
    return this.commands.run(...argv, '--data-dir', this.#dataDir);
  }

  async done(...argv: readonly string[]): Promise<void> {
    const { code, stderr } = await this.on(...argv);
    expect([argv, code, stderr]).toEqual([argv, 0, expect.anything()]);
  }

  /** On return all is stored. */
  async #send(make: (sender: Sender) => void): Promise<void> {
    const sender = new Sender(this.random, ++this.#phase, this.judge.sent.values());
    make(sender);
    const left = sender.batch;
    const port = this.#collector?.port ?? 0;
    const posting = Array.from({ length: 8 }, async () => {
      for (let event = left.shift(); event !== undefined; event = left.shift()) {
        const { organisation, body, kind } = event;
        const key = this.#apiKeys.get(organisation) ?? '';
        const answered = await post(port, key, body, { agent: this.#agent, kind });
        // An overloaded collector is asked again.
        if (answered.status === 503) {
          await sleep(100);
          left.unshift(event);
          continue;
        }
        expect([answered.status, answered.body]).toEqual([201, expect.anything()]);
        this.judge.sent.set(keyOf(event), event);
        counts.events++;
      }
    });
    await Promise.all(posting);
    this.story.push(`${sender.batch.length} events`);
  }

  #file(name: string, text: string): string {
    const file = path.join(this.root, `${++this.#made}-${name}`);
    fs.writeFileSync(file, text);
    return file;
  }

  #any(): Sent {
    return this.random.of([...this.judge.sent.values()]);
  }

  async #hold(): Promise<void> {
    const { random, judge } = this;
    const name = `CASE-${++this.#made}`;
    const chosen = random.below(8);
    const hold: Hold = {
      ...{ name, runs: [], subjects: [], organisations: [] },
      ...(chosen === 0
        ? { organisations: [random.of(ORGANISATIONS)] }
        : chosen < 4
          ? { subjects: random.of(PATIENTS) }
          : { runs: [runIdOf(this.#any()) ?? random.uuid()] }),
    };
    const file = this.#file('held.txt', hold.subjects.join('\n'));
    await this.done(
      ...['hold', 'add', name],
      ...hold.organisations.flatMap((each) => ['--organisation', each]),
      ...hold.runs.flatMap((each) => ['--run', each]),
      ...(hold.subjects.length > 0 ? ['--subject-file', file] : []),
    );
    this.#phase++;
    judge.hold(hold);
    this.story.push(`hold ${JSON.stringify(hold)}`);
  }

  async #release(): Promise<void> {
    const hold = this.judge.holds[0];
    if (hold === undefined) return;
    await this.done('hold', 'release', hold.name);
    this.judge.release(hold);
    this.story.push(`release ${hold.name}`);
  }

  async #policy(): Promise<void> {
    const { random } = this;
    const floors: Floor[] = random.chance(3)
      ? []
      : [
          random.of<Floor>([
            { organisation: random.of(ORGANISATIONS) },
            { kind: random.of(OTHER_KINDS) },
            { model: random.of(MODELS) },
          ]),
        ];
    const texts = floors.map(({ organisation, kind, model }, i) => ({
      ...{ id: `law-${i}`, keep: random.of(['P10Y', 'P1D', 'forever']) },
      match: {
        ...(organisation && { organisation: [organisation] }),
        ...(kind && { kind: [kind] }),
        ...(model && { model_id: [model] }),
      },
    }));
    const over = { id: 'over', keep: 'P0D' };
    const policy = {
      version: 1,
      name: `policy-${this.#phase}`,
      floors: [...texts, over],
      default: { keep: 'forever' },
    };
    await this.done('retention', 'policy', 'set', this.#file('policy.json', JSON.stringify(policy)));
    this.judge.floors = floors;
    this.story.push(`floors ${JSON.stringify(floors)}`);
  }

  /** What may happen at any time. @param keys of events on whose runs more may come. */
  async happen(keys?: readonly string[]): Promise<void> {
    const { random } = this;
    const about = () =>
      (keys !== undefined && random.chance(2) ? this.judge.sent.get(random.of(keys)) : undefined) ??
      this.#any();
    if (random.chance(2))
      await this.#send((sender) => {
        for (let i = random.below(4); i > 0; i--) sender.run();
        for (let i = random.below(5); i > 0; i--) sender.late(about());
        if (random.chance(3)) sender.loose();
      });
    const isHeld = this.judge.holds.length > 0;
    if (random.chance(isHeld ? 14 : 8)) await this.#hold();
    if (isHeld && random.chance(5)) await this.#release();
    if (random.chance(10)) await this.#policy();
    if (random.chance(12)) await this.#kill();
    if (this.#backUp === undefined && random.chance(8)) await this.#restart(() => this.#copy());
    if (random.chance(25)) askForCompaction(this.#dataDir, randomUUID());
    if (random.chance(40)) await this.done('encryption-keys', 'rotate');
  }

  /** @returns the plan that was made; undefined where there was nothing to plan. */
  async plan(): Promise<Waiting | undefined> {
    const { judge } = this;
    const asked = this.#asked();
    const decided = judge.plan(asked, this.#phase);
    const file = path.join(this.root, `plan-${++this.#made}.json`);
    const ended = await this.on(...this.#arguments(asked), '--by', 'planner', '--out', file);
    this.story.push(`plan ${JSON.stringify(asked)}: ${ended.code}`);
    counts.plans++;
    const isSeveral = asked.late === undefined && decided.organisations.length > 1;
    const isEmpty = decided.listed.size === 0;
    expect([ended.code, ended.stderr]).toEqual([isSeveral ? 2 : isEmpty ? 6 : 0, expect.anything()]);
    expect(fs.existsSync(file)).toBe(ended.code === 0);
    if (ended.code !== 0) return undefined;
    const text = JSON.parse(fs.readFileSync(file, 'utf8')) as PlanText;
    const marked = text.events.filter(({ erase }) => erase).map((event) => keyOf(event));
    const listed = text.events.map((event) => keyOf(event));
    const blockedBy = (by: string) =>
      text.events
        .filter(({ blocked }) => blocked.some((block) => block.by === by))
        .map((event) => keyOf(event));
    expect(new Set(listed).size).toBe(listed.length);
    expect({
      ...{ marked: marked.sort(), listed: listed.sort(), held: blockedBy('hold').sort() },
      ...{
        floored: blockedBy('floor').sort(),
        late: Object.fromEntries(text.late.map((each) => [each.action, each.events])),
      },
    }).toEqual({
      ...{
        marked: [...decided.marked].sort(),
        listed: [...decided.listed].sort(),
        held: [...decided.held].sort(),
      },
      ...{ floored: [...decided.floored].sort(), late: Object.fromEntries(decided.late) },
    });
    return { file, asked, decided };
  }

  #asked(): Asked {
    const { random, judge } = this;
    const organisation = random.chance(3) ? undefined : random.of(ORGANISATIONS);
    const chosen = random.below(20);
    const last = judge.erasures.at(-1 - random.below(2));
    if (chosen < 4 && last !== undefined) return { late: last.action };
    if (chosen < 7) return { run: runIdOf(this.#any()) ?? random.uuid(), organisation };
    if (chosen < 9) {
      const { id, organisation: of } = this.#any();
      return { event: id, organisation: of };
    }
    const person = random.chance(8) ? CALLERS : random.of(PATIENTS);
    const subjects = random.chance(2) ? person : [random.of(person)];
    return { subjects, organisation, mentions: random.chance(3) };
  }

  #arguments({ subjects, run, event, late, organisation, mentions }: Asked): string[] {
    return [
      ...['erase', 'plan'],
      ...(subjects ? ['--subject-file', this.#file('subject.txt', subjects.join('\r\n'))] : []),
      ...(run === undefined ? [] : ['--run', run]),
      ...(event === undefined ? [] : ['--event', event]),
      ...(late === undefined ? [] : ['--late', late]),
      ...(organisation === undefined ? [] : ['--organisation', organisation]),
      ...(mentions ? ['--mentions'] : []),
    ];
  }

  /** Marks as a person sets them, now and then. @returns the keys that are marked. */
  #mark({ file }: Waiting): Set<string> {
    const { random } = this;
    const plan = JSON.parse(fs.readFileSync(file, 'utf8')) as PlanText;
    const edits = random.chance(3);
    for (const event of plan.events) {
      const isHeld = event.blocked.some(({ by }) => by === 'hold');
      if (edits && (event.erase ? random.chance(6) : random.chance(isHeld ? 20 : 3)))
        event.erase = !event.erase;
    }
    // A person's editor may change the layout.
    if (edits) fs.writeFileSync(file, JSON.stringify(plan, undefined, random.of([0, 2])));
    return new Set(plan.events.filter(({ erase }) => erase).map((event) => keyOf(event)));
  }

  /** A plan in which something else than a mark was changed is not applied. */
  async #tamper({ file }: Waiting): Promise<void> {
    const { random } = this;
    const text = fs.readFileSync(file, 'utf8');
    const plan = JSON.parse(text) as Record<string, unknown> & PlanText;
    const other = this.#any();
    const [first] = plan.events;
    const changed = random.of([
      text.slice(0, random.below(text.length - 2)),
      JSON.stringify({ ...plan, through: plan.through + 1 }),
      JSON.stringify({ ...plan, events: [...plan.events, { ...first, ...{ id: other.id, erase: true } }] }),
      JSON.stringify({ ...plan, holds: ['4c1d7f0a-93be-4f5e-8a3e-5d1f6f0c2b11'] }),
      Site.foreign ?? '{}',
      JSON.stringify({ ...plan, events: [{ ...first, organisation: 'ED', erase: true }] }),
    ]);
    const ended = await this.on(...applying(this.#file('tampered.json', changed), 'erasure-request', false));
    expect([ended.code, ended.stderr]).toEqual([2, expect.anything()]);
    counts.refusals++;
    this.story.push('a changed plan was refused');
  }

  async apply(planned: Waiting): Promise<void> {
    const { random, judge } = this;
    if (random.chance(12)) await this.#tamper(planned);
    const marks = this.#mark(planned);
    if (random.chance(4)) await this.happen([...planned.decided.listed]);
    const isLater = random.chance(12);
    // Some are applied twice.
    if (isLater || random.chance(15)) this.#waiting.push(planned);
    if (isLater) return;
    const overrides = random.chance(4);
    const verdict = judge.apply(planned.decided, marks, overrides);
    const reason = overrides ? 'court-order' : random.of(['erasure-request', 'court-order']);
    const argv = applying(planned.file, reason, overrides);
    const before = await this.#erased();
    const fault = this.#fault();
    const ended = await fault(argv);
    counts.applies++;
    this.story.push(
      `apply ${marks.size} marks, ${JSON.stringify({ ...verdict, erases: verdict.erases.size, overrides })}: ${ended.code}`,
    );
    await this.#settle();
    const action = (await this.#erased())[before.length]?.action;
    this.#assertAnswer(ended, verdict, action);
    if (action === undefined) return;
    counts.erased += verdict.erases.size;
    judge.erase(action, ++this.#phase, verdict.erases);
    const { stdout, stderr } = await this.on('erase', '--certificate', action, '--json');
    expect(stderr).toBe('');
    this.#certificates.push(this.#file('certificate.json', stdout));
    const { event_ids: ids } = JSON.parse(stdout) as { event_ids: Record<string, string[]> };
    const named = Object.entries(ids).flatMap(([organisation, each]) =>
      each.map((id) => keyOf({ organisation, id })),
    );
    expect(named.sort()).toEqual([...verdict.erases].sort());
  }

  #assertAnswer(ended: Ended, verdict: Verdict, action: string | undefined): void {
    const { code } = ended;
    const allowed = verdict.code === 0 || verdict.code === 7;
    // A command that is killed or has no space may end in other ways; it has then done all or nothing.
    const cutOff: (number | null)[] = [null, 1, 2, 9, 130];
    const isCutOff = this.#isFaulty && cutOff.includes(code);
    const expected = [
      verdict.code,
      ...(verdict.mayRefuse && allowed ? [10] : []),
      ...(isCutOff ? [code] : []),
    ];
    expect([expected, code, ended.stderr]).toEqual([expect.arrayContaining([code]), code, expect.anything()]);
    if (!allowed) expect(action).toBeUndefined();
    if (code === 0 || code === 7 || code === 9) expect(action).toBeDefined();
    if (code === 10 || code === 2 || code === 130) expect(action).toBeUndefined();
    if (code === 10 || code === 8) counts.refusals++;
  }

  #isFaulty = false;

  /** How the command is run. */
  #fault(): (argv: readonly string[]) => Promise<Ended> {
    const { random } = this;
    const chosen = random.below(24);
    this.#isFaulty = chosen < 6;
    if (this.#isFaulty) counts.faults++;
    const spawned = (argv: readonly string[]) => {
      const env = { NODE_OPTIONS: `--import=${FULL_DISK}`, FULL_DISK: this.#full };
      const { process: child, exited, output } = launch([...argv, '--data-dir', this.#dataDir], { env });
      return { child, end: exited.then((code) => ({ code, ...output })) };
    };
    if (chosen < 2)
      return async (argv) => {
        const { child, end } = spawned(argv);
        const signal = random.of(['SIGKILL', 'SIGKILL', 'SIGINT'] as const);
        await Promise.race([end, random.chance(2) ? this.#laid() : sleep(random.below(2500))]);
        counts.kills++;
        this.story.push(`${signal} to the command`);
        child.kill(signal);
        return end;
      };
    if (chosen < 4)
      return async (argv) => {
        const { end } = spawned(argv);
        await Promise.race([end, this.#laid()]);
        if (random.chance(2)) await sleep(random.below(40));
        await this.#kill();
        return end;
      };
    if (chosen === 4)
      return async (argv) => {
        const ended = spawned(argv).end;
        await Promise.race([ended, random.chance(2) ? this.#laid() : sleep(random.below(2500))]);
        fs.writeFileSync(this.#full, '');
        this.story.push('a full disk');
        await Promise.race([ended, sleep(300 + random.below(1500))]);
        fs.rmSync(this.#full);
        const result = await ended;
        await (random.chance(2) ? this.#kill() : this.#restart());
        return result;
      };
    if (chosen === 5)
      return async (argv) => {
        const directory = random.of(Object.values(this.#directories));
        fs.renameSync(directory, `${directory}.away`);
        const isEmpty = random.chance(2);
        if (isEmpty) fs.mkdirSync(directory);
        else fs.symlinkSync(directory, directory);
        this.story.push(`${path.basename(directory)} is away`);
        const ended = await this.on(...argv);
        fs.rmSync(directory, { recursive: true });
        fs.renameSync(`${directory}.away`, directory);
        expect([ended.code, ended.stderr]).not.toEqual([0, expect.anything()]);
        await this.#kill();
        return ended;
      };
    return (argv) => this.on(...argv);
  }

  /** Resolves once a request has been laid, begun or answered. */
  async #laid(): Promise<void> {
    const inbox = path.join(this.#dataDir, 'lifecycle', 'inbox');
    const names = () => (fs.existsSync(inbox) ? fs.readdirSync(inbox).join() : '');
    for (const before = names(); names() === before;) await sleep(1);
  }

  /** On return the collector has no work left. */
  async #settle(): Promise<void> {
    const inbox = new Inbox(this.#dataDir);
    await expect
      .poll(async () => {
        // First: a request that is no longer there is in the log.
        const waiting = await inbox.waiting();
        const log = openStore(this.#dataDir).events;
        const undone = log.actions?.().undone() ?? [];
        await log.close();
        return [waiting.length, undone.length];
      })
      .toEqual([0, 0]);
  }

  /** What the log says was erased, an entry each. */
  async #erased(): Promise<{ readonly action: string; readonly events: number }[]> {
    const log = openStore(this.#dataDir).events;
    const logged = log.actions?.().logged ?? [];
    await log.close();
    return logged.flatMap(({ said }) =>
      said.does === 'erase' ? { action: said.action, events: eventsOf(said.keys).size } : [],
    );
  }

  /** Every event is as it was sent, or erased by the action that the judge knows of; `verify` agrees. */
  async check(verifies: boolean): Promise<void> {
    const { judge } = this;
    const { code, stdout, stderr } = await this.on('events');
    expect([code, stderr]).toEqual([0, '']);
    const read = eventsIn(stdout) as (ReturnType<typeof eventsIn>[number] & { action?: string })[];
    const found = new Map(
      read.map((event) => [`${event.organisation} ${event.event_id}`, event.action ?? event.body]),
    );
    expect(read).toHaveLength(judge.sent.size);
    const expected = [...judge.sent].map(([key, { body }]) => [key, judge.erased.get(key) ?? body]);
    const wrong = expected.filter(([key = '', is]) => found.get(key) !== is);
    expect(wrong).toEqual([]);
    if (!verifies) return;
    const verified = await this.on('verify', '--json');
    counts.verified++;
    expect([verified.code, verified.stdout]).toEqual([0, expect.stringContaining('"intact": true')]);
  }

  takeWaiting(): Waiting | undefined {
    return this.random.chance(3) ? this.#waiting.shift() : undefined;
  }
}

function applying(file: string, reason: string, overrides: boolean): string[] {
  const argv = ['erase', 'apply', file, '--reason', reason, '--case', 'DSR-2026/114', '--by', 'applier'];
  return overrides ? [...argv, '--override-floor'] : argv;
}

test(`[R-1570] [R-1580] [R-1335] [R-1336] each of ${PLANS} random plans names and erases what it may, and nothing else`, async () => {
  const memory = '/dev/shm';
  const commands = new Commands();
  onTestFinished(() => commands.end());
  const began = performance.now();
  for (let log = 0; counts.plans < PLANS; log++) {
    const root = fs.mkdtempSync(path.join(fs.existsSync(memory) ? memory : os.tmpdir(), 'collector-plans-'));
    const site = new Site(root, new Random(SEED + log), commands);
    const until = Math.min(PLANS, counts.plans + PLANS_OF_A_LOG);
    try {
      await site.begin();
      while (counts.plans < until) {
        await site.happen();
        const planned = site.takeWaiting() ?? (await site.plan());
        if (planned !== undefined) await site.apply(planned);
        await site.check(counts.plans === until || counts.plans % 5 === 0);
      }
      await site.restore();
    } catch (error) {
      const story = site.story.slice(-12).join('\n');
      throw new Error(`SEED=${SEED + log}, plan ${counts.plans} (log ${log}, ${root}):\n${story}`, {
        cause: error,
      });
    } finally {
      await site.end();
    }
    fs.rmSync(root, { recursive: true, force: true });
  }
  process.stderr.write(
    `SEED=${SEED}: ${JSON.stringify({ ...counts, minutes: (performance.now() - began) / 60_000 })}\n`,
  );
  expect(counts.erased).toBeGreaterThanOrEqual(runs(PLANS / 4, 1));
});

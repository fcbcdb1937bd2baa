/**
 * The file of an erasure plan: every event that may be erased, why, and whether it will be. A person reviews it and may change
 * the marks (`erase`) and nothing else: the SHA-256 covers the rest, and the access log has it. It names no subject.
 */
import { hash } from 'node:crypto';
import fs from 'node:fs';
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import { readJson } from '../../ledger/strict-json.js';
import { untilText } from '../../privacy/retention-policy.js';
import { aboutBytes, counted } from '../../quantity.js';
import { systemCode } from '../../system-code.js';
import { shortId } from '../arguments.js';
import { usage } from '../exit-codes.js';
import { alignedTable, legible } from '../terminal.js';
import { NOT_FOUND_BY_SEARCH } from './mentions.js';

const FORMAT = 'clinical-events/erasure-plan/v1';
const BECAUSE = ['target', 'caller', 'run', 'event', 'late', 'mention', 'nested'] as const;
const ABOUT = ['this person', 'someone else', 'nobody', 'not compared'] as const;
/** What one text of JSON may be. */
const MOST_BYTES = 500 << 20;
/** A plan has five. */
const MOST_NESTED = 8;

/** What keeps an event from being erased: a hold by its name, a floor and until when, that it has no key. */
export interface Block {
  readonly by: 'hold' | 'floor' | 'stored in the clear';
  readonly name: string;
  /** RFC 3339; null where it has no end that is known. */
  readonly until: string | null;
}

export interface PlanEvent {
  readonly sequence: number;
  readonly id: string;
  readonly run: string;
  readonly organisation: string;
  readonly kind: EventKind;
  /** RFC 3339. */
  readonly received_at: string;
  /** In the log, in bytes. */
  readonly size: number;
  readonly because: (typeof BECAUSE)[number];
  readonly about: (typeof ABOUT)[number];
  readonly blocked: readonly Block[];
  /** Why it was not marked; empty where it was. */
  readonly why: string;
  readonly erase: boolean;
}

export interface Plan {
  readonly format: typeof FORMAT;
  readonly log: string;
  readonly made: string;
  /** The last event that it looked at. */
  readonly through: number;
  /** The action by which the policy was set, and the holds that stood. */
  readonly policy: string | null;
  readonly holds: readonly string[];
  /** What was asked for; of ids of a person how many. */
  readonly asked: string;
  readonly searched: 'starts' | 'every payload';
  /** Payloads that could not be opened and were not erased. */
  readonly unread: number;
  /** Ids of the subject file that no start has, by their line among the ids. */
  readonly unmatched: readonly number[];
  /** Events that came for runs after an earlier action erased these whole. */
  readonly late: readonly { readonly action: string; readonly events: number }[];
  readonly events: readonly PlanEvent[];
}

/** A plan as it stands in its file. */
export interface PlanFile {
  readonly plan: Plan;
  /** Of the plan without its marks, and of the marks; in hexadecimal. */
  readonly sha256: string;
  readonly marks: string;
}

export function planFile(plan: Plan): PlanFile {
  const unmarked = plan.events.map((event) => ({ ...event, erase: undefined }));
  return {
    plan,
    sha256: hash('sha256', JSON.stringify({ ...plan, events: unmarked })),
    marks: hash('sha256', plan.events.map(({ sequence, erase }) => `${sequence} ${erase}\n`).join('')),
  };
}

/** An event a line, so that a person can compare and edit it. */
export function planText({ plan, sha256 }: PlanFile): string {
  const { events, ...rest } = plan;
  const head = JSON.stringify({ ...rest, sha256 }, undefined, 2).replace(/\n\}$/, '');
  const lines = events.map((event) => `    ${JSON.stringify(event)}`);
  return `${head},\n  "events": [\n${lines.join(',\n')}\n  ]\n}\n`;
}

/** @throws CommandFailure for a file that is no plan, or of which more than the marks was changed; it holds nothing of it. */
export function readPlan(file: string): PlanFile {
  const unfit = (why: string) => usage(`${file} is not a plan that collector erase plan wrote: ${why}`);
  let text: string;
  try {
    const stat = fs.statSync(file);
    if (!stat.isFile() || stat.size > MOST_BYTES) throw unfit('it is not a file of at most 500 MiB');
    text = new TextDecoder('utf-8', { fatal: true }).decode(fs.readFileSync(file));
  } catch (error) {
    const code = systemCode(error);
    if (code !== undefined && code.startsWith('E') && !code.startsWith('ERR'))
      throw usage(`${file} cannot be read (${code})`);
    throw error instanceof TypeError ? unfit('it is not UTF-8') : error;
  }
  const { value: read, fault } = { value: undefined, ...readJson(text, MOST_NESTED) };
  // Of a name that stands twice a person may review one value while the other is applied.
  if (fault?.code === 'duplicate_key') throw unfit('a name stands twice in one object');
  if (fault !== undefined) throw unfit('it is not JSON, or was cut off');
  const { sha256, ...plan } = Object(read) as Record<string, unknown>;
  if (plan['format'] !== FORMAT) throw unfit(`its format is not ${FORMAT}`);
  const made = planIn(plan);
  if (made === undefined) throw unfit('it does not have the members of one');
  const whole = planFile(made);
  if (whole.sha256 !== sha256)
    throw unfit('more than its marks (erase) was changed: plan again, or take the file as it was');
  return whole;
}

/** With its members in the order in which they are hashed; undefined where one is missing or another type. */
function planIn(read: Record<string, unknown>): Plan | undefined {
  const { log, made, through, policy, holds, asked, searched, unread, unmatched, late, events } = read;
  if (![log, made, asked].every(isText) || ![through, unread].every(isCount)) return undefined;
  if (!(policy === null || isText(policy)) || !(searched === 'starts' || searched === 'every payload'))
    return undefined;
  if (!isListOf(holds, isText) || !isListOf(unmatched, isCount)) return undefined;
  const isLate = (each: unknown): each is Plan['late'][number] => {
    const { action, events: count } = Object(each) as Record<string, unknown>;
    return isText(action) && isCount(count);
  };
  if (!isListOf(late, isLate) || !isListOf(events, isPlanEvent)) return undefined;
  return {
    ...{ format: FORMAT, log, made, through, policy, holds, asked, searched, unread, unmatched },
    late: late.map(({ action, events: count }) => ({ action, events: count })),
    events: events.map(ordered),
  } as Plan;
}

function isPlanEvent(value: unknown): value is PlanEvent {
  const {
    sequence,
    id,
    run,
    organisation,
    kind,
    received_at: at,
    size,
    because,
    about,
    blocked,
    why,
    erase,
  } = Object(value) as Record<string, unknown>;
  const isBlock = (each: unknown): each is Block => {
    const { by, name, until } = Object(each) as Record<string, unknown>;
    return isText(by) && isText(name) && (until === null || isText(until));
  };
  return (
    [id, run, organisation, at, why].every(isText) &&
    [sequence, size].every(isCount) &&
    typeof erase === 'boolean' &&
    [
      [EVENT_KINDS, kind],
      [BECAUSE, because],
      [ABOUT, about],
    ].every(([words, word]) => (words as readonly unknown[]).includes(word)) &&
    isListOf(blocked, isBlock)
  );
}

function ordered(event: PlanEvent): PlanEvent {
  const { sequence, id, run, organisation, kind, received_at, size, because, about, blocked, why, erase } =
    event;
  return {
    ...{ sequence, id, run, organisation, kind, received_at, size, because, about },
    blocked: blocked.map(({ by, name, until }) => ({ by, name, until })),
    ...{ why, erase },
  };
}

const isText = (value: unknown): value is string => typeof value === 'string';
const isCount = (value: unknown): value is number => Number.isSafeInteger(value) && Number(value) >= 0;

function isListOf<Item>(value: unknown, isItem: (each: unknown) => each is Item): value is Item[] {
  return Array.isArray(value) && value.every(isItem);
}

export { FORMAT as PLAN_FORMAT };

/** For whoever reviews it: a line a run, what is blocked, what was not compared. */
export function planTable({ plan, sha256 }: PlanFile): string {
  const runs = Map.groupBy(plan.events, ({ organisation, run }) => `${organisation} ${run}`);
  const ids = [...new Set(plan.events.map(({ run }) => run))].sort();
  const short = new Map(
    ids.map((id, i) => [
      id,
      shortId(
        id,
        [ids[i - 1], ids[i + 1]].filter((each) => each !== undefined),
      ),
    ]),
  );
  const rows = [...runs.values()].map((events) => {
    const [first] = events;
    if (first === undefined) return [];
    const marked = events.filter(({ erase }) => erase).length;
    const why = [...new Set(events.filter(({ erase }) => !erase).map((event) => event.why))].join('; ');
    return [
      ...[short.get(first.run) ?? first.run, legible(first.organisation)],
      ...[first.received_at.slice(0, 16).replace('T', ' '), String(events.length)],
      ...[[...new Set(events.map(({ because }) => because))].join(', '), first.about],
      marked === 0 ? 'no' : marked === events.length ? 'yes' : `${marked} of them`,
      why,
    ];
  });
  const table =
    rows.length === 0
      ? ''
      : alignedTable([
          ['RUN', 'ORGANISATION', 'FIRST (UTC)', 'EVENTS', 'BECAUSE', 'ABOUT', 'ERASE', 'WHY NOT'],
          ...rows,
        ]);
  const marked = plan.events.filter(({ erase }) => erase);
  const blocks = new Map<string, number>();
  for (const { blocked } of plan.events)
    for (const block of blocked) blocks.set(blockText(block), (blocks.get(blockText(block)) ?? 0) + 1);
  const size = marked.reduce((sum, event) => sum + event.size, 0);
  const lines = [
    `${counted(marked.length, 'event')} of ${counted(new Set(marked.map(({ run }) => run)).size, 'run')} marked to be erased (${aboutBytes(size)}), ` +
      `${plan.events.length - marked.length} not marked`,
    ...[...blocks].map(([block, count]) => `${counted(count, 'event')}: ${block}`),
    ...(plan.unmatched.length === 0
      ? []
      : [
          `no start has ${counted(plan.unmatched.length, 'id')} of the subject file: number ${plan.unmatched.join(', ')}`,
        ]),
    ...(plan.unread === 0
      ? []
      : [`${counted(plan.unread, 'payload')} could not be opened, and may be about this person too`]),
    ...(plan.searched === 'every payload'
      ? [`every payload was searched; ${NOT_FOUND_BY_SEARCH}`]
      : plan.asked.includes('subject')
        ? ['only starts were compared: --mentions searches every payload']
        : []),
    ...plan.late.map(
      ({ action, events }) =>
        `${counted(events, 'event')} came after action ${action} had erased their runs: plan them with --late ${action}`,
    ),
    ...(plan.events.length === 0 ? [] : [`SHA-256 of the plan, which the access log has: ${sha256}`]),
  ];
  return `${table}${lines.map((line) => `${line}\n`).join('')}`;
}

export function blockText({ by, name, until }: Block): string {
  if (by === 'hold') return `on hold by ${legible(name)}`;
  if (by === 'floor')
    return `kept by the floor ${legible(name)} ${until === null ? 'for ever' : untilText(Date.parse(until))}`;
  return by;
}

/**
 * The file of an erasure plan: every event that could be erased, why, and whether it will be. A reviewer may
 * change only the marks (`erase`): the SHA-256, which is in the access log, covers the rest. The plan names
 * no subject.
 */
import { hash } from 'node:crypto';
import fs from 'node:fs';
import type { EventKind } from '@clinical-events/protocol';
import { readJson } from '../../ledger/strict-json.js';
import { untilText } from '../../privacy/retention-policy.js';
import { aboutBytes, counted } from '../../quantity.js';
import { systemCode } from '../../system-code.js';
import { shortId } from '../arguments.js';
import { usage } from '../exit-codes.js';
import { alignedTable, legible } from '../terminal.js';
import { NOT_FOUND_BY_SEARCH } from './mentions.js';

export const PLAN_FORMAT = 'clinical-events/erasure-plan/v1';
/** The maximum size of a JSON text. */
const MOST_BYTES = 500 << 20;
/** A plan has five levels. */
const MOST_NESTED = 8;

/** What prevents erasing an event: a hold, a floor, or the lack of a key. */
export interface Block {
  readonly by: 'hold' | 'floor' | 'stored in the clear';
  readonly name: string;
  /** RFC 3339; null if there is no known end. */
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
  /** Bytes in the log. */
  readonly size: number;
  readonly because: 'target' | 'caller' | 'run' | 'event' | 'certificate' | 'late' | 'mention' | 'nested';
  readonly about: 'this person' | 'someone else' | 'no person' | 'not compared';
  readonly blocked: readonly Block[];
  /** Why it is not marked; empty if it is. */
  readonly why: string;
  readonly erase: boolean;
}

export interface Plan {
  readonly format: typeof PLAN_FORMAT;
  readonly log: string;
  readonly made: string;
  /** The last event that was examined. */
  readonly through: number;
  /** The action that set the policy, and the active holds. */
  readonly policy: string | null;
  readonly holds: readonly string[];
  /** The request; for the ids of a person, only their number. */
  readonly asked: string;
  readonly searched: 'starts' | 'every payload';
  /** Number of payloads that could not be decrypted although they were not erased. */
  readonly unread: number;
  /** Ids of the subject file that no start has, by line number. */
  readonly unmatched: readonly number[];
  /** Events that arrived for runs after an earlier action had erased them. */
  readonly late: readonly { readonly action: string; readonly events: number }[];
  readonly events: readonly PlanEvent[];
}

/** A plan as stored in its file. */
export interface PlanFile {
  readonly plan: Plan;
  /** Hexadecimal hash of the plan without its marks; `marks`: of the marks. */
  readonly sha256: string;
  readonly marks: string;
}

export function planFile(plan: Plan): PlanFile {
  const unmarked = plan.events.map((event) => ({ ...event, erase: undefined }));
  return {
    plan,
    sha256: hash('sha256', JSON.stringify({ ...plan, events: unmarked }, inOrder)),
    marks: hash('sha256', plan.events.map(({ sequence, erase }) => `${sequence} ${erase}\n`).join('')),
  };
}

/** Replacer for JSON.stringify that sorts members, whatever their order in the file. */
function inOrder(_: string, value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value;
  return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** One event per line, so that a person can compare and edit it. */
export function planText({ plan, sha256 }: PlanFile): string {
  const { events, ...rest } = plan;
  const head = JSON.stringify({ ...rest, sha256 }, undefined, 2).replace(/\n\}$/, '');
  const lines = events.map((event) => `    ${JSON.stringify(event)}`);
  return `${head},\n  "events": [\n${lines.join(',\n')}\n  ]\n}\n`;
}

/**
 * @throws CommandFailure if it is not a plan, or more than the marks was changed; the message contains
 *   nothing of it.
 */
export function readPlan(file: string): PlanFile {
  const unfit = (why: string) => usage(`${file} is not a plan written by collector erase plan: ${why}`);
  let text: string;
  try {
    const stat = fs.statSync(file);
    if (!stat.isFile() || stat.size > MOST_BYTES) throw unfit('not a file of at most 500 MiB');
    text = new TextDecoder('utf-8', { fatal: true }).decode(fs.readFileSync(file));
  } catch (error) {
    const code = systemCode(error);
    if (code !== undefined && code.startsWith('E') && !code.startsWith('ERR'))
      throw usage(`${file} cannot be read (${code})`);
    throw error instanceof TypeError ? unfit('not UTF-8') : error;
  }
  const { value: read, fault } = { value: undefined, ...readJson(text, MOST_NESTED) };
  // With a duplicate name, a person might review one value while the other is applied.
  if (fault?.code === 'duplicate_key') throw unfit('an object has a duplicate name');
  if (fault !== undefined) throw unfit('not JSON, or truncated');
  const { sha256, ...plan } = Object(read) as Record<string, unknown>;
  if (plan['format'] !== PLAN_FORMAT) throw unfit(`the format is not ${PLAN_FORMAT}`);
  if (!hasMarks(plan)) throw unfit('members are missing');
  const whole = planFile(plan);
  if (whole.sha256 !== sha256)
    throw unfit('more than its marks (erase) was changed: plan again, or restore the file');
  return whole;
}

/** The SHA-256 in the access log covers the rest. */
function hasMarks(read: Record<string, unknown>): read is Record<string, unknown> & Plan {
  const { events } = read;
  const isMarked = (event: unknown) =>
    typeof (Object(event) as Partial<Record<keyof PlanEvent, unknown>>).erase === 'boolean';
  return Array.isArray(events) && events.every(isMarked);
}

/** The table for the reviewer: one line per run, what is blocked, and what was not compared. */
export function planTable({ plan, sha256, marks }: PlanFile): string {
  const runs = Map.groupBy(plan.events, ({ organisation, run }) => `${organisation} ${run}`);
  const ids = [...new Set(plan.events.map(({ run }) => run))].sort();
  const short = new Map(
    ids.map((id, i) => [id, shortId(id, [...ids.slice(i > 0 ? i - 1 : 0, i), ...ids.slice(i + 1, i + 2)])]),
  );
  const rows = [...runs.values()].map((events) => {
    const { run, organisation, received_at, about } = events[0] as PlanEvent;
    const left = events.filter(({ erase }) => !erase);
    return [
      ...[short.get(run) ?? run, legible(organisation)],
      ...[received_at.slice(0, 16).replace('T', ' '), String(events.length)],
      ...[[...new Set(events.map(({ because }) => because))].join(', '), about],
      left.length === 0
        ? 'yes'
        : left.length === events.length
          ? 'no'
          : `${events.length - left.length} of them`,
      [
        ...new Set([
          ...left.map(({ why }) => why),
          ...events.flatMap(({ erase, blocked }) => (erase ? blocked.map(blockText) : [])),
        ]),
      ].join('; '),
    ];
  });
  const columns = ['RUN', 'ORGANISATION', 'FIRST (UTC)', 'EVENTS', 'BECAUSE', 'ABOUT', 'ERASE', 'NOTE'];
  const table = rows.length === 0 ? '' : alignedTable([columns, ...rows]);
  const marked = plan.events.filter(({ erase }) => erase);
  const blocks = Map.groupBy(
    plan.events.flatMap(({ blocked }) => blocked.map(blockText)),
    (text) => text,
  );
  const size = marked.reduce((sum, event) => sum + event.size, 0);
  const lines = [
    `${counted(marked.length, 'event')} of ${counted(new Set(marked.map(({ run }) => run)).size, 'run')} ` +
      `marked to be erased (${aboutBytes(size)}), ${plan.events.length - marked.length} not marked`,
    ...[...blocks].map(([block, { length }]) => `${counted(length, 'event')}: ${block}`),
    ...(plan.unmatched.length === 0
      ? []
      : [
          `no start has ${counted(plan.unmatched.length, 'id')} of the subject file: number ` +
            `${plan.unmatched.join(', ')} (erased starts are not compared)`,
        ]),
    ...(plan.unread === 0
      ? []
      : [`${counted(plan.unread, 'payload')} could not be decrypted and may also be about this person`]),
    ...(plan.searched === 'every payload'
      ? [`every payload was searched; ${NOT_FOUND_BY_SEARCH}`]
      : plan.asked.includes('subject')
        ? ['only starts were compared; --mentions searches every payload']
        : []),
    ...plan.late.map(
      ({ action, events }) =>
        `${counted(events, 'event')} arrived after action ${action} had erased their runs: plan them with ` +
        `--late ${action}`,
    ),
    ...(plan.events.length === 0
      ? []
      : [`SHA-256 of the plan (also in the access log): ${sha256}`, `SHA-256 of its marks: ${marks}`]),
  ];
  return `${table}${lines.map((line) => `${line}\n`).join('')}`;
}

export function blockText({ by, name, until }: Block): string {
  if (by === 'hold') return `on hold by ${legible(name)}`;
  const end = until === null ? 'permanently' : untilText(Date.parse(until));
  if (by === 'floor') return `kept by the floor ${legible(name)} ${end}`;
  return by;
}

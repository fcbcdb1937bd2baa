/** Values of attributes: flat names, and JSON in strings. */
import type { Fields } from '../values.js';
import { asText, fields, list, text } from './answer.js';

/** Longer texts are not parsed. */
const MOST_CHARACTERS = 16 * 1024 * 1024;

/** Parsed JSON, or the value unchanged; undefined for malformed JSON. */
export function parsed(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  if (value.length > MOST_CHARACTERS) return undefined;
  try {
    return JSON.parse(value) as unknown;
  } catch {
    return undefined;
  }
}

/** Deeper contents stay text: a collector refuses events that nest deeper than its limit, 64 by default. */
const DEEPEST_CONTENT = 24;

/** Contents for an event. JSON is parsed if that changes no number; other values stay as they are. */
export function parsedContent(raw: unknown): unknown {
  const value = typeof raw === 'string' && LONG_NUMBER.test(raw) ? exactly(raw) : parsed(raw);
  return value === undefined || isDeeper(value, DEEPEST_CONTENT) ? contentText(raw) : value;
}

function contentText(raw: unknown): string | undefined {
  return raw === undefined ? undefined : asText(raw);
}

/** Matches a number that a double may not hold exactly. */
const LONG_NUMBER = /\d[\d.]{15}|\d[eE]/;

/** Parsed JSON; undefined when a double cannot hold one of its numbers. */
function exactly(json: string): unknown {
  let inexact = 0;
  const count = (_name: string, value: unknown, { source = '' }: { source?: string } = {}) => {
    if (typeof value === 'number' && String(value) !== source) {
      const digits = source.replace(/[eE].*|[-.]/g, '').replace(/^0+/, '');
      if (!Number.isFinite(value) || digits.length > 15) inexact += 1;
    }
    return value;
  };
  try {
    const value = JSON.parse(json, count as Parameters<typeof JSON.parse>[1]) as unknown;
    return inexact === 0 ? value : undefined;
  } catch {
    return undefined;
  }
}

/** Whether lists and objects in a value nest deeper than this. */
function isDeeper(value: unknown, levels: number): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return levels === 0 || Object.values(value).some((each) => isDeeper(each, levels - 1));
}

/** A fast check, since few names have such an index. */
const LONG_INDEX = /\.\d{4}/;
const INDEX_TOO_HIGH =
  /^(?:llm|gen_ai|retrieval|reranker)\..*\.(?:\d{5,}|[5-9]\d{3}|4[1-9]\d\d|409[6-9])(?:\.|$)/s;

/** The number of attributes that are ignored because their index exceeds 4,095. */
export function countTooHigh(attributes: Fields): number {
  const isTooHigh = (name: string) => LONG_INDEX.test(name) && INDEX_TOO_HIGH.test(name);
  return Object.keys(attributes).filter(isTooHigh).length;
}

/** The members of `PREFIX.NUMBER.REST`, by number; an index above 4,095 is ignored. */
export function indexed(attributes: Fields, prefix: string): Fields[] {
  const byIndex = new Map<number, Record<string, unknown>>();
  for (const name of Object.keys(attributes)) {
    if (!name.startsWith(prefix)) continue;
    const [, number, rest = ''] = /^\.(\d{1,4})\.(.+)$/s.exec(name.slice(prefix.length)) ?? [];
    if (number === undefined || Number(number) > 4095) continue;
    const members = byIndex.get(Number(number)) ?? (Object.create(null) as Record<string, unknown>);
    members[rest] = attributes[name];
    byIndex.set(Number(number), members);
  }
  return [...byIndex].sort(([a], [b]) => a - b).map(([, members]) => members);
}

const DEEPEST = 8;

/**
 * Rebuilds the structure of flat names: `contents.0.type` is a member of an entry of a list. Names with more
 * parts, and names of a value that has members too, stay unchanged.
 * @param outer a prefix of some names, which the result drops.
 */
export function nested(flat: Fields, outer = ''): Fields {
  const whole = empty();
  const made = new Set<unknown>([whole]);
  for (const [name, value] of Object.entries(flat)) {
    const inner = name.startsWith(outer) ? name.slice(outer.length) : name;
    const parts = inner.split('.', DEEPEST + 1);
    let at: Record<string, unknown> | undefined = parts.length > DEEPEST ? undefined : whole;
    for (const part of parts.slice(0, -1)) {
      if (at !== undefined && !(part in at)) made.add((at[part] = empty()));
      const next: unknown = at?.[part];
      at = made.has(next) ? (next as Record<string, unknown>) : undefined;
    }
    const last = parts.at(-1) ?? '';
    if (at === undefined || last in at) whole[`${inner}.`] = value;
    else at[last] = value;
  }
  return listed(whole, made) as Fields;
}

function empty(): Record<string, unknown> {
  return Object.create(null) as Record<string, unknown>;
}

/** Turns an object whose names are all numbers into a list. */
function listed(value: unknown, made: ReadonlySet<unknown>): unknown {
  if (!made.has(value)) return value;
  const object = value as Record<string, unknown>;
  for (const [name, member] of Object.entries(object)) object[name] = listed(member, made);
  return Object.keys(object).every((name) => /^\d{1,4}$/.test(name)) ? Object.values(object) : object;
}

/** A tool's arguments as JSON, even if the emitter encoded JSON twice. */
export function inputOf(value: unknown): string {
  if (typeof value !== 'string') return asText(value ?? undefined);
  const inner = value.startsWith('"') ? parsed(value) : value;
  return text(inner) ?? value;
}

/** Why an answer ended: a string, JSON of one, or the first of a list, which some emitters write as JSON. */
export function reasonOf(reason: unknown): string | undefined {
  const inner = parsed(reason);
  const whole = text(reason);
  return text(inner) ?? text(list(inner)[0]) ?? (whole?.startsWith('[') ? undefined : whole);
}

/** The words of a message: a string, or the words of its parts. */
export function wordsOf(content: unknown): string {
  if (typeof content === 'string') return content;
  return list(content)
    .map((part) => text(part) ?? text(fields(part)['text']) ?? '')
    .join('');
}

/** A document of a retrieval, by the names that emitters use. */
export function documentOf(value: unknown) {
  const { id, score, content, text: words, pageContent, page_content: page, metadata } = fields(value);
  const about = fields(parsed(metadata));
  return {
    id: id ?? about['source'] ?? about['id'],
    score: score ?? about['score'],
    text: text(value) ?? text(content) ?? text(words) ?? text(pageContent) ?? text(page),
  };
}

/** The words of the last message in a LangGraph state. */
export function lastMessage(state: unknown): string | undefined {
  const { kwargs, data, content } = fields(list(fields(state)['messages']).at(-1));
  return text(fields(kwargs ?? data)['content']) ?? text(content);
}

/** Values of attributes: flat names, and JSON where an attribute is no object. */
import { asText, type Fields, fields, list, text } from './answer.js';

/** More than this is not read. */
const MOST_CHARACTERS = 16 * 1024 * 1024;

/** JSON as what it says, anything else as it is; undefined for JSON that is none. */
export function parsed(value: unknown): unknown {
  if (typeof value !== 'string') return value;
  if (value.length > MOST_CHARACTERS) return undefined;
  try {
    return JSON.parse(value) as unknown;
  } catch {
    return undefined;
  }
}

/** The members of `PREFIX.NUMBER.REST`, by number: an index above 4,095 is left out. */
export function indexed(attributes: Fields, prefix: string): Fields[] {
  const byIndex = new Map<number, Record<string, unknown>>();
  for (const [name, value] of Object.entries(attributes)) {
    if (!name.startsWith(prefix)) continue;
    const [, number, rest = ''] = /^\.(\d{1,4})\.(.+)$/s.exec(name.slice(prefix.length)) ?? [];
    if (number === undefined || Number(number) > 4095) continue;
    const members = byIndex.get(Number(number)) ?? (Object.create(null) as Record<string, unknown>);
    members[rest] = value;
    byIndex.set(Number(number), members);
  }
  return [...byIndex].sort(([a], [b]) => a - b).map(([, members]) => members);
}

/** What a tool is asked, as JSON, also where the emitter has made JSON of JSON. */
export function inputOf(value: unknown): string {
  if (typeof value !== 'string') return asText(value);
  const inner = value.startsWith('"') ? parsed(value) : value;
  return text(inner) ?? value;
}

/** The words of a message: text, or parts that have some. */
export function wordsOf(content: unknown): string {
  if (typeof content === 'string') return content;
  return list(content)
    .map((part) => text(part) ?? text(fields(part)['text']) ?? '')
    .join('');
}

/** A document of a retrieval, under the names that emitters use. */
export function documentOf(value: unknown) {
  const { id, score, content, text: words, pageContent, metadata } = fields(value);
  return {
    id: id ?? fields(parsed(metadata))['source'],
    score,
    text: text(value) ?? text(content) ?? text(words) ?? text(pageContent),
  };
}

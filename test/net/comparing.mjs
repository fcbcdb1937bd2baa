// How two answers are compared, by their type. All but bytes are written as lines first.
//
//   bytes, format   as they are; a format is left out with --formats-changed
//   text            lines
//   sorted          lines in any order
//   json            a JSON value, or one a line, without members that depend on the machine or the time
//   verdict         the same without sentences, and without members that a change of hashes or formats changes
//   findings        of verify, doctor and the like: {kind, sequence, file, offset} or {severity, subject} in any order
import fs from 'node:fs';
import { VOLATILE, asNamedAtBase } from './sides.mjs';

const SENTENCES = /^(message|detail|what|says|reason_text|hint)$/;
const HASHES =
  /^(root|size|hash|sha256|bytes|signed_bytes|signature|checkpoint|checkpoints_checked|origin|proof)$/;

/** @returns the lines of one side only, `- ` for the base and `+ ` for the tree; empty for equal answers. */
export function differences(base, tree, { how, formatsChanged }) {
  if (base === undefined || tree === undefined) return [base === undefined ? '+ answer' : '- answer'];
  if (how === 'format' && formatsChanged) return [];
  const [a, b] = [base, tree].map((answer) => lines(answer, how, formatsChanged));
  const [was, is] = [parted(a, b), parted(b, a)];
  const found = [...was.own.map((line) => `- ${line}`), ...is.own.map((line) => `+ ${line}`)];
  return was.shared.every((line, at) => line === is.shared[at]) ? found : [...found, '~ order'];
}

/** The lines of one list: `shared` with another one, and `own`. */
function parted(lines, others) {
  const counts = new Map();
  for (const line of others) counts.set(line, (counts.get(line) ?? 0) + 1);
  const [shared, own] = [[], []];
  for (const line of lines) {
    const count = counts.get(line) ?? 0;
    counts.set(line, count - 1);
    (count > 0 ? shared : own).push(line);
  }
  return { shared, own };
}

/** @returns the differences in a few lines, each from its first different line. */
export function excerpts(found) {
  const [was, is] = ['-', '+'].map((sign) => found.filter((line) => line.startsWith(sign)));
  return found.slice(0, 6).map((line) => {
    const other = line.startsWith('-') ? is[was.indexOf(line)] : was[is.indexOf(line)];
    let from = 1;
    while (from < line.length && line[from] === other?.[from]) from++;
    return `${line[0]} ${JSON.stringify(line.slice(Math.max(2, from - 60), from + 200))}`;
  });
}

function lines({ file, directory }, how, formatsChanged) {
  if (!fs.existsSync(file)) return ['no file'];
  const text = fs.readFileSync(file, how === 'bytes' || how === 'format' ? 'latin1' : 'utf8');
  if (how === 'bytes' || how === 'format') return text.split('\n');
  const plain = asNamedAtBase(text.replaceAll(directory, 'DIR'));
  if (how === 'text') return plain.split('\n');
  if (how === 'sorted') return plain.split('\n').sort();
  const values = parsed(plain);
  if (values === undefined) return plain.split('\n');
  if (how === 'findings') return findings(values, formatsChanged);
  const isLeftOut = (name) =>
    VOLATILE.test(name) ||
    (how === 'verdict' && (SENTENCES.test(name) || (formatsChanged && HASHES.test(name))));
  const clean = (name, value) => {
    if (isLeftOut(name)) return undefined;
    if (value === null || typeof value !== 'object' || Array.isArray(value)) return value;
    return Object.fromEntries(Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1)));
  };
  // An object that holds no other is one line. Brackets and commas depend on the next line.
  const written = values.map((value) => JSON.stringify(value, clean, 1)).join('\n');
  return written
    .replaceAll(/\{[^{}]*\}/g, (object) => object.replaceAll(/\n */g, ' '))
    .split('\n')
    .map((line) => line.replace(/,$/, ''))
    .filter((line) => /[^\s[\]{}]/.test(line));
}

function parsed(text) {
  const lines = () => text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]));
  for (const read of [() => [JSON.parse(text)], lines])
    try {
      return read();
    } catch {
      // It is the other one, or neither.
    }
  return undefined;
}

function findings([value = {}], formatsChanged) {
  const { findings: found = [], intact, events, entries } = value;
  const { unopened_payloads: unopened, erased_events: erased, access_log: access } = value;
  const rows = found.map(({ kind, severity, subject, sequence, file, offset }) =>
    JSON.stringify({ kind, severity, subject, ...(!formatsChanged && { sequence, file, offset }) }),
  );
  return [JSON.stringify({ intact, events, entries, unopened, erased, access }), ...rows.sort()];
}

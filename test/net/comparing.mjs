// How two answers are compared, by what they are. All but bytes are written down as lines first.
//
//   bytes, format   as they are; a format is left out with --formats-changed
//   text            lines
//   sorted          lines in any order
//   json            a JSON value, or one a line, without what hangs on the machine or the moment
//   verdict         the same without sentences, and without what hashes and formats change when they change
//   findings        of verify, doctor and the like: {kind, sequence, file, offset} or {severity, subject} in any order
import fs from 'node:fs';
import { VOLATILE } from './sides.mjs';

const SENTENCES = /^(message|detail|what|says|reason_text|hint)$/;
const HASHES =
  /^(root|size|hash|sha256|bytes|signed_bytes|signature|checkpoint|checkpoints_checked|origin|proof)$/;

/** @returns undefined when they are equal, else the first difference in a few words. */
export function difference(base, tree, { how, formatsChanged }) {
  if (base === undefined || tree === undefined)
    return `only ${base === undefined ? 'the tree' : 'the base'} has it`;
  if (how === 'format' && formatsChanged) return undefined;
  const [a, b] = [base, tree].map((answer) => lines(answer, how, formatsChanged));
  if (a.length === b.length && a.every((line, at) => line === b[at])) return undefined;
  const at = a.findIndex((line, k) => line !== b[k]);
  const line = at < 0 ? a.length : at;
  return `line ${line + 1}: ${excerpt(a[line], b[line])}`;
}

function excerpt(a = '(end)', b = '(end)') {
  let from = 0;
  while (from < Math.min(a.length, b.length) && a[from] === b[from]) from++;
  const part = (text) => JSON.stringify(text.slice(Math.max(0, from - 24), from + 40));
  return `${part(a)} was ${part(b)} now`.replace(/^(.*) was (.*) now$/, 'base $1, tree $2');
}

function lines({ file, directory }, how, formatsChanged) {
  if (!fs.existsSync(file)) return ['no file'];
  const text = fs.readFileSync(file, how === 'bytes' || how === 'format' ? 'latin1' : 'utf8');
  if (how === 'bytes' || how === 'format') return text.split('\n');
  const plain = text.replaceAll(directory, 'DIR');
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
  return values.flatMap((value) => JSON.stringify(value, clean, 1).split('\n'));
}

function parsed(text) {
  try {
    return [JSON.parse(text)];
  } catch {
    try {
      return text.split('\n').flatMap((line) => (line === '' ? [] : [JSON.parse(line)]));
    } catch {
      return undefined;
    }
  }
}

function findings([value], formatsChanged) {
  const {
    findings: found = [],
    intact,
    events,
    entries,
    unopened_payloads: unopened,
    access_log: access,
  } = value ?? {};
  const { retired_events: retired } = value ?? {};
  const rows = found.map(({ kind, severity, subject, sequence, file, offset }) =>
    JSON.stringify({ kind, severity, subject, ...(!formatsChanged && { sequence, file, offset }) }),
  );
  return [JSON.stringify({ intact, events, entries, unopened, retired, access }), ...rows.sort()];
}

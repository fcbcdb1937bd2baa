// docs/reference/log-lines.md: every call in the sources that logs a line.
import { readdirSync, readFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import ts from 'typescript';
import { GENERATED, table } from './table.mjs';

const PACKAGES = path.join(path.dirname(fileURLToPath(import.meta.url)), '..', '..', 'packages');
const SOURCES = ['collector/src', 'postgres/src'];
const LEVELS = ['debug', 'info', 'warn', 'error', 'fatal'];
/** Callbacks that log what they are called with: the level, and the place of the message among the arguments. */
const CALLBACKS = { onTrouble: ['warn', 0], onAlarm: ['error', 1] };
const AREAS = [
  ['Start, stop and reload', /^collector\/src\/commands\//],
  ['Requests', /^collector\/src\/(ingest|access)\//],
  ['OTLP', /^collector\/src\/otlp\//],
  ['Storage', /^collector\/src\/(store|ledger|privacy|catalogue)\//],
  ['Checkpoints', /^collector\/src\/tree\//],
  ['Management', /^collector\/src\//],
  ['PostgreSQL', /^postgres\/src\//],
];

/** The text of a string expression; a value in it by a name in angle brackets. */
function textOf(node) {
  if (node === undefined) return undefined;
  if (ts.isStringLiteral(node) || ts.isNoSubstitutionTemplateLiteral(node)) return node.text;
  if (ts.isTemplateExpression(node)) {
    return node.templateSpans.reduce(
      (text, { expression, literal }) =>
        `${text}<${/\w+(?=\W*$)/.exec(expression.getText().replace(/\.join\(.*$/s, ''))?.[0]}>${literal.text}`,
      node.head.text,
    );
  }
  if (ts.isIdentifier(node)) return textOf(constantOf(node));
  if (!ts.isBinaryExpression(node)) return undefined;
  const [left, right] = [textOf(node.left), textOf(node.right)];
  return left !== undefined && right !== undefined ? left + right : undefined;
}

/** The initializer of a constant in the file of its use. */
function constantOf(node) {
  let found;
  const find = (part) => {
    if (ts.isVariableDeclaration(part) && part.name.getText() === node.text) found = part.initializer;
    ts.forEachChild(part, find);
  };
  find(node.getSourceFile());
  return found;
}

function fieldsOf(node) {
  if (node === undefined || !ts.isObjectLiteralExpression(node)) return [];
  return node.properties.flatMap((property) => {
    if (!ts.isSpreadAssignment(property)) return property.name.getText();
    const inner = [];
    const find = (part) => {
      if (ts.isObjectLiteralExpression(part)) inner.push(...fieldsOf(part));
      else ts.forEachChild(part, find);
    };
    find(property);
    return inner;
  });
}

function lineOf(call) {
  const { expression, arguments: args } = call;
  const name = ts.isPropertyAccessExpression(expression) ? expression.name.text : expression.getText();
  const callback = Object.hasOwn(CALLBACKS, name) ? CALLBACKS[name] : undefined;
  if (callback !== undefined) {
    const [level, at] = callback;
    const text = textOf(args[at]);
    return text === undefined ? undefined : { level, text, fields: ['reason'] };
  }
  if (!ts.isPropertyAccessExpression(expression) || !LEVELS.includes(name)) return undefined;
  if (!/(^|\W)log\??$/.test(expression.expression.getText())) return undefined;
  const text = textOf(args[1]) ?? textOf(args[0]);
  return text === undefined ? undefined : { level: name, text, fields: fieldsOf(args[0]) };
}

/** A line that is written a limited number of times, or the line that counts the others: a member of a `SummedLine`. */
function summedLineOf({ name, initializer }) {
  if (!['message', 'others'].includes(name.getText()) || !ts.isStringLiteral(initializer)) return undefined;
  return { level: 'by cause', text: initializer.text, fields: [] };
}

function linesIn(file) {
  const name = path.relative(PACKAGES, file);
  const text = readFileSync(file, 'utf8');
  const source = ts.createSourceFile(name, text, ts.ScriptTarget.Latest, true);
  const isSummed = text.includes('SummedLine');
  const lines = [];
  const visit = (node) => {
    let line;
    if (ts.isCallExpression(node)) line = lineOf(node);
    else if (isSummed && ts.isPropertyAssignment(node)) line = summedLineOf(node);
    if (line !== undefined) lines.push({ ...line, file: name });
    ts.forEachChild(node, visit);
  };
  visit(source);
  return lines;
}

function allLines() {
  return SOURCES.flatMap((directory) =>
    readdirSync(path.join(PACKAGES, directory), { recursive: true })
      .filter((name) => name.endsWith('.ts'))
      .sort()
      .flatMap((name) => linesIn(path.join(PACKAGES, directory, name))),
  );
}

export function logLines() {
  const lines = allLines();
  const sections = AREAS.map(([title, pattern], i) => {
    const own = lines.filter(
      ({ file }) => AREAS.findIndex(([, other]) => other.test(file)) === i && pattern.test(file),
    );
    const rows = new Map(own.map((line) => [line.level + line.text, line]));
    const cells = [...rows.values()].map(({ level, text, fields }) => [
      level,
      `\`${text}\``,
      [...new Set(fields)].map((field) => `\`${field}\``).join(' '),
    ]);
    return cells.length === 0 ? '' : `## ${title}\n\n${table(['level', '`msg`', 'fields'], cells)}\n`;
  });
  return `# Log lines

${GENERATED}

\`collector serve\` logs to standard error, one JSON object per line, with \`level\`, \`time\` (ISO 8601, UTC), \`msg\` and the fields below. On a terminal the lines are formatted for people. Under systemd each line has its priority (\`journalctl -u collector -p warning\`). \`--log-level\` sets the lowest level; \`debug\` and \`trace\` add where an error arose. No line contains a body, an API key, or a value of an event.

If standard error is not read, lines are dropped and requests are not delayed; a later line counts the dropped ones. A refused request is logged at the level of its [code](errors.md) as \`refused\`, with \`code\`, \`status\`, \`requestId\` and \`remote\`, and \`kind\`, \`organisation\` and \`keyId\` where they are known. In ten seconds at most 100 lines of one cause are written, or one if no key was proven; a line that ends in "not listed" counts the others. A warning about an unwise configuration at a start has its own words.

${sections.filter((text) => text !== '').join('\n')}`;
}

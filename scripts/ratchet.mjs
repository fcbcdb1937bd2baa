// Compares sizes of the code base with ceilings in ratchet.json, which may only fall.
//
//   (no option) fails when a figure is above its ceiling or has none, and lists ceilings that could be lower
//   --lower     lowers ceilings to today's figures
//   --set       sets all ceilings to today's figures; the commit gives the reason for one that rises
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import ts from 'typescript';

const CEILINGS = path.join(import.meta.dirname, 'ratchet.json');
const COMMANDS = ['check-proof', 'runs', 'verify', 'keys', 'serve'];
const LONGEST_FUNCTION = 70;
/** Files that may use import(): the tables of commands, formats, stores and optional packages. */
const TABLE = /(^|\/)(program|formats|open|optional)\.ts$/;
const ERROR = /(Error|Failure|Fault|Damaged)$/;
/** The share by which a ceiling must exceed its figure to be listed. */
const SLACK = 0.02;

process.chdir(path.dirname(import.meta.dirname));
const listed = execFileSync('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
  encoding: 'utf8',
  maxBuffer: 1 << 26,
});
const files = listed.split('\0').filter((file) => file !== '' && existsSync(file));
const texts = new Map();
function textOf(file) {
  if (!texts.has(file)) texts.set(file, readFileSync(file, 'utf8'));
  return texts.get(file);
}
const linesOf = (some) => some.reduce((sum, file) => sum + textOf(file).split('\n').length - 1, 0);

const isCode = (file) => /\.(ts|tsx|mts|mjs|js|css|sql|py)$/.test(file) && !file.includes('generated');
const isTest = (file) => /(^|\/)tests?\//.test(file) || /\.test\.ts$/.test(file);
const sources = files.filter(
  (file) => /^((packages|clients)\/[^/]+\/src|tools\/[^/]+)\//.test(file) && isCode(file) && !isTest(file),
);
const modules = sources.filter((file) => /\.(ts|tsx|mts|mjs)$/.test(file));
const trees = new Map(
  modules.map((file) => [file, ts.createSourceFile(file, textOf(file), ts.ScriptTarget.Latest, true)]),
);

/** Calls `see` with every node of a file. */
function visit(node, see) {
  see(node);
  ts.forEachChild(node, (child) => visit(child, see));
}

/** Counts the nodes that match. */
function count(some, isSuch) {
  let found = 0;
  for (const file of some) {
    visit(trees.get(file), (node) => {
      if (isSuch(node, file)) found++;
    });
  }
  return found;
}

function isLongFunction(node) {
  if (!ts.isFunctionLike(node) || node.body === undefined) return false;
  const file = node.getSourceFile();
  const line = (position) => file.getLineAndCharacterOfPosition(position).line;
  return line(node.end) - line(node.getStart()) + 1 > LONGEST_FUNCTION;
}

const isDynamicImport = (node) =>
  ts.isCallExpression(node) && node.expression.kind === ts.SyntaxKind.ImportKeyword;

const isErrorClass = (node) =>
  ts.isClassDeclaration(node) &&
  (node.heritageClauses ?? []).some(
    ({ token, types }) =>
      token === ts.SyntaxKind.ExtendsKeyword &&
      types.some(({ expression }) => ERROR.test(expression.getText())),
  );

const isZeroByDefault = (node) =>
  ts.isBinaryExpression(node) &&
  node.operatorToken.kind === ts.SyntaxKind.QuestionQuestionToken &&
  node.right.getText() === '0';

/** Whether an import loads a module at run time: it names a value, or nothing at all. */
function loads(statement) {
  if (ts.isExportDeclaration(statement)) {
    const { exportClause: clause } = statement;
    if (statement.isTypeOnly) return false;
    return (
      clause === undefined ||
      !ts.isNamedExports(clause) ||
      clause.elements.some(({ isTypeOnly }) => !isTypeOnly)
    );
  }
  const { importClause: clause } = statement;
  if (clause === undefined) return true;
  if (clause.phaseModifier === ts.SyntaxKind.TypeKeyword || clause.isTypeOnly) return false;
  const named = clause.namedBindings;
  return (
    clause.name !== undefined ||
    named === undefined ||
    !ts.isNamedImports(named) ||
    named.elements.some(({ isTypeOnly }) => !isTypeOnly)
  );
}

/** The files of this repository that a file imports. */
function importsOf(file) {
  return trees.get(file).statements.flatMap((statement) => {
    if (!ts.isImportDeclaration(statement) && !ts.isExportDeclaration(statement)) return [];
    if (statement.moduleSpecifier === undefined || !loads(statement)) return [];
    const found = resolve(file, statement.moduleSpecifier.text);
    return found === undefined ? [] : [found];
  });
}

function resolve(file, name) {
  const own = /^@clinical-events\/([^/]+)(?:\/(.+))?$/.exec(name);
  const stem = own
    ? `packages/${own[1]}/src/${own[2] ?? 'index'}`
    : name.startsWith('.') && path.posix.join(path.posix.dirname(file), name).replace(/\.m?js$/, '');
  if (!stem) return undefined;
  return [`${stem}.ts`, `${stem}/index.ts`, `${stem}.mts`, `${stem}.tsx`].find((one) => trees.has(one));
}

/** @returns the number of modules that are loaded before a command begins. */
function modulesOf(command) {
  const start = modules.find((file) => new RegExp(`/commands/(.+/)?${command}\\.ts$`).test(file));
  if (start === undefined) throw new Error(`ratchet: there is no file of the command ${command}`);
  const seen = new Set([start]);
  for (const file of seen) importsOf(file).forEach((other) => seen.add(other));
  return seen.size;
}

const packageOf = (file) => file.split('/').slice(0, 2).join('/');
const packages = [...new Set(sources.map(packageOf))].sort();
const figures = {
  ...Object.fromEntries(
    packages.map((name) => [`lines of ${name}`, linesOf(sources.filter((file) => packageOf(file) === name))]),
  ),
  'lines of tests': linesOf(
    files.filter((file) => isCode(file) && isTest(file) && !file.startsWith('bench/')),
  ),
  ...Object.fromEntries(COMMANDS.map((command) => [`modules that ${command} loads`, modulesOf(command)])),
  [`functions over ${LONGEST_FUNCTION} lines`]: count(modules, isLongFunction),
  'import() outside of the tables': count(
    modules,
    (node, file) => !TABLE.test(file) && isDynamicImport(node),
  ),
  'error classes': count(modules, isErrorClass),
  requirements: (textOf('docs/SPEC.md').match(/^- \*\*R-\d+/gm) ?? []).length,
  '?? 0 in catalogue and store': count(
    modules.filter((file) => /\/(catalogue|store|postgres)\//.test(file)),
    isZeroByDefault,
  ),
};

const ceilings = existsSync(CEILINGS) ? JSON.parse(readFileSync(CEILINGS, 'utf8')) : {};
const [, , option] = process.argv;
if (option !== undefined && option !== '--lower' && option !== '--set') {
  process.stderr.write('usage: node scripts/ratchet.mjs [--lower | --set]\n');
  process.exit(2);
}
const kept = Object.entries(figures).map(([name, figure]) => {
  const ceiling = ceilings[name];
  if (option === '--set' || (option === '--lower' && figure < ceiling)) return [name, figure];
  if (ceiling === undefined) {
    process.stderr.write(`ratchet: ${name}: ${figure}, and ratchet.json has no ceiling for it\n`);
    process.exitCode = 1;
  } else if (figure > ceiling) {
    process.stderr.write(`ratchet: ${name}: ${figure}, and the ceiling is ${ceiling}\n`);
    process.exitCode = 1;
  } else if (figure < ceiling * (1 - SLACK)) {
    process.stdout.write(`ratchet: ${name}: ${figure}, far below the ceiling of ${ceiling} (--lower)\n`);
  }
  return [name, ceiling];
});
for (const name of Object.keys(ceilings)) {
  if (!(name in figures)) process.stdout.write(`ratchet: ${name}: is no longer measured (--lower)\n`);
}
if (option !== undefined) {
  writeFileSync(CEILINGS, `${JSON.stringify(Object.fromEntries(kept), undefined, 2)}\n`);
}

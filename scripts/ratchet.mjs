// Holds ceilings that may only fall: how much there is of what makes the code base heavy. They stand in ratchet.json.
//
//   (nothing)   fails when a figure is above its ceiling, or has none; tells which ceilings could be lower
//   --lower     writes today's figures where they are below their ceilings
//   --set       writes today's figures, whatever they are: for a change that raises one, with the reason in its commit
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import process from 'node:process';
import ts from 'typescript';

const CEILINGS = path.join(import.meta.dirname, 'ratchet.json');
const COMMANDS = ['check-proof', 'runs', 'verify', 'keys', 'serve'];
const LONGEST_FUNCTION = 70;
/** Files that may load others by import(): the tables of commands, formats, stores and optional packages. */
const TABLE = /(^|\/)(program|formats|open|optional)\.ts$/;
const ERROR = /(Error|Failure|Fault|Damaged)$/;
/** A ceiling that is above its figure by more than this share is worth lowering. */
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

/** How many nodes of some files are such. */
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

/** Whether a statement loads a module when the program runs: it names a value, or nothing. */
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

/** What a file imports of this repository. */
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

/** @returns how many modules are loaded before a command begins. */
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
  if (!(name in figures)) process.stdout.write(`ratchet: ${name}: is there no longer (--lower)\n`);
}
if (option !== undefined) {
  writeFileSync(CEILINGS, `${JSON.stringify(Object.fromEntries(kept), undefined, 2)}\n`);
}

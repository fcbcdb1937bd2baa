/** The programs and snippets that a README shows. */
import fs from 'node:fs';
import path from 'node:path';
import ts from 'typescript';

export function snippetsOf(readme: string): string[] {
  return [...readme.matchAll(/^```(?:js|ts)\n([^]*?)^```$/gm)].map(([, code = '']) => code);
}

const TEXTS = ['runId', 'url', 'apiKey', 'directory', 'question', 'report', 'accessKeyId', 'secretAccessKey'];

/** What a snippet may use without importing or declaring it. */
const KNOWN: Readonly<Record<string, string>> = {
  log: "declare const log: import('@clinical-events/client').Client;",
  run: "declare const run: import('@clinical-events/client').Run;",
  createClient: "import { createClient } from '@clinical-events/client';",
  ...Object.fromEntries(TEXTS.map((name) => [name, `declare const ${name}: string;`])),
};

function wholeModule(snippet: string, known: Readonly<Record<string, string>>): string {
  const missing = Object.entries(known).filter(
    ([name]) =>
      new RegExp(`(?<![\\w.])${name}\\b(?!:)`).test(snippet) &&
      !new RegExp(`(const|of|import) [^;=]*\\b${name}\\b|\\(${name}\\) =>`).test(snippet),
  );
  return [...missing.map(([, declared]) => declared), snippet, 'export {};'].join('\n');
}

/** The errors of the compiler in the snippets, as modules of that package's tests. */
export function faultsOf(
  packageDirectory: string,
  snippets: readonly string[],
  more: Readonly<Record<string, string>> = {},
) {
  const modules = new Map(
    snippets.map((snippet, at) => [
      path.join(packageDirectory, `test/readme-${at}.mts`),
      wholeModule(snippet, { ...KNOWN, ...more }),
    ]),
  );
  const options: ts.CompilerOptions = {
    ...{ strict: true, noImplicitAny: false, noEmit: true, skipLibCheck: true, types: ['node'] },
    target: ts.ScriptTarget.ES2024,
    module: ts.ModuleKind.NodeNext,
    typeRoots: [path.join(packageDirectory, '../../node_modules/@types')],
  };
  const host = ts.createCompilerHost(options);
  const disk = ts.createCompilerHost(options);
  host.fileExists = (file) => modules.has(file) || disk.fileExists(file);
  host.readFile = (file) => modules.get(file) ?? disk.readFile(file);
  return ts.getPreEmitDiagnostics(ts.createProgram([...modules.keys()], options, host)).map((fault) => ({
    snippet: fault.file && modules.get(fault.file.fileName),
    message: ts.flattenDiagnosticMessageText(fault.messageText, '\n'),
  }));
}

export function readmeOf(packageDirectory: string): string {
  return fs.readFileSync(path.join(packageDirectory, 'README.md'), 'utf8');
}

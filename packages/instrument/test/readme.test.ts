/** The README's snippets compile. Needs packages/client/dist and packages/instrument/dist. */
import path from 'node:path';
import { expect, test } from 'vitest';
import { faultsOf, readmeOf, snippetsOf } from '../../client/test/running/readme-snippets.js';

const PACKAGE = path.resolve(import.meta.dirname, '..');
const readme = readmeOf(PACKAGE);

test('every snippet of the README compiles', () => {
  const snippets = snippetsOf(readme);
  expect(snippets.length).toBeGreaterThan(6);
  const faults = faultsOf(PACKAGE, snippets, {
    openaiFetch: "import { openaiFetch } from '@clinical-events/instrument/openai';",
    OpenAI: "import OpenAI from 'openai';",
    model: "declare const model: Parameters<typeof import('ai').wrapLanguageModel>[0]['model'];",
    chain: "declare const chain: import('@langchain/core/runnables').Runnable;",
  });
  expect(faults).toEqual([]);
});

test('the README links only to itself and the web', () => {
  expect(readme).not.toMatch(/\]\((?!https:|#)/);
});

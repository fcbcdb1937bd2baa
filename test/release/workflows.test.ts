import fs from 'node:fs';
import { registerHooks } from 'node:module';
import path from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';
import { ROOT, textOf } from '../deployment/repository.js';

// The parser imports JSON without an attribute, as only bundlers permit.
const hooks = registerHooks({
  resolve(name, context, next) {
    const found = next(name, context);
    return name.endsWith('.json') ? { ...found, importAttributes: { type: 'json' } } : found;
  },
});
const { convertWorkflowTemplate, NoOperationTraceWriter, parseWorkflow } =
  await import('@actions/workflow-parser');
hooks.deregister();

const DIRECTORY = '.github/workflows';
const FILES = fs.readdirSync(path.join(ROOT, DIRECTORY));

interface Step {
  readonly uses?: string;
  readonly run?: string;
  readonly with?: Readonly<Record<string, unknown>>;
}
interface Job {
  readonly uses?: string;
  readonly permissions?: Readonly<Record<string, string>>;
  readonly steps?: readonly Step[];
}
interface Workflow {
  readonly permissions: Readonly<Record<string, string>>;
  readonly jobs: Readonly<Record<string, Job>>;
}

const workflow = (file: string) => parse(textOf(`${DIRECTORY}/${file}`)) as Workflow;
const stepsOf = (file: string) => Object.values(workflow(file).jobs).flatMap(({ steps = [] }) => steps);
const manifest = JSON.parse(textOf('package.json')) as {
  readonly scripts: Readonly<Record<string, string>>;
  readonly dependencies: Readonly<Record<string, string>>;
};

/** The errors of GitHub's own parser, with the places of the faults. */
async function errorsIn(name: string, content: string): Promise<string[]> {
  const trace = new NoOperationTraceWriter();
  const { context, value } = parseWorkflow({ name, content }, trace);
  if (value !== undefined) await convertWorkflowTemplate(context, value);
  return context.errors.getErrors().map(({ message }) => message);
}

test('[R-2052] the workflows are valid to the parser of GitHub', async () => {
  expect(FILES).toEqual(['release.yaml', 'test.yaml']);
  for (const file of FILES) expect(await errorsIn(file, textOf(`${DIRECTORY}/${file}`)), file).toEqual([]);
  const wrong = textOf(`${DIRECTORY}/test.yaml`).replace('runs-on:', 'run-on:');
  expect(await errorsIn('wrong.yaml', wrong)).not.toEqual([]);
});

test('[R-2052] the workflows call scripts of this repository and nothing else', () => {
  const commands = FILES.flatMap((file) => stepsOf(file).flatMap(({ run }) => run ?? []));
  expect(commands).toEqual(['npm run release:dry-run', '.ci/run']);
  for (const command of commands) {
    const [, script] = /^npm run (\S+)$/.exec(command) ?? [];
    if (script === undefined) fs.accessSync(path.join(ROOT, command), fs.constants.X_OK);
    else expect(manifest.scripts).toHaveProperty([script]);
  }
});

test('[R-2052] the workflows pin actions of GitHub to commits, and use the Node.js of the tests', () => {
  for (const file of FILES) {
    for (const { uses, with: options = {} } of stepsOf(file)) {
      if (uses !== undefined) expect(uses, file).toMatch(/^actions\/[a-z-]+@[0-9a-f]{40}$/);
      if (uses?.startsWith('actions/setup-node@'))
        expect(options['node-version'], file).toBe(manifest.dependencies['node']);
      if (uses?.startsWith('actions/checkout@')) expect(options['persist-credentials'], file).toBe(false);
    }
  }
});

test('[R-2052] a release is tested first, and only the job that attests its sums may sign', () => {
  for (const file of FILES) expect(workflow(file).permissions, file).toEqual({ contents: 'read' });
  const { test: tested, artifacts } = workflow('release.yaml').jobs;
  expect([tested?.uses, tested?.permissions]).toEqual([`./${DIRECTORY}/test.yaml`, undefined]);
  expect(artifacts).toMatchObject({
    needs: 'test',
    permissions: { contents: 'read', 'id-token': 'write', attestations: 'write' },
  });
  const [attested] = (artifacts?.steps ?? []).filter(({ uses }) => uses?.includes('/attest-'));
  expect(attested?.with).toEqual({ 'subject-checksums': 'release/SHA256SUMS' });
});

import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { build, rendered } from '../../scripts/release/kubernetes.mjs';
import { ROOT } from '../deployment/repository.js';

interface Resource {
  readonly kind: string;
  readonly metadata: { readonly name: string };
}

const resourcesIn = (text: string, version: '1.1' | '1.2' = '1.2') =>
  parseAllDocuments(text, { version }).map((each) => each.toJS() as Resource);
const VERSION = '9.8.7';

async function built(): Promise<Record<string, string>> {
  const out = fs.mkdtempSync(path.join(os.tmpdir(), 'manifests-'));
  onTestFinished(() => fs.rmSync(out, { recursive: true, force: true }));
  await build(out, { version: VERSION, commit: 'c'.repeat(40) });
  return Object.fromEntries(
    fs.readdirSync(out).map((name) => [name, fs.readFileSync(path.join(out, name), 'utf8')]),
  );
}

test('[R-2052] the manifests of a release have its version in every image, and the names of their sources', async () => {
  const files = await built();
  const names = Object.fromEntries(
    Object.entries(files).map(([file, text]) => [
      file,
      resourcesIn(text).map(({ kind, metadata }) => `${kind} ${metadata.name}`),
    ]),
  );
  const base = ['ServiceAccount collector', 'Service collector', 'StatefulSet collector'];
  const last = ['PodDisruptionBudget collector', 'NetworkPolicy collector'];
  expect(names).toEqual({
    [`collector-kubernetes-${VERSION}.yaml`]: [...base, ...last],
    [`collector-kubernetes-postgres-${VERSION}.yaml`]: [...base, 'CronJob collector-maintain', ...last],
    [`collector-kubernetes-postgres-migrate-${VERSION}.yaml`]: ['Job collector-migrate'],
  });
  for (const [file, text] of Object.entries(files)) {
    expect(text, file).toContain(`# Collector ${VERSION}, commit ${'c'.repeat(40)}`);
    const images = [...text.matchAll(/^ *(?:- )?image: (.*)$/gm)].map(([, image]) => image);
    expect([...new Set(images)], file).toEqual([`collector:${VERSION}`]);
  }
});

test('[R-2052] the manifests mean the same to a reader of YAML 1.1, as kubectl is', async () => {
  const files = await built();
  for (const [file, text] of Object.entries(files))
    expect(resourcesIn(text, '1.1'), file).toEqual(resourcesIn(text));
  const postgres = files[`collector-kubernetes-postgres-${VERSION}.yaml`];
  expect(postgres).toMatch(/ name: COLLECTOR_ENCRYPTION\n +value: "on"\n/);
});

test('[R-2052] the manifests are what kubectl kustomize renders', () => {
  if (spawnSync('kubectl', ['kustomize', '--help']).status !== 0) {
    console.log('There is no kubectl here: the manifests are not compared with its rendering.');
    return;
  }
  for (const overlay of ['base', 'postgres', 'postgres/migrate']) {
    const directory = path.join(ROOT, 'deploy/kubernetes', overlay);
    const { stdout, stderr } = spawnSync('kubectl', ['kustomize', directory], { encoding: 'utf8' });
    expect(stderr).toBe('');
    expect(rendered(overlay), overlay).toEqual(resourcesIn(stdout));
  }
});

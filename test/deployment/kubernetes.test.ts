import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import type { StatefulSet } from 'kubernetes-types/apps/v1.js';
import type { Container, PodSpec, Service } from 'kubernetes-types/core/v1.js';
import type { NetworkPolicy } from 'kubernetes-types/networking/v1.js';
import type { PodDisruptionBudget } from 'kubernetes-types/policy/v1.js';
import ts from 'typescript';
import { describe, expect, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { isTokenInClear } from '../../packages/collector/src/commands/serve/management.js';
import { configFrom, CONTAINER_USER, LONGEST_STOP_S, ROOT, yamlOf } from './repository.js';

const DIRECTORY = 'deploy/kubernetes';
const hasKubectl = spawnSync('kubectl', ['kustomize', '--help']).status === 0;
/** Where kubernetes-types declares each kind, as generated from the API of Kubernetes. */
const MODULES: Readonly<Record<string, string>> = {
  StatefulSet: 'apps/v1',
  Service: 'core/v1',
  ServiceAccount: 'core/v1',
  PodDisruptionBudget: 'policy/v1',
  NetworkPolicy: 'networking/v1',
};

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
}
interface Kustomization extends Manifest {
  readonly resources: readonly string[];
}

function manifests(folder: string): Map<string, Manifest> {
  const files = fs
    .readdirSync(path.join(ROOT, DIRECTORY, folder))
    .filter((file) => file !== 'kustomization.yaml');
  return new Map(files.map((file) => [file, yamlOf(`${DIRECTORY}/${folder}/${file}`) as Manifest]));
}

/** What the compiler says of objects that are declared to be of their Kubernetes type: unknown fields, wrong values. */
function typeFaults(objects: readonly Manifest[]): string[] {
  const source = objects
    .map((object, i) => {
      const { kind } = object;
      // A patch says only what it changes, but for the names that it must find.
      const type = `import('kubernetes-types/${MODULES[kind] ?? 'unknown'}').${kind}`;
      return `export const manifest${i}: ${type} = ${JSON.stringify(object)};`;
    })
    .join('\n');
  const file = path.join(ROOT, 'test/deployment/manifests.generated.ts');
  const options: ts.CompilerOptions = {
    ...{ strict: true, noEmit: true, skipLibCheck: true, types: [], lib: ['lib.es2022.d.ts'] },
    ...{ module: ts.ModuleKind.NodeNext, moduleResolution: ts.ModuleResolutionKind.NodeNext },
  };
  const host = ts.createCompilerHost(options);
  const inherited = { read: host.getSourceFile.bind(host), exists: host.fileExists.bind(host) };
  host.fileExists = (name) => name === file || inherited.exists(name);
  host.getSourceFile = (name, ...rest) =>
    name === file ? ts.createSourceFile(name, source, ts.ScriptTarget.ES2022) : inherited.read(name, ...rest);
  const program = ts.createProgram([file], options, host);
  return ts
    .getPreEmitDiagnostics(program)
    .map(({ messageText }) => ts.flattenDiagnosticMessageText(messageText, '\n'));
}

const base = manifests('base');
const statefulSet = base.get('statefulset.yaml') as StatefulSet;
const pod = statefulSet.spec?.template.spec as PodSpec;
const [container] = pod.containers as [Container];
const env = (of: Container) =>
  Object.fromEntries((of.env ?? []).map(({ name, value = '' }) => [name, value]));
const config = configFrom(env(container));

describe('[R-844] the manifests', () => {
  test('are what the API of Kubernetes declares', () => {
    const all = [...base.values()];
    for (const { kind, apiVersion } of all) {
      expect(MODULES[kind]?.replace(/^core\//, ''), kind).toMatch(
        new RegExp(`${apiVersion.split('/').at(-1) ?? ''}$`),
      );
    }
    expect(typeFaults(all)).toEqual([]);
    const wrong = { ...statefulSet, spec: { ...statefulSet.spec, replica: 1 } } as unknown as Manifest;
    expect(typeFaults([wrong]).join()).toContain('replica');
  });

  test('are all listed by their kustomization', () => {
    const { resources } = yamlOf(`${DIRECTORY}/base/kustomization.yaml`) as Kustomization;
    expect([...resources].sort()).toEqual([...base.keys()].sort());
  });

  test.skipIf(!hasKubectl)('come together', () => {
    const { stdout, stderr } = spawnSync('kubectl', ['kustomize', path.join(ROOT, DIRECTORY, 'base')], {
      encoding: 'utf8',
    });
    expect(stderr).toBe('');
    const made = parseAllDocuments(stdout).map((document) => document.toJS() as Manifest);
    expect(typeFaults(made)).toEqual([]);
    const whole = made.find(({ kind }) => kind === 'StatefulSet') as StatefulSet;
    const [secured] = whole.spec?.template.spec?.containers as [Container];
    expect(configFrom(env(secured)).tlsKey).toBe('/etc/collector/tls/tls.key');
    expect(secured.volumeMounts?.map(({ name }) => name).sort()).toEqual(['data', 'secret', 'tls', 'tmp']);
    expect(secured.image).toBe(container.image);
  });

  test('run one collector, whose volume outlives it and lets no second one in', () => {
    expect(statefulSet.spec?.replicas).toBe(1);
    expect(statefulSet.spec?.persistentVolumeClaimRetentionPolicy).toEqual({
      ...{ whenDeleted: 'Retain', whenScaled: 'Retain' },
    });
    const [claim] = statefulSet.spec?.volumeClaimTemplates ?? [];
    expect(claim?.spec?.accessModes).toEqual(['ReadWriteOncePod']);
    const mount = container.volumeMounts?.find(({ name }) => name === claim?.metadata?.name);
    expect(mount?.mountPath).toBe('/data');
  });

  test('keep to the restricted pod security standard, as the user of the image', () => {
    expect(pod.securityContext).toMatchObject({
      ...{
        runAsNonRoot: true,
        runAsUser: CONTAINER_USER,
        runAsGroup: CONTAINER_USER,
        fsGroup: CONTAINER_USER,
      },
      seccompProfile: { type: 'RuntimeDefault' },
    });
    expect(container.securityContext).toEqual({
      ...{ allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } },
    });
    expect(pod.automountServiceAccountToken).toBe(false);
    const volumes = pod.volumes?.map((volume) => Object.keys(volume).filter((key) => key !== 'name'));
    expect(volumes?.flat().every((type) => ['emptyDir', 'secret'].includes(type))).toBe(true);
  });

  test('set what the collector takes, and nothing that Kubernetes makes up', () => {
    expect(config.managementHost).toBe('0.0.0.0');
    expect(pod.enableServiceLinks).toBe(false);
    const secret = container.volumeMounts?.find(({ name }) => name === 'secret');
    expect(path.posix.dirname(config.managementTokenFile)).toBe(secret?.mountPath);
  });

  test('let no event and no operator token cross the cluster in the clear', () => {
    const mounted = container.volumeMounts?.find(({ name }) => name === 'tls')?.mountPath;
    expect([config.tlsCert, config.tlsKey]).toEqual([`${mounted}/tls.crt`, `${mounted}/tls.key`]);
    const volume = pod.volumes?.find(({ name }) => name === 'tls');
    expect(volume?.secret?.secretName).toBe('collector-tls');
    // What the console would warn of.
    expect(isTokenInClear(config)).toBe(false);
    expect(isTokenInClear({ ...config, tlsCert: '' })).toBe(true);
  });

  test('name the ports that the collector listens on', () => {
    expect(container.ports).toEqual([
      { name: 'ingest', containerPort: config.port },
      { name: 'management', containerPort: config.managementPort },
    ]);
    const service = base.get('service.yaml') as Service;
    expect(service.spec?.ports?.map(({ name, port, targetPort }) => [name, port, targetPort])).toEqual([
      ['ingest', config.port, 'ingest'],
      ['management', config.managementPort, 'management'],
    ]);
    const policy = base.get('networkpolicy.yaml') as NetworkPolicy;
    expect(policy.spec?.ingress?.flatMap(({ ports: open }) => open?.map(({ port }) => port))).toEqual([
      ...['ingest', 'management'],
    ]);
  });

  test('ask whether it lives and whether it can take events, each where it is answered', () => {
    const { startupProbe, livenessProbe, readinessProbe } = container;
    const asked = [startupProbe, livenessProbe, readinessProbe].map((probe) => probe?.httpGet);
    expect(asked).toEqual([
      { path: '/livez', port: 'management' },
      { path: '/livez', port: 'management' },
      { path: '/readyz', port: 'management' },
    ]);
  });

  test('select the pod by the labels that it has', () => {
    const labels = statefulSet.spec?.template.metadata?.labels;
    expect(statefulSet.spec?.selector.matchLabels).toEqual(labels);
    expect((base.get('service.yaml') as Service).spec?.selector).toEqual(labels);
    const budget = base.get('poddisruptionbudget.yaml') as PodDisruptionBudget;
    expect(budget.spec?.selector?.matchLabels).toEqual(labels);
    // With one pod, a budget that keeps one up stops every drain.
    expect(budget.spec?.maxUnavailable).toBe(1);
    expect((base.get('networkpolicy.yaml') as NetworkPolicy).spec?.podSelector.matchLabels).toEqual(labels);
  });

  test('wait longer than an orderly stop takes', () => {
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(LONGEST_STOP_S);
  });
});

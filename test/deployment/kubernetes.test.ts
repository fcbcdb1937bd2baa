/** The manifests must agree with the collector, its image and each other. `kubectl` checks their validity. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { isTokenInClear } from '../../packages/collector/src/commands/serve/management.js';
import { newKekFile, openKek } from '../../packages/collector/src/privacy/key-encryption-key.js';
import { parseAddress } from '../../packages/postgres/src/address.js';
import { rendered } from '../../scripts/release/kubernetes.mjs';
import { at, configFrom, CONTAINER_USER, LONGEST_STOP_S, ROOT, textOf, yamlOf } from './repository.js';

const DIRECTORY = 'deploy/kubernetes';
const POD = 'spec.template.spec';
const LABELS = 'spec.template.metadata.labels';

interface Manifest {
  readonly kind: string;
}
interface EnvVar {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: { readonly secretKeyRef: { readonly name: string; readonly key: string } };
}
interface Container {
  readonly image: string;
  readonly args?: readonly string[];
  readonly env?: readonly EnvVar[];
  readonly securityContext: unknown;
  readonly volumeMounts?: readonly { readonly name: string; readonly mountPath: string }[];
}

const filesOf = (folder: string) =>
  fs
    .readdirSync(path.join(ROOT, DIRECTORY, folder))
    .filter((file) => file.endsWith('.yaml') && file !== 'kustomization.yaml');
const manifest = (file: string) => yamlOf(`${DIRECTORY}/${file}.yaml`);
const containerOf = (tree: unknown, to = POD) => at<Container>(tree, `${to}.containers.0`);
const mountOf = ({ volumeMounts }: Container, volume: string) =>
  volumeMounts?.find(({ name }) => name === volume)?.mountPath ?? '';
const mountsOf = ({ volumeMounts }: Container) => volumeMounts?.map(({ name }) => name).toSorted();
const variable = ({ env }: Container, name: string) => env?.find((each) => each.name === name);

/** The variables whose values are in the manifest. */
function plainOf({ env = [] }: Container): Record<string, string> {
  return Object.fromEntries(
    env.flatMap(({ name, value = '', valueFrom }) => (valueFrom === undefined ? [[name, value]] : [])),
  );
}

/** The manifests of an overlay in a release, by kind. */
const kustomized = (folder: string) =>
  new Map<string, unknown>((rendered(folder) as Manifest[]).map((each) => [each.kind, each]));

const statefulSet = manifest('base/statefulset');
const container = containerOf(statefulSet);
const config = configFrom(plainOf(container));

describe('[R-1400] the manifests', () => {
  test('are all listed by their kustomizations', () => {
    const listed = (folder: string) => {
      const kustomization = manifest(`${folder}/kustomization`);
      const patches = at<{ path?: string }[] | undefined>(kustomization, 'patches') ?? [];
      const files = patches.flatMap((each) => each.path ?? []);
      return [...at<string[]>(kustomization, 'resources'), ...files].toSorted();
    };
    expect(listed('base')).toEqual(filesOf('base').toSorted());
    expect(listed('postgres')).toEqual(['../base', ...filesOf('postgres')].toSorted());
    expect(listed('postgres/migrate')).toEqual(filesOf('postgres/migrate'));
  });

  test('run one collector, whose volumes outlive it and allow only one pod', () => {
    expect(at(statefulSet, 'spec.replicas')).toBe(1);
    expect(at(statefulSet, 'spec.persistentVolumeClaimRetentionPolicy')).toEqual({
      ...{ whenDeleted: 'Retain', whenScaled: 'Retain' },
    });
    const claims = at<object[]>(statefulSet, 'spec.volumeClaimTemplates');
    expect(claims.map((claim) => mountOf(container, at(claim, 'metadata.name')))).toEqual(['/data', '/keys']);
    for (const claim of claims) expect(at(claim, 'spec.accessModes')).toEqual(['ReadWriteOncePod']);
    // [R-1400]
    expect([config.encryption, config.encryptionKeys]).toEqual(['auto', '/keys']);
  });

  test('keep to the restricted pod security standard, as the user of the image', () => {
    expect(at(statefulSet, `${POD}.securityContext`)).toMatchObject({
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
    expect(at(statefulSet, `${POD}.automountServiceAccountToken`)).toBe(false);
    expect(at(statefulSet, `${POD}.terminationGracePeriodSeconds`)).toBeGreaterThan(LONGEST_STOP_S);
  });

  test('set valid variables, and encrypt events and the operator token within the cluster', () => {
    expect(config.managementHost).toBe('0.0.0.0');
    expect(at(statefulSet, `${POD}.enableServiceLinks`)).toBe(false);
    expect(path.posix.dirname(config.managementTokenFile)).toBe(mountOf(container, 'secret'));
    expect(path.posix.dirname(config.tlsKey)).toBe(mountOf(container, 'tls'));
    // The console would warn of this.
    expect([isTokenInClear(config), isTokenInClear({ ...config, tlsCert: '' })]).toEqual([false, true]);
  });

  test('name the ports of the collector, and probe there whether it lives and accepts events', () => {
    expect(at(container, 'ports')).toEqual([
      { name: 'ingest', containerPort: config.port },
      { name: 'management', containerPort: config.managementPort },
    ]);
    expect(at(manifest('base/service'), 'spec.ports')).toMatchObject([
      { port: config.port, targetPort: 'ingest' },
      { port: config.managementPort, targetPort: 'management' },
    ]);
    const probes = ['startup', 'liveness', 'readiness'].map((name) => at(container, `${name}Probe.httpGet`));
    expect(probes).toEqual(
      ['/livez', '/livez', '/readyz'].map((where) => ({ path: where, port: 'management' })),
    );
  });

  test('select the pod by the labels that it has', () => {
    const labels = at(statefulSet, LABELS);
    expect(at(statefulSet, 'spec.selector.matchLabels')).toEqual(labels);
    expect(at(manifest('base/service'), 'spec.selector')).toEqual(labels);
    const budget = manifest('base/poddisruptionbudget');
    expect(at(budget, 'spec.selector.matchLabels')).toEqual(labels);
    // With one pod, a budget that keeps one up stops every drain.
    expect(at(budget, 'spec.maxUnavailable')).toBe(1);
    expect(at(manifest('base/networkpolicy'), 'spec.podSelector.matchLabels')).toEqual(labels);
  });
});

const several = manifest('postgres/statefulset');
const patched = containerOf(several);
/** As in the secret, from the comment beside the variable. */
const STORE = /# (postgres:\/\/\S+)/.exec(textOf(`${DIRECTORY}/postgres/statefulset.yaml`))?.[1] ?? '';
const KEYS = variable(patched, 'COLLECTOR_ENCRYPTION_KEYS')?.value ?? '';

describe('[R-1400] the manifests for a log in PostgreSQL', () => {
  test('are rendered with those that they change', () => {
    expect(kustomized('postgres/migrate').has('Job')).toBe(true);
    const made = kustomized('postgres');
    const whole = made.get('StatefulSet');
    const secured = containerOf(whole);
    const { store, tlsKey, encryption, encryptionKeys } = configFrom({
      ...plainOf(secured),
      COLLECTOR_STORE: STORE,
    });
    // [R-1400]
    expect([store, tlsKey, encryption, encryptionKeys]).toEqual([STORE, config.tlsKey, 'on', KEYS]);
    expect(mountsOf(secured)).toEqual(
      ['data', 'keys-ca', 'run', 'secret', 'signing-key', 'store-ca', 'tls', 'tmp'].sort(),
    );
    expect(secured.securityContext).toEqual(container.securityContext);
    expect(
      at<object[]>(whole, 'spec.volumeClaimTemplates').map((claim) => at(claim, 'metadata.name')),
    ).toEqual(['data']);
    const opened = at<object[]>(made.get('NetworkPolicy'), 'spec.egress').flatMap((to) =>
      at<object[]>(to, 'ports'),
    );
    expect(opened.map((to) => at(to, 'port'))).toEqual([5432, 53, 53]);
    expect(mountsOf(containerOf(kustomized('base').get('StatefulSet')))).toEqual(mountsOf(container));
  });

  test('keep the collectors on different nodes', () => {
    const apart = 'affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution';
    expect(at(several, `${POD}.${apart}`)).toEqual([
      { topologyKey: 'kubernetes.io/hostname', labelSelector: { matchLabels: at(statefulSet, LABELS) } },
    ]);
  });

  test('take the address of the database and the signing key from secrets', () => {
    const { hosts, user, database } = parseAddress(STORE.replace(/\?.*/, '?sslmode=verify-full'));
    expect([hosts[0]?.host, user, database]).toEqual(['collector-db-rw', 'collector', 'collector']);
    const { secretKeyRef } = variable(patched, 'COLLECTOR_STORE')?.valueFrom ?? {};
    expect(secretKeyRef).toEqual({ name: 'collector-store', key: 'url' });
    expect(configFrom(plainOf(patched)).signingKeys).toBe(mountOf(patched, 'signing-key'));
    expect(STORE).toContain(`sslrootcert=${mountOf(patched, 'store-ca')}/ca.crt`);
  });

  test('[R-1400] encrypt by keys on another cluster, and pass passwords and KEK in private files', () => {
    const { hosts, user } = parseAddress(KEYS.replace(/\?.*/, '?sslmode=verify-full'));
    expect([hosts[0]?.host, user]).toEqual(['collector-keys-db-rw', 'collector_keys']);
    const plain = plainOf(patched);
    const directory = mountOf(patched, 'run');
    expect([configFrom(plain).kek, plain['PGPASSFILE']]).toEqual([
      `file:${directory}/kek`,
      `${directory}/pgpass`,
    ]);
    const secrets = at<Container>(several, `${POD}.initContainers.0`);
    expect([secrets.image, secrets.securityContext]).toEqual([container.image, container.securityContext]);
    const made = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-secrets-'));
    onTestFinished(() => fs.rmSync(made, { recursive: true, force: true }));
    const [script = ''] = secrets.args ?? [];
    const env = { PASSWORD: 'one', KEYS_PASSWORD: 'two', KEK: newKekFile().toString().trim() };
    expect(secrets.env?.map(({ name }) => name)).toEqual(Object.keys(env));
    expect(spawnSync('sh', ['-euc', script.replaceAll(directory, made)], { env }).status).toBe(0);
    expect(fs.readFileSync(path.join(made, 'pgpass'), 'utf8')).toBe(
      '*:*:*:collector:one\n*:*:*:collector_keys:two\n',
    );
    expect(openKek(`file:${path.join(made, 'kek')}`)).toBeDefined();
    expect(fs.statSync(path.join(made, 'pgpass')).mode & 0o777).toBe(0o600);
  });

  test('run commands as the owner of the tables in pods that get no event from the Service', () => {
    for (const [template, args] of [
      [at(manifest('postgres/cronjob'), 'spec.jobTemplate.spec.template'), ['store', 'maintain']],
      [at(manifest('postgres/migrate/job'), 'spec.template'), ['store', 'migrate']],
    ] as const) {
      const one = containerOf(template, 'spec');
      expect([one.args, one.image, one.securityContext]).toEqual([
        args,
        container.image,
        container.securityContext,
      ]);
      expect(at(template, 'spec.securityContext')).toMatchObject({
        runAsNonRoot: true,
        runAsUser: CONTAINER_USER,
      });
      expect(variable(one, 'COLLECTOR_STORE')?.valueFrom?.secretKeyRef.name).toBe('collector-store-owner');
      expect(at(template, 'metadata.labels')).not.toEqual(at(statefulSet, LABELS));
    }
  });
});

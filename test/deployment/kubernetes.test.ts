import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, onTestFinished, test } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { isTokenInClear } from '../../packages/collector/src/commands/serve/management.js';
import { newKekFile, openKek } from '../../packages/collector/src/privacy/key-encryption-key.js';
import { parseAddress } from '../../packages/postgres/src/address.js';
import { configFrom, CONTAINER_USER, LONGEST_STOP_S, ROOT, textOf, yamlOf } from './repository.js';

const DIRECTORY = 'deploy/kubernetes';
const hasKubectl = spawnSync('kubectl', ['kustomize', '--help']).status === 0;
/** What is read of a container here; whether all is what Kubernetes knows, `kubectl` finds out. */
interface EnvVar {
  readonly name: string;
  readonly value?: string;
  readonly valueFrom?: { readonly secretKeyRef?: { readonly name: string; readonly key: string } };
}
interface Named {
  readonly name: string;
}
interface Container {
  readonly image: string;
  readonly args?: readonly string[];
  readonly env?: readonly EnvVar[];
  readonly ports: unknown;
  readonly securityContext: unknown;
  readonly volumeMounts?: readonly (Named & { readonly mountPath: string; readonly readOnly?: boolean })[];
  readonly startupProbe: Probe;
  readonly livenessProbe: Probe;
  readonly readinessProbe: Probe;
}
interface Probe {
  readonly httpGet: unknown;
}
type Labels = Readonly<Record<string, string>>;
interface Pod {
  readonly metadata?: { readonly labels?: Labels };
  readonly spec: {
    readonly containers: readonly [Container];
    readonly initContainers?: readonly Container[];
    readonly volumes?: readonly (Named & { readonly secret?: { readonly secretName: string } })[];
    readonly securityContext: unknown;
    readonly automountServiceAccountToken?: boolean;
    readonly enableServiceLinks?: boolean;
    readonly terminationGracePeriodSeconds: number;
    readonly affinity?: {
      readonly podAntiAffinity: { readonly requiredDuringSchedulingIgnoredDuringExecution: unknown };
    };
  };
}
type StatefulSet = Manifest & {
  readonly spec: {
    readonly replicas?: number;
    readonly persistentVolumeClaimRetentionPolicy?: unknown;
    readonly volumeClaimTemplates?: readonly {
      readonly metadata: Named;
      readonly spec: { readonly accessModes?: unknown; readonly resources: { readonly requests: unknown } };
    }[];
    readonly selector: { readonly matchLabels: Labels };
    readonly template: Pod;
  };
};
type Job = Manifest & { readonly spec: { readonly template: Pod } };
type CronJob = Manifest & {
  readonly spec: { readonly jobTemplate: { readonly spec: { readonly template: Pod } } };
};
type Service = Manifest & {
  readonly spec: {
    readonly selector: Labels;
    readonly ports: readonly (Named & { readonly port: number; readonly targetPort: string })[];
  };
};
interface Ports {
  readonly ports?: readonly { readonly port: string | number }[];
}
type NetworkPolicy = Manifest & {
  readonly spec: {
    readonly podSelector: { readonly matchLabels: Labels };
    readonly ingress?: readonly Ports[];
    readonly egress?: readonly Ports[];
  };
};
type PodDisruptionBudget = Manifest & {
  readonly spec: { readonly maxUnavailable: number; readonly selector: { readonly matchLabels: Labels } };
};

interface Manifest {
  readonly apiVersion: string;
  readonly kind: string;
}
interface Kustomization extends Manifest {
  readonly resources: readonly string[];
  readonly patches?: readonly { readonly path?: string }[];
}

function manifests(folder: string): Map<string, Manifest> {
  const files = fs
    .readdirSync(path.join(ROOT, DIRECTORY, folder))
    .filter((file) => file.endsWith('.yaml') && file !== 'kustomization.yaml');
  return new Map(files.map((file) => [file, yamlOf(`${DIRECTORY}/${folder}/${file}`) as Manifest]));
}

/** What `kubectl apply -k` would send. */
function kustomized(folder: string): Manifest[] {
  const { stdout, stderr } = spawnSync('kubectl', ['kustomize', path.join(ROOT, DIRECTORY, folder)], {
    encoding: 'utf8',
  });
  expect(stderr).toBe('');
  return parseAllDocuments(stdout).map((document) => document.toJS() as Manifest);
}

const base = manifests('base');
const statefulSet = base.get('statefulset.yaml') as StatefulSet;
const pod = statefulSet.spec.template.spec;
const [container] = pod.containers;
const env = (of: Container) =>
  Object.fromEntries((of.env ?? []).map(({ name, value = '' }) => [name, value]));
const variable = (of: Container, name: string): EnvVar | undefined =>
  of.env?.find((each) => each.name === name);
const config = configFrom(env(container));

describe('[R-844] the manifests', () => {
  test('are all listed by their kustomization', () => {
    const { resources } = yamlOf(`${DIRECTORY}/base/kustomization.yaml`) as Kustomization;
    expect([...resources].sort()).toEqual([...base.keys()].sort());
  });

  test.skipIf(!hasKubectl)('come together', () => {
    const made = kustomized('base');
    const whole = made.find(({ kind }) => kind === 'StatefulSet') as StatefulSet;
    const [secured] = whole.spec.template.spec.containers;
    expect(configFrom(env(secured)).tlsKey).toBe('/etc/collector/tls/tls.key');
    expect(secured.volumeMounts?.map(({ name }) => name).sort()).toEqual([
      ...['data', 'keys', 'secret', 'tls', 'tmp'],
    ]);
    expect(secured.image).toBe(container.image);
  });

  test('run one collector, whose volume outlives it and lets no second one in', () => {
    expect(statefulSet.spec.replicas).toBe(1);
    expect(statefulSet.spec.persistentVolumeClaimRetentionPolicy).toEqual({
      ...{ whenDeleted: 'Retain', whenScaled: 'Retain' },
    });
    const claims = statefulSet.spec.volumeClaimTemplates ?? [];
    const mounts = claims.map((claim) => {
      expect(claim.spec.accessModes).toEqual(['ReadWriteOncePod']);
      return container.volumeMounts?.find(({ name }) => name === claim.metadata.name)?.mountPath;
    });
    expect(mounts).toEqual(['/data', '/keys']);
  });

  test('[R-1456] keep the keys of payloads on a volume of their own', () => {
    expect([config.encryption, config.encryptionKeys]).toEqual(['auto', '/keys']);
    const mount = container.volumeMounts?.find(({ name }) => name === 'keys');
    expect([mount?.mountPath, mount?.readOnly]).toEqual([config.encryptionKeys, undefined]);
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
    expect(service.spec.ports.map(({ name, port, targetPort }) => [name, port, targetPort])).toEqual([
      ['ingest', config.port, 'ingest'],
      ['management', config.managementPort, 'management'],
    ]);
    const policy = base.get('networkpolicy.yaml') as NetworkPolicy;
    expect(policy.spec.ingress?.flatMap(({ ports: open }) => open?.map(({ port }) => port))).toEqual([
      ...['ingest', 'management'],
    ]);
  });

  test('ask whether it lives and whether it can take events, each where it is answered', () => {
    const { startupProbe, livenessProbe, readinessProbe } = container;
    const asked = [startupProbe, livenessProbe, readinessProbe].map((probe) => probe.httpGet);
    expect(asked).toEqual([
      { path: '/livez', port: 'management' },
      { path: '/livez', port: 'management' },
      { path: '/readyz', port: 'management' },
    ]);
  });

  test('select the pod by the labels that it has', () => {
    const labels = statefulSet.spec.template.metadata?.labels;
    expect(statefulSet.spec.selector.matchLabels).toEqual(labels);
    expect((base.get('service.yaml') as Service).spec.selector).toEqual(labels);
    const budget = base.get('poddisruptionbudget.yaml') as PodDisruptionBudget;
    expect(budget.spec.selector.matchLabels).toEqual(labels);
    // With one pod, a budget that keeps one up stops every drain.
    expect(budget.spec.maxUnavailable).toBe(1);
    expect((base.get('networkpolicy.yaml') as NetworkPolicy).spec.podSelector.matchLabels).toEqual(labels);
  });

  test('wait longer than an orderly stop takes', () => {
    expect(pod.terminationGracePeriodSeconds).toBeGreaterThan(LONGEST_STOP_S);
  });
});

const overlay = manifests('postgres');
const several = overlay.get('statefulset.yaml') as StatefulSet;
const [patched] = several.spec.template.spec.containers;
const maintaining = (overlay.get('cronjob.yaml') as CronJob).spec.jobTemplate.spec.template;
const migrating = (manifests('postgres/migrate').get('job.yaml') as Job).spec.template;
const owners = [maintaining, migrating];

/** As it is in the secret, by the comment beside the variable. */
const STORE = /# (postgres:\/\/\S+)/.exec(textOf(`${DIRECTORY}/postgres/statefulset.yaml`))?.[1] ?? '';

const KEYS = variable(patched, 'COLLECTOR_ENCRYPTION_KEYS')?.value ?? '';

describe('[R-844] the manifests for a log in PostgreSQL', () => {
  test('are all listed by their kustomizations', () => {
    const { resources, patches: named } = yamlOf(`${DIRECTORY}/postgres/kustomization.yaml`) as Kustomization;
    expect(resources).toContain('../base');
    const files = [
      ...resources.filter((name) => name !== '../base'),
      ...(named ?? []).map((each) => each.path),
    ];
    expect(files.filter((file) => file !== undefined).sort()).toEqual([...overlay.keys()].sort());
    const migrate = yamlOf(`${DIRECTORY}/postgres/migrate/kustomization.yaml`) as Kustomization;
    expect(migrate.resources).toEqual([...manifests('postgres/migrate').keys()]);
  });

  test.skipIf(!hasKubectl)('come together', () => {
    expect(kustomized('postgres/migrate').map(({ kind }) => kind)).toContain('Job');
    const made = kustomized('postgres');
    const whole = made.find(({ kind }) => kind === 'StatefulSet') as StatefulSet;
    const [secured] = whole.spec.template.spec.containers;
    const config = configFrom({ ...env(secured), COLLECTOR_STORE: STORE });
    expect([config.store, config.tlsKey]).toEqual([STORE, '/etc/collector/tls/tls.key']);
    expect(secured.volumeMounts?.map(({ name }) => name).sort()).toEqual(
      ['data', 'keys-ca', 'run', 'secret', 'signing-key', 'store-ca', 'tls', 'tmp'].sort(),
    );
    expect(secured.securityContext).toEqual(container.securityContext);
    const claims = whole.spec.volumeClaimTemplates?.map(({ metadata, spec }) => [
      metadata.name,
      spec.resources.requests,
    ]);
    expect(claims).toEqual([['data', { storage: '1Gi' }]]);
    // [R-1456]
    expect([config.encryption, config.encryptionKeys]).toEqual(['on', KEYS]);
    const policy = made.find(({ kind }) => kind === 'NetworkPolicy') as NetworkPolicy;
    expect(policy.spec.ingress).toHaveLength(2);
    expect(policy.spec.egress?.flatMap(({ ports }) => ports?.map(({ port }) => port))).toEqual([
      5432, 53, 53,
    ]);
    // One at a time: two go on.
    const budget = made.find(({ kind }) => kind === 'PodDisruptionBudget') as PodDisruptionBudget;
    expect([whole.spec.replicas, budget.spec.maxUnavailable]).toEqual([3, 1]);
  });

  test('keep the collectors on different nodes', () => {
    const labels = statefulSet.spec.template.metadata?.labels;
    const { podAntiAffinity } = several.spec.template.spec.affinity ?? {};
    expect(podAntiAffinity?.requiredDuringSchedulingIgnoredDuringExecution).toEqual([
      { topologyKey: 'kubernetes.io/hostname', labelSelector: { matchLabels: labels } },
    ]);
  });

  test('take the address of the database, its password and the signing key from secrets', () => {
    // The collector refuses an address with a password in it.
    const { hosts, user, database } = parseAddress(STORE.replace(/\?.*/, '?sslmode=verify-full'));
    expect([hosts[0]?.host, user, database]).toEqual(['collector-db-rw', 'collector', 'collector']);
    const secretOf = (name: string) => variable(patched, name)?.valueFrom?.secretKeyRef;
    expect(secretOf('COLLECTOR_STORE')).toEqual({ name: 'collector-store', key: 'url' });
    const mounted = (volume: string) =>
      patched.volumeMounts?.find(({ name }) => name === volume)?.mountPath ?? '';
    const { signingKeys } = configFrom(withoutSecrets(patched));
    expect(signingKeys).toBe(mounted('signing-key'));
    expect(STORE).toContain(`sslrootcert=${mounted('store-ca')}/ca.crt`);
  });

  test("[R-1456] encrypt by keys on another cluster, and hand passwords and KEK over in files that are nobody else's", () => {
    const { hosts, user } = parseAddress(KEYS.replace(/\?.*/, '?sslmode=verify-full'));
    expect([hosts[0]?.host, user]).toEqual(['collector-keys-db-rw', 'collector_keys']);
    const plain = withoutSecrets(patched);
    const { encryption, kek } = configFrom(plain);
    expect(encryption).toBe('on');
    const directory = patched.volumeMounts?.find(({ name }) => name === 'run')?.mountPath ?? '';
    expect([kek, plain['PGPASSFILE']]).toEqual([`file:${directory}/kek`, `${directory}/pgpass`]);
    const [secrets] = several.spec.template.spec.initContainers as [Container];
    expect(secrets.image).toBe(container.image);
    expect(secrets.securityContext).toEqual(container.securityContext);
    const made = fs.mkdtempSync(path.join(os.tmpdir(), 'collector-secrets-'));
    onTestFinished(() => fs.rmSync(made, { recursive: true, force: true }));
    const [script = ''] = secrets.args ?? [];
    const given = { PASSWORD: 'one', KEYS_PASSWORD: 'two', KEK: newKekFile().toString().trim() };
    expect(secrets.env?.map(({ name }) => name)).toEqual(Object.keys(given));
    const { status } = spawnSync('sh', ['-euc', script.replaceAll(directory, made)], { env: given });
    expect(status).toBe(0);
    expect(fs.readFileSync(path.join(made, 'pgpass'), 'utf8')).toBe(
      '*:*:*:collector:one\n*:*:*:collector_keys:two\n',
    );
    expect(openKek(`file:${path.join(made, 'kek')}`)).toBeDefined();
    expect(fs.statSync(path.join(made, 'pgpass')).mode & 0o777).toBe(0o600);
  });

  test('let the owner of the tables work apart, and get no event from the Service', () => {
    for (const template of owners) {
      const [one] = template.spec.containers;
      expect(one.image).toBe(container.image);
      expect(one.securityContext).toEqual(container.securityContext);
      expect(template.spec.securityContext).toMatchObject({
        runAsNonRoot: true,
        runAsUser: CONTAINER_USER,
      });
      expect(variable(one, 'COLLECTOR_STORE')?.valueFrom?.secretKeyRef?.name).toBe('collector-store-owner');
      expect(template.metadata?.labels).not.toEqual(statefulSet.spec.template.metadata?.labels);
    }
    expect(owners.map((template) => template.spec.containers[0].args)).toEqual([
      ['store', 'maintain'],
      ['store', 'migrate'],
    ]);
  });
});

/** The variables whose values stand in the manifest. */
function withoutSecrets(of: Container): Record<string, string> {
  const plain = (of.env ?? []).filter(({ valueFrom }) => valueFrom === undefined);
  return Object.fromEntries(plain.map(({ name, value = '' }) => [name, value]));
}

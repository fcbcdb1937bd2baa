import { expect, test } from 'vitest';
import { configFrom, CONTAINER_USER, LONGEST_STOP_S, yamlOf } from './repository.js';

interface Compose {
  readonly services: {
    readonly collector: {
      readonly build: { readonly context: string; readonly dockerfile: string };
      readonly user: string;
      readonly read_only: boolean;
      readonly cap_drop: readonly string[];
      readonly security_opt: readonly string[];
      readonly environment: Readonly<Record<string, string>>;
      readonly secrets: readonly string[];
      readonly ports: readonly string[];
      readonly volumes: readonly string[];
      readonly tmpfs: readonly string[];
      readonly stop_grace_period: string;
      readonly ulimits: { readonly core: number };
    };
  };
  readonly volumes: Readonly<Record<string, unknown>>;
  readonly secrets: Readonly<Record<string, unknown>>;
}

const compose = yamlOf('deploy/compose.yaml') as Compose;
const { collector } = compose.services;

test('[R-844] compose gives the container no more than it needs', () => {
  expect(collector.user).toBe(`${CONTAINER_USER}:${CONTAINER_USER}`);
  expect(collector.read_only).toBe(true);
  expect(collector.cap_drop).toEqual(['ALL']);
  expect(collector.security_opt).toEqual(['no-new-privileges:true']);
  expect(collector.ulimits.core).toBe(0);
  expect(collector.tmpfs.every((mount) => mount.startsWith('/tmp:'))).toBe(true);
});

test('[R-844] compose sets what the collector takes, and shows its ports to this host alone', () => {
  const { port, managementPort, managementTokenFile } = configFrom(collector.environment);
  expect(collector.ports).toEqual([port, managementPort].map((each) => `127.0.0.1:${each}:${each}`));
  expect(collector.secrets.map((name) => `/run/secrets/${name}`)).toEqual([managementTokenFile]);
  expect(Object.keys(compose.secrets)).toEqual(collector.secrets);
  expect(collector.volumes).toEqual(Object.keys(compose.volumes).map((name) => `${name}:/data`));
});

test('[R-844] compose builds the Dockerfile, and waits longer than an orderly stop takes', () => {
  expect(collector.build).toEqual({ context: '..', dockerfile: 'deploy/docker/Dockerfile' });
  expect(Number.parseInt(collector.stop_grace_period, 10)).toBeGreaterThan(LONGEST_STOP_S);
});

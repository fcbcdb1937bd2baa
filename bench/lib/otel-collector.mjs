/** The OpenTelemetry Collector of peers/otel-collector: OTLP in, a queue on the disk, OTLP out. */
import { spawnSync } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { Child } from './children.mjs';
import { Unusable } from './unusable.mjs';

const SOURCE = path.resolve(import.meta.dirname, '../peers/otel-collector');
const PROGRAM = path.join(SOURCE, 'dist', 'otel-collector');

export function isOtelCollectorBuilt() {
  return fs.existsSync(PROGRAM);
}

/** @throws Unusable without Go or its modules. */
export function buildOtelCollector() {
  const env = { ...process.env, CGO_ENABLED: '0' };
  const built = spawnSync('go', ['build', '-o', PROGRAM, '.'], { cwd: SOURCE, env, stdio: ['ignore', 2, 2] });
  if (built.error) throw new Unusable('Go is not installed, with which the OpenTelemetry Collector is built');
  if (built.status !== 0) throw new Unusable('the OpenTelemetry Collector could not be built');
}

export function otelCollectorVersion() {
  return /^\tgo\.opentelemetry\.io\/collector\/otelcol (\S+)/m.exec(
    fs.readFileSync(path.join(SOURCE, 'go.mod'), 'utf8'),
  )[1];
}

/**
 * A request is acknowledged after its flush to the queue, and leaves the queue after the collector has
 * acknowledged it. There is no batch processor, which would hold spans in memory. Retries have no end.
 */
function configuration({ directory, port, target, key }) {
  return {
    extensions: {
      file_storage: { directory: path.join(directory, 'queue'), create_directory: true, fsync: true },
    },
    receivers: { otlp: { protocols: { http: { endpoint: `127.0.0.1:${port}` } } } },
    exporters: {
      otlp_http: {
        endpoint: `http://127.0.0.1:${target}`,
        headers: { 'x-api-key': key },
        timeout: '60s',
        sending_queue: { storage: 'file_storage', queue_size: 1_000_000 },
        retry_on_failure: { initial_interval: '200ms', max_interval: '1s', max_elapsed_time: 0 },
      },
    },
    service: {
      extensions: ['file_storage'],
      pipelines: { traces: { receivers: ['otlp'], exporters: ['otlp_http'] } },
      telemetry: { metrics: { level: 'none' }, logs: { encoding: 'json' } },
    },
  };
}

/**
 * Starts one that listens on `port` and sends to the OTLP port `target` of 127.0.0.1. Its queue is in the
 * directory. Resolves once it is ready.
 */
export async function startOtelCollector(options) {
  const file = path.join(options.directory, 'otel-collector.yaml');
  // JSON is YAML.
  fs.writeFileSync(file, JSON.stringify(configuration(options)), { mode: 0o600 });
  const child = new Child('the OpenTelemetry Collector', PROGRAM, ['--config', `file:${file}`]);
  await child.json('stderr', ({ msg }) => msg.startsWith('Everything is ready'));
  return child;
}

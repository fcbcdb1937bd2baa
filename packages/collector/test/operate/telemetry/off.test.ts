import fs from 'node:fs';
import { describe, expect, test } from 'vitest';
import { temporaryDirectory } from '../../running/collector-process.js';
import { post } from '../../running/load.js';
import { eventText, exportingCollectors } from './exporting-collector.js';
import { oneReceiver } from './otlp-receiver.js';

const receiver = oneReceiver();
const collector = exportingCollectors();

describe('[R-846] nothing is exported', () => {
  const LOADED = `process.on('exit', () => {
    const { writeFileSync } = process.getBuiltinModule('node:fs');
    writeFileSync(process.env.LOADED_FILE, [...loaded].join('\\n'));
  });
  const loaded = new Set();
  process.getBuiltinModule('node:module').registerHooks({
    resolve(specifier, context, next) {
      const found = next(specifier, context);
      loaded.add(found.url);
      return found;
    },
  });`;

  async function loadedWith(env: NodeJS.ProcessEnv): Promise<string> {
    const file = `${temporaryDirectory()}/loaded`;
    const { collector: one, key } = await collector(
      { ...env, LOADED_FILE: file },
      ['--management', 'off'],
      ['--import', `data:text/javascript,${encodeURIComponent(LOADED)}`],
    );
    expect((await post(one.port, key, eventText())).status).toBe(201);
    expect(await one.stop()).toBe(0);
    const text = fs.readFileSync(file, 'utf8');
    fs.rmSync(file);
    return text;
  }

  test('and nothing loaded unless it is asked for', async () => {
    expect(await loadedWith({ OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url })).toContain('@opentelemetry');
    receiver.exports.length = 0;
    for (const env of [
      {},
      { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, OTEL_SDK_DISABLED: 'true' },
      {
        OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url,
        OTEL_TRACES_EXPORTER: 'none',
        OTEL_METRICS_EXPORTER: 'none',
      },
      { OTEL_EXPORTER_OTLP_ENDPOINT: ' ', OTEL_SERVICE_NAME: 'only-a-name' },
    ]) {
      const loaded = await loadedWith(env);
      expect(loaded).toContain('telemetry/settings.js');
      expect(loaded).not.toMatch(/opentelemetry|telemetry\/telemetry\.js|prom-client/);
    }
    expect(receiver.exports).toEqual([]);
  });
});

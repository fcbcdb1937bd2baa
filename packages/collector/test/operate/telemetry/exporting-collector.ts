/** A collector for one test, on a data directory of its own, with the variables of OpenTelemetry. */
import fs from 'node:fs';
import { afterEach } from 'vitest';
import { start, temporaryDirectory, type Running } from '../../running/collector-process.js';
import { issueKey } from '../../running/issued-keys.js';
import { sampleEvent } from '../../running/sample-events.js';

export interface Exporting {
  readonly collector: Running;
  readonly key: string;
  readonly dataDir: string;
}

/** Call at the top of a test file. After each test its collector is stopped and its data vanish. */
export function exportingCollectors(): (
  env: NodeJS.ProcessEnv,
  args?: readonly string[],
  nodeArgs?: readonly string[],
) => Promise<Exporting> {
  const begun: Exporting[] = [];
  afterEach(async () => {
    for (const { collector, dataDir } of begun.splice(0)) {
      await collector.stop();
      fs.rmSync(dataDir, { recursive: true, force: true });
    }
  });
  return async (env, args = [], nodeArgs = []) => {
    const dataDir = temporaryDirectory();
    const key = (await issueKey(dataDir)).text;
    const one = { collector: await start(dataDir, args, nodeArgs, env), key, dataDir };
    begun.push(one);
    return one;
  };
}

export const eventText = (): string => JSON.stringify(sampleEvent());

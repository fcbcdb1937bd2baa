/** Telemetry as the standard variables of OpenTelemetry want it (telemetry/settings.ts). */
import type { Logger } from 'pino';
import { openTelemetryVariables } from '../config.js';
import type { Ingest } from '../ingest/ingest.js';
import type { Vitals } from '../management/vitals.js';
import { telemetrySettings } from '../telemetry/settings.js';

/** Sends the rest when it is disposed of, within a few seconds, and ends. */
export interface OpenTelemetry extends AsyncDisposable {
  /** To be told of each answer; undefined when no traces are wanted. */
  readonly observer: Ingest['observer'];
}

/** On return telemetry is exported, if it is wanted and can be: a collector never fails to start for it. */
export async function openTelemetry(vitals: Vitals, log: Logger): Promise<OpenTelemetry> {
  const none = { observer: undefined, [Symbol.asyncDispose]: () => Promise.resolve() };
  const variables = openTelemetryVariables();
  const settings = telemetrySettings(variables);
  for (const warning of settings.warnings) log.warn(warning);
  if (!settings.traces && !settings.metrics) return none;
  try {
    const { Telemetry } = await import('../telemetry/telemetry.js');
    const telemetry = new Telemetry(settings, variables, vitals, log);
    return { observer: telemetry.observer, [Symbol.asyncDispose]: () => telemetry.close() };
  } catch (error) {
    const { name, code } = error as NodeJS.ErrnoException;
    log.error(
      { reason: code ?? name },
      'OpenTelemetry export cannot begin; the collector goes on without it',
    );
    return none;
  }
}

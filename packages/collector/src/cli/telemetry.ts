/** Telemetry as the standard variables of OpenTelemetry want it (telemetry/settings.ts). */
import type { Logger } from 'pino';
import { openTelemetryVariables, type ConfigFault } from '../config.js';
import type { Ingest } from '../ingest/ingest.js';
import type { Vitals } from '../management/vitals.js';
import { systemCode } from '../system-code.js';
import { telemetrySettings } from '../telemetry/settings.js';

/** Sends the rest when it is disposed of, within a few seconds, and ends. */
export interface OpenTelemetry extends AsyncDisposable {
  /** To be told of each answer; undefined when no traces are wanted. */
  readonly observer: Ingest['observer'];
}

/** What the variables say that is not understood, and is taken as if it were not there; with the variable's name. */
export async function telemetryWarnings(): Promise<ConfigFault[]> {
  const variables = openTelemetryVariables();
  const settings = telemetrySettings(variables);
  const warnings = [...settings.warnings];
  const signals = (['traces', 'metrics'] as const).filter((signal) => settings[signal] !== undefined);
  if (signals.length > 0) {
    const { targetOf } = await import('../telemetry/target.js');
    for (const signal of signals) targetOf(signal, variables, (warning) => warnings.push(warning));
  }
  return [...new Set(warnings)].map((warning) => {
    const [, source = 'OTEL', message = warning] = /^(OTEL_\w+):? ([^]*)$/.exec(warning) ?? [];
    return { source, message };
  });
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
    log.error(
      { reason: systemCode(error) ?? (error as Error).name },
      'OpenTelemetry export cannot begin; the collector goes on without it',
    );
    return none;
  }
}

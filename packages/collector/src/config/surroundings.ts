/** What else the environment says that is not an option: by the service manager, and by OpenTelemetry's own names. */
import { variable } from './variable.js';

/** What a service manager that started this process says in its environment (sd_notify(3), sd_watchdog_enabled(3)). */
export interface ServiceManagement {
  /** Whether it wants to be told how the service fares. */
  readonly listens: boolean;
  /** It ends the service after so many milliseconds without a sign of life; undefined when it does not. */
  readonly watchdogMs: number | undefined;
}

export function serviceManagement(
  env: NodeJS.ProcessEnv = process.env,
  pid = process.pid,
): ServiceManagement {
  const { NOTIFY_SOCKET, WATCHDOG_USEC = '', WATCHDOG_PID } = env;
  const listens = NOTIFY_SOCKET !== undefined && NOTIFY_SOCKET !== '';
  const forUs = listens && (WATCHDOG_PID === undefined || WATCHDOG_PID === String(pid));
  const watchdogMs =
    forUs && /^[1-9]\d{0,14}$/.test(WATCHDOG_USEC) ? Number(WATCHDOG_USEC) / 1000 : undefined;
  return { listens, watchdogMs };
}

/**
 * Device and inode, as `8:12345`, of the stream that systemd has connected to its journal (systemd.exec(5), JOURNAL_STREAM);
 * undefined when it has connected none. The process may have been given another stream since.
 */
export function journalStream(env: NodeJS.ProcessEnv = process.env): string | undefined {
  return env['JOURNAL_STREAM'];
}

/**
 * The variables of OpenTelemetry that are set, by name. Their names and meaning are its own (telemetry/settings.ts); a
 * blank one counts as not set.
 */
export function openTelemetryVariables(
  env: NodeJS.ProcessEnv = process.env,
): Readonly<Record<string, string>> {
  const variables: Record<string, string> = {};
  for (const [name, value] of Object.entries(env)) {
    if (name.startsWith('OTEL_') && value !== undefined && value.trim() !== '') variables[name] = value;
  }
  return variables;
}

/** The user who called sudo (sudo(8)), as it says; undefined when nobody did. */
export function sudoUser(env: NodeJS.ProcessEnv = process.env): string | undefined {
  return env['SUDO_USER'] === '' ? undefined : env['SUDO_USER'];
}

/**
 * Whether errors are to be shown with their stack: at log level debug or trace, by option or variable. Never throws,
 * because it is asked when something else has failed already, perhaps the configuration itself.
 */
export function showsStacks(logLevelOption: string | undefined, env = process.env): boolean {
  return ['debug', 'trace'].includes(logLevelOption ?? env[variable('log-level')] ?? '');
}

/** What COLLECTOR_URL and COLLECTOR_KEY say to whoever sends to a collector. */
export function senderVariables(env: NodeJS.ProcessEnv = process.env): {
  readonly url: string | undefined;
  readonly key: string | undefined;
} {
  return { url: env['COLLECTOR_URL'], key: env['COLLECTOR_KEY'] };
}

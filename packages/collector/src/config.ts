/**
 * The interface of config/. Every option is declared once, in config/options.ts, and only config/ reads the
 * environment.
 */
export { ConfigError, type ConfigFault } from './config/reading.js';
export type { CommandName } from './config/option.js';
export type { Config } from './config/options.js';
export { inQuotes, ownCommand } from './config/environment.js';
export { limitsHint, loadConfig, readConfig, type ConfigReading } from './config/reading.js';
export { configTable, limitsTable, optionsOf, reloaded } from './config/reference.js';
export {
  journalStream,
  senderVariables,
  serviceManagement,
  showsStacks,
  sudoUser,
  type ServiceManagement,
} from './config/environment.js';

/**
 * The door to the collector's configuration (config/): every option is declared once, in config/options.ts, and nothing
 * else reads the environment.
 */
export { ConfigError, type ConfigFault } from './config/reading.js';
export type { CommandName } from './config/option.js';
export type { Config } from './config/options.js';
export { inQuotes, ownCommand } from './config/environment.js';
export { limitsHint, loadConfig, readConfig, type ConfigReading } from './config/reading.js';
export { configTable, limitsTable, optionsOf } from './config/reference.js';
export { reloaded } from './config/reference.js';
export { journalStream, senderVariables, serviceManagement, showsStacks, sudoUser, type ServiceManagement, } from './config/environment.js';

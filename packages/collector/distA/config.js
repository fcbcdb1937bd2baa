/**
 * The door to the collector's configuration (config/): every option is declared once, in config/options.ts, and nothing
 * else reads the environment.
 */
export { ConfigError } from './config/reading.js';
export { inQuotes, ownCommand } from './config/environment.js';
export { limitsHint, loadConfig, readConfig } from './config/reading.js';
export { configTable, limitsTable, optionsOf } from './config/reference.js';
export { reloaded } from './config/reference.js';
export { journalStream, senderVariables, serviceManagement, showsStacks, sudoUser, } from './config/environment.js';
//# sourceMappingURL=config.js.map
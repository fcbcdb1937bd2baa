import { Command } from 'commander';
import type { StoreFinding } from '../store/contract/findings.js';
export declare function command(): Command;
/** What `doctor` says of them; nothing where payloads are not encrypted. @throws KeysUnfit */
export declare function encryptionFindings(dataDir: string): StoreFinding[];

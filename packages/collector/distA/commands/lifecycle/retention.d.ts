import { Command } from 'commander';
import { type Compacted } from '../../store/open-to-audit.js';
export declare function command(): Command;
/** On return segments of which a fifth or more is erased take no more room than what is left of them. */
export declare function compactNow(dataDir: string): Promise<Compacted>;

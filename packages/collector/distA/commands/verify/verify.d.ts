import { Command } from 'commander';
import { type Verification } from './verification.js';
export declare function command(): Command;
/** For scripts; the names are a promise. */
export declare function verificationFields(verification: Verification): object;
/** For people: the verdict first. */
export declare function verificationReport(verification: Verification, log?: string): string;

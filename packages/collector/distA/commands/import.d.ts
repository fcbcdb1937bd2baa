import { Command } from 'commander';
export declare function command(): Command;

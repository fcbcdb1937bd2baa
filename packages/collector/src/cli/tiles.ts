import { Command } from 'commander';
export function command(): Command {
  return new Command('tiles');
}

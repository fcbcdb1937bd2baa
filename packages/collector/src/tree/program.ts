/** The programs that an operator names by `command:PATH`, as they are named; `programs.ts` starts them. */
import fs from 'node:fs';
import { systemCode } from '../system-code.js';

/**
 * @returns why there is no program to start at this path, in words that follow the option's name; undefined when there
 *   is one, which is not started.
 */
export function programFault(program: string): string | undefined {
  // Anyone who gave it arguments may have given it a secret among them.
  const [first = '', ...more] = program.split(/\s/);
  const shown = more.length === 0 ? first : `${first} ...`;
  try {
    if (!fs.statSync(program).isFile()) return `${program} is no program`;
    fs.accessSync(program, fs.constants.X_OK);
    return undefined;
  } catch (error) {
    const code = systemCode(error) ?? 'UNKNOWN';
    if (code === 'ENOENT' || code === 'ENOTDIR') {
      return `there is no such program: ${shown}; it takes a path, without arguments`;
    }
    return `${shown} is not executable, or lies where the collector's user may not look (${code})`;
  }
}

/** A text that a program or another log has given, fit for one line of a terminal. */
export function showable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?');
}

/** Checks programs that an operator names by `command:PATH`; `programs.ts` starts them. */
import fs from 'node:fs';
import { systemCode } from '../system-code.js';

/**
 * @returns the reason why the path is not an executable program, for a message after the option's name;
 *   undefined if it is.
 */
export function programFault(program: string): string | undefined {
  // Arguments may contain a secret.
  const [first = '', ...more] = program.split(/\s/);
  const shown = more.length === 0 ? first : `${first} ...`;
  try {
    if (!fs.statSync(program).isFile()) return `${program} is not a program`;
    fs.accessSync(program, fs.constants.X_OK);
    return undefined;
  } catch (error) {
    const code = systemCode(error) ?? 'UNKNOWN';
    if (code === 'ENOENT' || code === 'ENOTDIR') {
      return `there is no such program: ${shown}; it takes a path, without arguments`;
    }
    return `${shown} is not executable, or the collector's user has no access to it (${code})`;
  }
}

/** Makes a text of a program or another log safe for one line of a terminal. */
export function showable(text: string): string {
  return text.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '?');
}

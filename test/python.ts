/** The python3 of this machine. */
import { spawnSync } from 'node:child_process';

const { status } = spawnSync('python3', ['-c', 'import sys; sys.exit(sys.version_info < (3, 10))']);
/** Whether it has version 3.10 or newer. */
export const hasPython = status === 0;
if (!hasPython) console.log('skipped: there is no python3 of version 3.10 or newer');

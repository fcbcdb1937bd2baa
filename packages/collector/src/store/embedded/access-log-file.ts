/**
 * `access.log`, to which every command that reads events appends. The file is opened anew for each call: what stands
 * under its name is what counts. No link is followed, and a pipe holds nobody up.
 */
import fs from 'node:fs';
import path from 'node:path';
import { systemCode } from '../../system-code.js';
import { AccessLogUnfit, type AccessLogStore } from '../access-log-store.js';
import { nodeFiles } from '../../files.js';

const { O_RDONLY, O_NOFOLLOW, O_NONBLOCK } = fs.constants;

/** Where the access log of a data directory is. */
export function accessLogPath(dataDirectory: string): string {
  return path.join(dataDirectory, 'access.log');
}

export class AccessLogFile implements AccessLogStore {
  /** Whether the file's name is known to be on stable storage. */
  #named = false;

  constructor(private readonly dataDirectory: string) {}

  size(): number {
    return this.#with((fd) => nodeFiles.size(fd)) ?? 0;
  }

  read(position: number, length: number): Buffer {
    const read = this.#with((fd) => {
      const left = nodeFiles.size(fd) - position;
      const bytes = Buffer.allocUnsafe(Math.max(0, Math.min(length, left)));
      return bytes.subarray(0, nodeFiles.read(fd, bytes, 0, bytes.length, position));
    });
    return read ?? Buffer.alloc(0);
  }

  async flush(): Promise<void> {
    const fd = this.#open();
    if (fd === undefined) return;
    try {
      await nodeFiles.datasyncLater(fd);
    } finally {
      nodeFiles.close(fd);
    }
    if (this.#named) return;
    nodeFiles.syncDirectory(this.dataDirectory);
    this.#named = true;
  }

  /** @returns undefined when there is no file. */
  #with<Read>(read: (fd: number) => Read): Read | undefined {
    const fd = this.#open();
    if (fd === undefined) return undefined;
    try {
      return read(fd);
    } finally {
      nodeFiles.close(fd);
    }
  }

  #open(): number | undefined {
    let fd: number;
    try {
      fd = fs.openSync(accessLogPath(this.dataDirectory), O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    } catch (error) {
      if (systemCode(error) === 'ENOENT') return undefined;
      if (systemCode(error) === 'ELOOP' || systemCode(error) === 'ENXIO') throw unfit();
      throw error;
    }
    if (fs.fstatSync(fd).isFile()) return fd;
    nodeFiles.close(fd);
    throw unfit();
  }
}

function unfit(): AccessLogUnfit {
  return new AccessLogUnfit('it is no regular file, and was not opened');
}

// Loaded before a collector: while the file that FULL_DISK names exists, no byte fits into an access log.
import fs from 'node:fs';

const flag = process.env.FULL_DISK ?? '';
const { openSync, closeSync, writeSync } = fs;
const opened = new Set();

fs.openSync = (file, ...rest) => {
  const fd = openSync(file, ...rest);
  if (String(file).endsWith('/access.log')) opened.add(fd);
  return fd;
};
fs.closeSync = (fd) => {
  opened.delete(fd);
  closeSync(fd);
};
fs.writeSync = (fd, ...rest) => {
  if (opened.has(fd) && fs.existsSync(flag))
    throw Object.assign(new Error('ENOSPC: no space left on device, write'), { code: 'ENOSPC' });
  return writeSync(fd, ...rest);
};

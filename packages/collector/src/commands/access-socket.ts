/**
 * The socket `access.sock` in a data directory, through which a viewer appends its looks to the access log.
 * It takes one JSON object per line and answers one line: `{"kept":true}` once the line of the access log is
 * on stable storage, or `{"refused":"reason"}`. Nothing can be read, changed or removed through it.
 */
import fs from 'node:fs';
import net from 'node:net';
import path from 'node:path';
import type { LocalAccessLog } from '../store/contract/access-log.js';
import { openAccessLog, openReadingsLog } from '../store/open-access-log.js';
import { handOver } from '../files.js';
import { isOpenToReaders, O_PATH } from '../readers.js';
import { systemCode } from '../system-code.js';
import { readMirrorNote } from '../tree/state-files.js';
import { AppendRate } from './append-rate.js';
import { LONGEST_REQUEST, type LookLine, OpenLooks } from './look-lines.js';

const NAME = 'access.sock';
/** Maximum bytes of a path in the address of a socket (unix(7)), without its zero byte. */
const LONGEST_ADDRESS = 107;
const MOST_CONNECTIONS = 64;
/** How long a refused connection may take to read its answer, in milliseconds. */
const REFUSED_MS = 5000;
const TOO_LONG = 'the request is too long';
const LINE_FEED = 0x0a;

/** The address of the socket in a data directory. */
export interface SocketAddress {
  readonly address: string;
  /** Call it once the address is no longer needed. */
  readonly release: () => void;
}

/** A path that is too long for an address leads through a descriptor of the directory. */
export function socketAddress(dataDir: string): SocketAddress {
  const file = path.join(dataDir, NAME);
  return Buffer.byteLength(file) <= LONGEST_ADDRESS
    ? { address: file, release: () => undefined }
    : throughDescriptor(dataDir);
}

/** @param flags further flags with which the directory is opened. */
function throughDescriptor(directory: string, flags = 0): SocketAddress {
  // A group may enter the directory, and not list it: O_PATH needs no right to read.
  let fd: number | undefined = fs.openSync(directory, O_PATH | fs.constants.O_DIRECTORY | flags);
  return {
    address: `/proc/self/fd/${fd}/${NAME}`,
    release() {
      if (fd !== undefined) fs.closeSync(fd);
      fd = undefined;
    },
  };
}

export interface AccessSocket {
  /** Ends all connections and removes the socket. */
  close(): Promise<void>;
}

/**
 * Offers the socket. Each append blocks the calling thread until it is on stable storage.
 * @param onBreakGlass called after a look with break-glass was logged.
 * @throws if the socket cannot be created, or if another process answers on it.
 */
export async function offerAccessSocket(
  dataDir: string,
  onBreakGlass: () => void = () => undefined,
): Promise<AccessSocket> {
  const file = path.join(dataDir, NAME);
  const connections = new Set<net.Socket>();
  const rate = new AppendRate();
  const log = readMirrorNote(dataDir) === undefined ? openAccessLog(dataDir) : openReadingsLog(dataDir);
  const server = net.createServer((socket) => {
    connections.add(socket);
    socket.on('close', () => connections.delete(socket));
    serve(socket, { log, onBreakGlass, rate });
  });
  server.maxConnections = MOST_CONNECTIONS;
  try {
    await assertUnused(dataDir);
    await bind(server, dataDir);
  } catch (error) {
    server.close();
    throw error;
  }
  return {
    async close() {
      const closed = new Promise((resolve) => server.close(resolve));
      for (const socket of connections) socket.destroy();
      await closed;
      fs.rmSync(file, { force: true });
    },
  };
}

/**
 * Binds the socket in a private directory and moves it, so that its mode is set before another user can
 * connect, and root changes the mode and the owner of nothing else.
 */
async function bind(server: net.Server, dataDir: string): Promise<void> {
  const made = fs.mkdtempSync(path.join(dataDir, `${NAME}-`));
  const { address, release } = throughDescriptor(made, fs.constants.O_NOFOLLOW);
  try {
    if (fs.statSync(path.dirname(address)).uid !== process.getuid?.())
      throw new Error(`the directory for ${NAME} was exchanged`);
    await listening(server, address);
    fs.chmodSync(address, isOpenToReaders(dataDir) ? 0o660 : 0o600);
    handOver(address, dataDir);
    fs.renameSync(address, path.join(dataDir, NAME));
  } finally {
    release();
    fs.rmSync(made, { recursive: true, force: true });
  }
}

function listening(server: net.Server, address: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(address, () => {
      server.off('error', reject);
      // Too many open files: the connection is refused, and the next one may succeed.
      server.on('error', () => undefined);
      resolve();
    });
  });
}

/** The socket of a process that has ended is replaced. @throws if a process answers, or it is no socket. */
async function assertUnused(dataDir: string): Promise<void> {
  const stat = fs.lstatSync(path.join(dataDir, NAME), { throwIfNoEntry: false });
  if (stat === undefined) return;
  if (!stat.isSocket()) throw new Error(`${NAME} in the data directory is not a socket`);
  const { address, release } = socketAddress(dataDir);
  const answered = new Promise<void>((resolve, reject) => {
    const socket = net.connect(address, () => {
      socket.destroy();
      reject(new Error(`another process offers ${NAME} in the data directory`));
    });
    socket.once('error', (error) => (systemCode(error) === 'ECONNREFUSED' ? resolve() : reject(error)));
  });
  await answered.finally(release);
}

interface Served {
  /** Of a mirror the log of its readings. */
  readonly log: LocalAccessLog;
  readonly onBreakGlass: () => void;
  readonly rate: AppendRate;
}

/**
 * Answers the requests of a connection in their order. An unfit request ends it. Requests that arrived
 * together share one flush of the disk.
 */
function serve(socket: net.Socket, { log, onBreakGlass, rate }: Served): void {
  const looks = new OpenLooks();
  let isHeld = false;
  const hold = (forMs: number) => {
    isHeld = true;
    socket.pause();
    setTimeout(() => {
      isHeld = false;
      if (!socket.writableNeedDrain) socket.resume();
    }, forMs).unref();
  };
  let waiting: Buffer = Buffer.alloc(0);
  const refuse = (reason: string) => {
    socket.removeAllListeners('data');
    socket.end(answer({ refused: reason }), () => socket.destroy());
    // It may never read the answer.
    socket.setTimeout(REFUSED_MS, () => socket.destroy());
  };
  const keep = (lines: readonly LookLine[]) => {
    const fault = append(log, lines);
    const answers = lines.map(({ reading, isBreakGlass, kept }) => {
      if (fault !== undefined) return answer({ refused: fault });
      kept();
      if (isBreakGlass) onBreakGlass();
      return answer({ kept: true, ...(reading && { reading }) });
    });
    // A sender that does not read its answers has to wait.
    if (!socket.write(answers.join(''))) socket.pause();
    const waitMs = rate.took(lines.reduce((sum, { line }) => sum + line.length, 0));
    if (waitMs > 0) hold(waitMs);
  };
  socket.on('error', () => socket.destroy());
  socket.on('drain', () => {
    if (!isHeld) socket.resume();
  });
  socket.on('data', (bytes: Buffer) => {
    waiting = waiting.length === 0 ? bytes : Buffer.concat([waiting, bytes]);
    const lines: LookLine[] = [];
    let unfit: string | undefined;
    for (let end = waiting.indexOf(LINE_FEED); end >= 0; end = waiting.indexOf(LINE_FEED)) {
      const request = waiting.subarray(0, end);
      waiting = waiting.subarray(end + 1);
      const look = request.length > LONGEST_REQUEST ? TOO_LONG : looks.lineOf(request);
      if (typeof look === 'string') {
        unfit = look;
        break;
      }
      lines.push(look);
    }
    if (lines.length > 0) keep(lines);
    if (unfit === undefined && waiting.length > LONGEST_REQUEST) unfit = TOO_LONG;
    if (unfit !== undefined) refuse(unfit);
  });
}

function answer(said: object): string {
  return `${JSON.stringify(said)}\n`;
}

/** @returns the reason if the lines could not be stored; undefined once they are on stable storage. */
function append(log: LocalAccessLog, lines: readonly LookLine[]): string | undefined {
  try {
    log.append(lines.map(({ line }) => line).join('\n'));
    return undefined;
  } catch (error) {
    return `the access log cannot be written (${systemCode(error) ?? 'unknown error'})`;
  }
}

/** What a soak takes place in: directories, certificates, keys, ports, and the collector's options. */
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { Authority, writePair } from '../../packages/collector/test/running/certificates.ts';
import { removeDirectory, run, temporaryDirectory } from '../lib/children.mjs';
import { MAIN } from '../lib/collector.mjs';
import { SERVER_NAME } from './connection.mjs';
import { smallDisk } from './small-disk.mjs';

/** For the room on the disk: more than was ever seen of HTTPS on two cores. */
export const RATE_AT_MOST = 20_000;
const MAX_BODY_BYTES = 64 << 10;
const MEAN_STORED_BYTES = 1400;
/** A segment holds about so many seconds, so that a disk that is full is noticed soon. */
const SEGMENT_SECONDS = 2;
const LEAST_SEGMENT = 256 << 10;
const LARGEST_SEGMENT = 64 << 20;

/**
 * Who sends: three applications of two organisations, one whose key is going to be revoked, and one that does
 * everything wrong.
 */
export const APPLICATIONS = [
  { name: 'icu', organisation: 'hospital', share: 0.4 },
  { name: 'radiology', organisation: 'hospital', share: 0.3 },
  { name: 'outpatients', organisation: 'clinic', share: 0.25 },
  { name: 'leaving', organisation: 'hospital', share: 0.05 },
  { name: 'faulty', organisation: 'clinic', fixedRate: 6, isFaulty: true, permissions: 'outcome' },
];

export function collectorCommand(name, ...args) {
  return run(`collector ${name}`, process.execPath, [MAIN, name, ...args]);
}

async function freePort() {
  const server = net.createServer();
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export class Setting {
  port;
  managementPort;
  disk;
  authority = new Authority('Soak CA');
  #scratch;
  #pair;

  static async make(scratch, expectedBytes) {
    const setting = new Setting(temporaryDirectory(scratch, 'soak'), expectedBytes);
    setting.port = await freePort();
    setting.managementPort = await freePort();
    return setting;
  }

  constructor(scratch, expectedBytes) {
    this.#scratch = scratch;
    this.disk = smallDisk(scratch, expectedBytes, os.freemem());
    this.sinkFile = path.join(scratch, 'log.checkpoints');
  }

  /** Where senders connect, and whom they trust. */
  get forSenders() {
    return { port: this.port, ca: this.authority.certificate };
  }

  /** A data directory that is not there yet. */
  dataDir(name) {
    return path.join(this.disk.directory, name);
  }

  /** Puts a new certificate in place. */
  renewCertificate(days) {
    const issued = this.authority.issue({ names: [`dns:${SERVER_NAME}`, 'ip:127.0.0.1'], days });
    this.#pair = writePair(this.#scratch, issued);
    return issued;
  }

  /** Makes a key for each application; resolves with the applications and their keys. */
  async applications(dataDir, connections) {
    const made = [];
    for (const application of APPLICATIONS) {
      const { name, organisation, permissions = 'all', share } = application;
      const options = [
        '--organisation',
        organisation,
        '--permissions',
        permissions,
        '--note',
        name,
        '--json',
      ];
      const text = await collectorCommand('keys', 'create', '--data-dir', dataDir, ...options);
      const { key, key_id: keyId } = JSON.parse(text);
      const own = share === undefined ? 1 : Math.max(2, Math.round(connections * share));
      made.push({ ...application, key, keyId, connections: own });
    }
    return made;
  }

  /** Events a second decide how large a segment is. */
  segmentBytes(rate) {
    const wanted = 2 ** Math.ceil(Math.log2(rate * MEAN_STORED_BYTES * SEGMENT_SECONDS));
    return Math.min(LARGEST_SEGMENT, Math.max(LEAST_SEGMENT, wanted));
  }

  options(dataDir, segmentBytes) {
    const config = path.join(this.#scratch, `segments-${segmentBytes}.json`);
    fs.writeFileSync(config, JSON.stringify({ limits: { 'segment-bytes': segmentBytes } }));
    return [
      ...['--config', config, '--max-body-bytes', String(MAX_BODY_BYTES)],
      ...['--port', String(this.port), '--management-port', String(this.managementPort)],
      ...['--data-dir', dataDir, ...this.#pair, '--checkpoint-sink', `file:${this.sinkFile}`],
    ];
  }

  remove() {
    this.disk.remove();
    removeDirectory(this.#scratch);
  }
}

/** Bytes that so many events take on the disk, about. */
export function bytesOf(events) {
  return Math.ceil(events * MEAN_STORED_BYTES * 1.25) + (512 << 20);
}

/** Directories, certificates, keys, ports and options of a soak. */
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { Authority, writePair } from '../../packages/collector/test/running/certificates.ts';
import { removeDirectory, run, temporaryDirectory } from '../lib/children.mjs';
import { MAIN } from '../lib/collector.mjs';
import { SERVER_NAME } from './connection.mjs';
import { smallDisk } from './small-disk.mjs';

/** Events a second for the size of the disk: more than HTTPS on two cores has ever reached. */
export const RATE_AT_MOST = 20_000;
const MAX_BODY_BYTES = 64 << 10;
const MEAN_STORED_BYTES = 1400;
/** Seconds of events in a segment. They are few, so that a full disk is noticed soon. */
const SEGMENT_SECONDS = 2;
const LEAST_SEGMENT = 256 << 10;
const LARGEST_SEGMENT = 64 << 20;

/**
 * The senders: three applications of two organisations, one whose key will be revoked, and one that does
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

  /** The address for the senders, and the authority that they trust. */
  get forSenders() {
    return { port: this.port, ca: this.authority.certificate };
  }

  /** The path of a new data directory. */
  dataDir(name) {
    return path.join(this.disk.directory, name);
  }

  /** Installs a new certificate. */
  renewCertificate(days) {
    const issued = this.authority.issue({ names: [`dns:${SERVER_NAME}`, 'ip:127.0.0.1'], days });
    this.#pair = writePair(this.#scratch, issued);
    return issued;
  }

  /** Makes a key for each application. Resolves with the applications and their keys. */
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

  /** The size of a segment follows from the events a second. */
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

/** Approximate bytes of a number of events on the disk. */
export function bytesOf(events) {
  return Math.ceil(events * MEAN_STORED_BYTES * 1.25) + (512 << 20);
}

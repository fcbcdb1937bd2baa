// The context of the container image: collector-image-<version>.tar, for `docker build -` without a network.
import { readFileSync } from 'node:fs';
import path from 'node:path';
import { entriesOf, tar } from './archives.mjs';
import { assembled } from './bundle.mjs';

const DOCKERFILE = path.join(import.meta.dirname, '../../deploy/docker/Dockerfile');

export async function build(out, { version, commit, epoch }) {
  const label = (name, value) => [
    `org.opencontainers.image.${name}=""`,
    `org.opencontainers.image.${name}="${value}"`,
  ];
  const dockerfile = readFileSync(DOCKERFILE, 'utf8')
    .replace(...label('version', version))
    .replace(...label('revision', commit));
  const entries = [{ name: 'Dockerfile', data: dockerfile }, ...entriesOf(assembled(), 'collector')];
  await tar(path.join(out, `collector-image-${version}.tar`), entries, { epoch });
}

// The context of the container image: collector-image-<version>.tar, for `docker build -` without a network.
import path from 'node:path';
import { archive, entriesOf } from './archives.mjs';
import { assembled, DOCKERFILE } from './bundle.mjs';

export async function build(out, about) {
  const { version, epoch } = about;
  const bundle = assembled(about);
  const entries = [
    { name: 'Dockerfile', path: path.join(bundle, DOCKERFILE) },
    ...entriesOf(bundle, 'collector'),
  ];
  await archive(path.join(out, `collector-image-${version}.tar`), entries, epoch);
}

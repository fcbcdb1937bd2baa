// Picks ten source files and five pages by a seed, for a review of their English: node scripts/sample.mjs [SEED]
import { execFileSync } from 'node:child_process';
import { createHash } from 'node:crypto';

const SEED = '20261130';
const seed = process.argv[2] ?? SEED;
const files = execFileSync('git', ['ls-files'], { encoding: 'utf8' }).trim().split('\n');

/** The first `count` of the files that match, ordered by the SHA-256 of seed and path. */
const picked = (pattern, count) => {
  const order = (file) => createHash('sha256').update(`${seed} ${file}`).digest('hex');
  return files
    .filter((file) => pattern.test(file))
    .toSorted((one, other) => order(one).localeCompare(order(other)))
    .slice(0, count);
};

for (const file of picked(/^(packages|tools|clients)\/.*\/src\/.*\.(ts|py|css|sql)$|^tools\/.*\/src\//, 10)) {
  process.stdout.write(`${file}\n`);
}
for (const file of picked(/^(README|SECURITY|CONTRIBUTING)\.md$|^docs\/.*\.md$/, 5)) {
  process.stdout.write(`${file}\n`);
}

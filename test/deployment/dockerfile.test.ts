import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { configFrom, CONTAINER_USER, textOf } from './repository.js';

interface Instruction {
  readonly keyword: string;
  /** The text after it, with its lines joined. */
  readonly words: string;
}

const instructions: readonly Instruction[] = textOf('deploy/docker/Dockerfile')
  .replaceAll(/^\s*#.*\n/gm, '')
  .replaceAll(/\\\n\s*/g, ' ')
  .split('\n')
  .filter((line) => line.trim() !== '')
  .map((line) => {
    const [, keyword = '', words = ''] = /^(\S+)\s+(.*)$/.exec(line) ?? [];
    return { keyword, words: words.replaceAll(/\s+/g, ' ') };
  });

function of(keyword: string, among: readonly Instruction[] = instructions): Instruction[] {
  return among.filter((each) => each.keyword === keyword);
}

function wordsOf(instruction: Instruction | undefined): string {
  return instruction?.words ?? '';
}

/** The exec form is JSON. */
function commandOf(instruction: Instruction | undefined): string[] {
  const text = wordsOf(instruction);
  return JSON.parse(text.slice(text.indexOf('['))) as string[];
}

describe('[R-1400] the image', () => {
  test('runs on the Node.js version of the tests', () => {
    const { dependencies } = JSON.parse(textOf('package.json')) as {
      dependencies: Record<string, string>;
    };
    expect(instructions[0]).toEqual({
      keyword: 'ARG',
      words: `NODE_IMAGE=node:${dependencies['node']}-bookworm-slim`,
    });
    expect(of('FROM').map(wordsOf)).toEqual(['${NODE_IMAGE}']);
  });

  test('runs as a user other than root, by number, and nothing after that runs as root', () => {
    const users = of('USER');
    expect(users.map(wordsOf)).toEqual([`${CONTAINER_USER}:${CONTAINER_USER}`]);
    const [user] = users;
    const after = instructions.slice(instructions.indexOf(user as Instruction));
    expect(of('RUN', after)).toEqual([]);
    expect(wordsOf(of('RUN')[0])).toContain(`-o ${CONTAINER_USER} -g ${CONTAINER_USER} -m 0700 /data`);
  });

  test('[R-2052] holds no package manager, and is built without a network', () => {
    const programs = of('RUN').flatMap(({ words }) => words.split(' && ').map((each) => each.split(' ')[0]));
    expect(programs).toEqual(['rm', 'install']);
    expect(wordsOf(of('RUN')[0])).toContain('/usr/local/lib/node_modules');
    expect(of('COPY').map(wordsOf)).toEqual(['collector /opt/collector']);
    expect(of('ADD')).toEqual([]);
  });

  test('starts the collector as the first process, so that it gets signals', () => {
    const [node, ...flags] = commandOf(of('ENTRYPOINT')[0]);
    const main = flags.pop();
    expect([node, ...flags]).toEqual(['node', '--disable-sigusr1', '--max-semi-space-size=16']);
    const { bin } = JSON.parse(textOf('packages/collector/package.json')) as { bin: { collector: string } };
    expect(main).toBe(path.posix.join('/opt/collector/packages/collector', bin.collector));
    expect(commandOf(of('CMD')[0])).toEqual(['serve']);
    expect(wordsOf(of('STOPSIGNAL')[0])).toBe('SIGTERM');
  });

  test('sets valid variables of the collector, and exposes the ports that it listens on', () => {
    const env = Object.fromEntries(
      of('ENV').flatMap((each) =>
        wordsOf(each)
          .split(' ')
          .map((pair) => pair.split('=', 2) as [string, string]),
      ),
    );
    const config = configFrom(env);
    expect(config.host).toBe('0.0.0.0');
    expect(path.posix.dirname(config.dataDir)).toBe(wordsOf(of('VOLUME')[0]));
    expect(wordsOf(of('EXPOSE')[0])).toBe(`${config.port} ${config.managementPort}`);
  });
});

import fs from 'node:fs';
import path from 'node:path';
import vm from 'node:vm';
import { type Copy, type Dockerfile, DockerfileParser, type Instruction } from 'dockerfile-ast';
import { describe, expect, test } from 'vitest';
import { configFrom, CONTAINER_USER, ROOT, textOf } from './repository.js';

const dockerfile: Dockerfile = DockerfileParser.parse(textOf('deploy/docker/Dockerfile'));
const instructions = dockerfile.getInstructions();
const lastFrom = instructions.findLastIndex((each) => each.getInstruction() === 'FROM');
/** The image that runs, without the one that builds. */
const runtime = instructions.slice(lastFrom);

function of(keyword: string, among: readonly Instruction[] = runtime): Instruction[] {
  return among.filter((each) => each.getInstruction() === keyword);
}

/** The words behind the keyword, lines joined. */
function wordsOf(instruction: Instruction | undefined): string {
  return (
    instruction
      ?.getArguments()
      .map((argument) => argument.getValue())
      .join(' ') ?? ''
  );
}

/** The exec form is JSON. */
function commandOf(instruction: Instruction | undefined): string[] {
  const text = instruction?.getArgumentsContent() ?? '';
  return JSON.parse(text.slice(text.indexOf('['))) as string[];
}

describe('[R-844] the image', () => {
  test('is made of known instructions', () => {
    const known = [
      ...['ARG', 'FROM', 'WORKDIR', 'COPY', 'RUN', 'LABEL', 'ENV', 'USER', 'VOLUME', 'EXPOSE', 'STOPSIGNAL'],
      ...['HEALTHCHECK', 'ENTRYPOINT', 'CMD'],
    ];
    expect(instructions.map((each) => each.getInstruction()).filter((each) => !known.includes(each))).toEqual(
      [],
    );
  });

  test('is built and runs on the Node that the tests run on, by its version', () => {
    const { dependencies } = JSON.parse(textOf('package.json')) as {
      dependencies: Record<string, string>;
    };
    const [arg] = dockerfile.getInitialARGs();
    expect(arg?.getProperty()?.getValue()).toBe(`node:${dependencies['node']}-bookworm-slim`);
    const images = dockerfile.getFROMs().map((from) => from.getImage());
    expect(images).toEqual(['${NODE_IMAGE}', '${NODE_IMAGE}']);
  });

  test('runs as a user who is no root, by number, and nothing follows as root', () => {
    const users = of('USER');
    expect(users.map(wordsOf)).toEqual([`${CONTAINER_USER}:${CONTAINER_USER}`]);
    const [user] = users;
    const after = runtime.slice(runtime.indexOf(user as Instruction));
    expect(of('RUN', after)).toEqual([]);
    expect(wordsOf(of('RUN')[0])).toContain(`-o ${CONTAINER_USER} -g ${CONTAINER_USER} -m 0700 /data`);
  });

  test('holds no package manager and takes the build only from the stage before', () => {
    expect(wordsOf(of('RUN')[0])).toContain('/usr/local/lib/node_modules');
    expect(of('RUN').map(wordsOf).join()).not.toMatch(/\b(npm (ci|install|i)|apt|curl|wget)\b/);
    const copies = dockerfile.getCOPYs().filter((copy) => runtime.includes(copy));
    expect(copies.map((copy: Copy) => [copy.getFromFlag()?.getValue(), wordsOf(copy)])).toEqual([
      ['build', '/opt/collector /opt/collector'],
    ]);
  });

  test('starts the collector as the first process, so that it hears signals', () => {
    const [node, flag, main] = commandOf(of('ENTRYPOINT')[0]);
    expect([node, flag]).toEqual(['node', '--disable-sigusr1']);
    const { bin } = JSON.parse(textOf('packages/collector/package.json')) as { bin: { collector: string } };
    expect(main).toBe(path.posix.join('/opt/collector/packages/collector', bin.collector));
    expect(commandOf(of('CMD')[0])).toEqual(['serve']);
    expect(wordsOf(of('STOPSIGNAL')[0])).toBe('SIGTERM');
  });

  test('sets variables that the collector takes, and shows the ports that it listens on', () => {
    const env = Object.fromEntries(
      dockerfile
        .getENVs()
        .flatMap((each) => each.getProperties())
        .map((property) => [property.getName(), property.getValue() ?? '']),
    );
    const config = configFrom(env);
    expect(config.host).toBe('0.0.0.0');
    expect(path.posix.dirname(config.dataDir)).toBe(wordsOf(of('VOLUME')[0]));
    expect(wordsOf(of('EXPOSE')[0])).toBe(`${config.port} ${config.managementPort}`);
  });

  test('is asked on the management port whether it lives', () => {
    const [health] = of('HEALTHCHECK');
    const [node, flag, script = ''] = commandOf(health);
    expect([node, flag]).toEqual(['node', '-e']);
    expect(script).toContain(`http://127.0.0.1:${configFrom({}).managementPort}/livez`);
    expect(() => new vm.Script(script)).not.toThrow();
  });

  test('copies what is there and what .dockerignore lets in', () => {
    const ignored = textOf('.dockerignore').split('\n');
    const sources = dockerfile
      .getCOPYs()
      .filter((copy) => !runtime.includes(copy))
      .flatMap((copy) => wordsOf(copy).split(' ').slice(0, -1));
    expect(sources).toContain('packages');
    for (const source of sources) {
      expect(fs.existsSync(path.join(ROOT, source)), source).toBe(true);
      expect(ignored, source).toContain(`!${source.split('/')[0] ?? ''}`);
    }
    // The first rule keeps everything else out: keys, data, histories.
    expect(ignored.filter((line) => line !== '' && !line.startsWith('#'))[0]).toBe('*');
  });
});

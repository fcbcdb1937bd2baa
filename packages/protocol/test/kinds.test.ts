import { describe, expect, it } from 'vitest';
import { EVENT_KINDS, EVENT_PATHS, PROFILES, PROTOCOL_VERSION } from '../src/index.js';

describe('the event kinds', () => {
  it('are in the order that is stored on disk', () => {
    expect(EVENT_KINDS).toEqual([
      'inference-start',
      'internal-artifact',
      'human-output',
      'outcome',
      'user-feedback',
    ]);
  });

  it('[R-301] have one endpoint each, without a version in its path', () => {
    expect(Object.keys(EVENT_PATHS)).toEqual([...EVENT_KINDS]);
    for (const kind of EVENT_KINDS) expect(EVENT_PATHS[kind]).toBe(`/event/${kind}`);
  });
});

describe('the profiles', () => {
  it('are minimum and full', () => {
    expect(PROFILES).toEqual(['minimum', 'full']);
  });
});

describe('the protocol version', () => {
  it('is that of the specification', () => {
    expect(PROTOCOL_VERSION).toBe('0.0.1');
  });
});

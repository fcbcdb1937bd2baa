import { renderToString } from 'preact-render-to-string';
import { expect, test } from 'vitest';
import { documentOf } from '../../../src/operate/console-page.js';
import type { ConsoleState } from '../../../src/operate/console/console-state.js';
import { page } from '../../../src/operate/console/page.js';
import { busy, fresh, key, wrong } from './sample-state.js';

const timeOfDay = (at: number) => new Date(at).toISOString().slice(11, 19);

function shown(state: ConsoleState, marked?: number): string {
  return renderToString(page({ state, connection: 'live', marked, timeOfDay }));
}

/** What it says, in plain spaces. */
function textOf(html: string): string {
  return html
    .replace(/<[^>]*>/g, ' ')
    .replace(/[\s\u00a0]+/g, ' ')
    .replaceAll('&lt;', '<');
}

/** What the section with this id says; undefined where there is none. */
function part(html: string, id: string): string | undefined {
  const found = new RegExp(`<section id="${id}".*?</section>`, 's').exec(html);
  return found?.[0] && textOf(found[0]);
}

test('[R-835] the figures are those of the state', () => {
  const tree = shown(busy());
  expect(part(tree, 'overview')).toContain('Accepted 1,204 /s None refused');
  expect(part(tree, 'overview')).toContain('Acknowledged in 4.5 ms 99 % within; half in 1.2 ms');
  expect(part(tree, 'overview')).toContain('Events stored 917.43 million 1.2 TiB; 4,212,009 more an hour');
  expect(part(tree, 'overview')).toContain('Disk full in 18 days 2.4 TiB free of 4 TiB');
  expect(part(tree, 'overview')).toContain('Last checkpoint just now 621 entries since');
  expect(part(tree, 'accepted')).toMatch(/15,000 since the start.*human-output 3,000 20 %.*120 repeats/);
  // The most frequent first.
  expect(part(tree, 'refused')).toMatch(/19 since the start.*validation_failed 17 89 %.*key_invalid 2 11 %/);
  expect(part(tree, 'proof')).toMatch(
    /Checkpoint just now 917,436,350 entries, 621 since Last verified 2 days ago intact/,
  );
  expect(part(tree, 'sinks')).toMatch(/1 witness ok/);
  expect(part(tree, 'keys')).toMatch(
    /1 usable of 2.*keyaaaaaaaa1 radiology Gateway 1 usable 3 s ago 1,001 0 never/,
  );
  expect(textOf(tree)).toContain('nothing needs attention');
  expect(part(tree, 'proof')).toContain('Last back-up 25 min ago 915,700,218 events, 1,736,753 since');
});

test('[R-1921] the outcomes of spans and log records are shown, where OTLP is on', () => {
  const { otlp } = busy();
  if (otlp === null) throw new Error('the sample takes OTLP');
  const [traces, logs] = otlp.items;
  if (traces === undefined || logs === undefined) throw new Error('the sample has both signals');
  const rejected = { event_id_conflict: 3 };
  const state = { items: [traces, { ...logs, stored: 5, rejected }], shortened: 2 };
  expect(part(shown(busy({ otlp: state })), 'otlp')).toMatch(
    /9,540 since.*spans stored 412 4\.3 %.*ignored: not_about_models 9,120.*log records stored 5.*rejected: event_id_conflict 3.*2 events stored without/,
  );
  expect(part(shown(busy({ otlp: null })), 'otlp')).toBeUndefined();
});

test('[R-835] runs are shown by completeness, with the start of counting and the events not counted yet', () => {
  const { runs } = busy();
  if (runs === null) throw new Error('the sample has runs');
  expect(part(shown(busy()), 'runs')).toMatch(
    /242,500 began since 2026-02-05.*full 180,204 74 %.*minimum 61,977 26 %.*incomplete 312 0\.1 %.*erased 7 .*no outcome yet 44,120 18 %.*Orphan events 1,804/,
  );
  expect(part(shown(busy({ runs: { ...runs, erased: 0 } })), 'runs')).not.toContain('erased');
  const behind = { ...runs, orphan_events: 0, events_behind: 20_000 };
  const text = part(shown(busy({ runs: behind })), 'runs');
  expect(text).toContain('20,000 events not counted yet');
  // It is always a moment behind.
  const moment = { ...behind, events_behind: 2000 };
  expect(part(shown(busy({ runs: moment })), 'runs')).not.toContain('not counted yet');
  expect(part(shown(fresh()), 'runs')).toContain('Counting begins');
});

test('[R-835] problems come first, the most severe before all others, with instructions', () => {
  const tree = shown(wrong());
  const text = textOf(tree);
  const order = [
    'Not accepting events',
    'Events cannot be stored',
    'Free space',
    'contradicts',
    'key0',
    'chmod 700',
  ];
  const places = order.map((part) => text.indexOf(part.replace('key0', 'The key ')));
  expect(places.every((place) => place >= 0)).toBe(true);
  expect(places).toEqual([...places].sort((a, b) => a - b));
  expect(places.at(-1)).toBeLessThan(text.indexOf('At a glance'));
  // A hundred warnings of one kind do not hide the next.
  expect(part(tree, 'attention')).toContain('118 more of the same kind');
  expect(part(tree, 'proof')).toMatch(/none can be made for 28 h.*not intact/);
  expect(part(tree, 'sinks')).toMatch(/forked.*12,033.*not tried yet/);
  expect(part(tree, 'keys')).toContain('37 keys not listed');
});

test('[R-835] a collector that has just started shows unknown values as such', () => {
  const text = textOf(shown(fresh()));
  expect(text).toContain('No events yet');
  expect(text).toContain('This card counts events by kind');
  expect(text).toContain('No keys, so nothing can be sent');
  expect(text).toContain('Disk No answer');
  expect(text).toContain('after ten minutes of observation');
  expect(text).not.toMatch(/NaN|Infinity|undefined|null/);
  for (const state of [busy(), wrong(), fresh()]) {
    const html = documentOf(state);
    expect(html).not.toMatch(/NaN|Infinity|undefined|>null/);
  }
});

test('[R-835] without events every part says what it waits for, and nothing is shown twice', () => {
  const disk = { free_bytes: 64e9, total_bytes: 256e9, days_until_full: null, forecast_in_seconds: 43_199 };
  const state = { ...fresh(), disk };
  const tree = shown(state);
  const text = textOf(tree);
  expect(text).not.toMatch(/ – |not known/i);
  expect(part(tree, 'overview')).toContain('Acknowledged in Idle No events for five minutes');
  expect(part(tree, 'overview')).toContain('Disk free 60 GiB Of 238 GiB; forecast in 11 h at the earliest');
  expect(text.match(/Disk full in|forecast/g)).toHaveLength(1);
  expect(part(tree, 'traffic')).toContain('collector demo sends made-up runs');
  expect(tree).not.toContain('<path');
  expect(part(tree, 'proof')).toMatch(/Sinks none.*Last verified never by collector verify --note.*never by/);
  // Later, the last known times replace the missing ones.
  const before = busy().traffic.seconds.map((second, i) =>
    i < 200 ? second : { ...second, accepted: 0, p50_ms: null, p99_ms: null },
  );
  const quiet = busy({ traffic: { accepted_per_second: 0, refused_per_second: 0, seconds: before } });
  expect(part(shown(quiet), 'overview')).toContain('Acknowledged in 4.5 ms 99 % of the last, 1 min ago');
  expect(textOf(shown(busy()))).toContain('Disk full in');
  const still = shown(busy({ disk: { ...disk, forecast_in_seconds: null } }));
  expect(part(still, 'overview')).toContain('the ledger does not grow steadily');
});

test('[R-835] a missing set-up is below the figures, and is no warning', () => {
  const hints = [{ id: 'no_backup_yet', title: 'No back-up yet', what_to_do: 'Have one made.' }];
  const tree = shown(busy({ hints }));
  expect(part(tree, 'hints')).toMatch(/1 thing not set up yet No back-up yet Have one made\./);
  const text = textOf(tree);
  expect(text).toContain('nothing needs attention');
  expect(text.indexOf('Have one made')).toBeGreaterThan(text.indexOf('Last checkpoint'));
  expect(documentOf(busy({ hints }))).toContain('<title>Collector</title>');
  expect(textOf(shown(busy()))).not.toContain('not set up');
});

test('[R-835] a key that was replaced names its successor, and whether it is still used', () => {
  const list = [
    key(1, { replaced_by: 'keynew1' }),
    key(2, { replaced_by: 'keynew2', in_use: false }),
    key(3, { replaced_by: 'keynew3', state: 'expired' }),
  ];
  expect(part(shown(busy({ keys: list })), 'keys')).toMatch(
    /aa1 radiology Gateway 1 replaced, in use by keynew1 .*aa2 radiology Gateway 2 replaced by keynew2 .*aa3 radiology Gateway 3 expired 3 s ago/,
  );
});

test('[R-2058] the console names the version and the commit', () => {
  expect(shown(busy())).toContain('version 0.0.1, commit 0123456789ab');
});

test('[R-835] all text of a state is escaped in the document', () => {
  const markup = `"><img src=x onerror=alert(1)><script>alert(2)</script>'&amp;`;
  const html = documentOf(busy({ version: markup, keys: [key(1, { note: markup, organisation: markup })] }));
  expect(html).not.toContain('<img');
  expect(html.match(/<script/g)).toHaveLength(1);
  expect(html).toMatch(/&quot;>&lt;img src=x onerror=alert\(1\)>/);
  expect(html).toContain('&amp;amp;');
});

test('[R-835] a declared number is in its card with its unit, and a trouble is marked', () => {
  const tree = shown(wrong());
  expect(part(tree, 'storage')).toContain('Id index 917,436,971 entries In memory 48 MiB');
  expect(part(tree, 'proof')).toMatch(
    /Key epoch since 9 days ago Erased 1,137 events Not yet erased 2 erasures/,
  );
  expect(tree).toContain('<span class="chip warning">2 erasures</span>');
  expect(part(tree, 'runs')).toContain('Orphan events 1,804 their start is missing');
});

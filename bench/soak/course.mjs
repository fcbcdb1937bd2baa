/**
 * The parts of a running soak: the collector, its senders, the console, and waiting for them.
 */
import { X509Certificate } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { Checks } from './checks.mjs';
import { ConsolePage } from './console-page.mjs';
import { ConsoleWatch } from './console-watch.mjs';
import { Senders } from './senders.mjs';
import { SoakEvents } from './soak-events.mjs';
import { SupervisedCollector } from './supervised-collector.mjs';

/** Time-out for expected states, also on a busy machine. */
export const PATIENCE_MS = 600_000;
/** Days until the certificates expire: the first within two weeks, the next one later. */
const FIRST_DAYS = 5;
export const NEXT_DAYS = 90;

export const sum = (counts) => Object.values(counts).reduce((total, count) => total + count, 0);

/** Whether the console shows this certificate as in use. */
export function isUntil({ certificates }, { certificate }) {
  const shown = certificates.find(({ name }) => name === 'ingest');
  return Date.parse(shown?.not_after) === new X509Certificate(certificate).validToDate.getTime();
}

export class Course {
  setting;
  options;
  rate;
  segmentBytes;
  dataDir;
  checks;
  events = new SoakEvents();
  applications;
  collector;
  senders;
  watch;
  /** Undefined without a browser. */
  page;
  firstCertificate;

  /** @param rate events a second. */
  constructor(setting, options, rate) {
    this.setting = setting;
    this.options = options;
    this.rate = rate;
    this.segmentBytes = setting.segmentBytes(rate);
    this.dataDir = setting.dataDir('data');
    this.checks = new Checks(options.say);
  }

  async begin() {
    const { setting, events } = this;
    const { connections, out } = this.options;
    this.firstCertificate = setting.renewCertificate(FIRST_DAYS);
    this.applications = await setting.applications(this.dataDir, connections);
    this.collector = new SupervisedCollector(setting.options(this.dataDir, this.segmentBytes));
    await this.collector.listening;
    this.senders = new Senders({ ...setting.forSenders, events, senders: this.applications });
    this.page = await ConsolePage.open(`http://127.0.0.1:${setting.managementPort}/console`, out);
    this.watch = new ConsoleWatch(setting.managementPort, this.senders);
  }

  async close() {
    await this.watch?.stop();
    await this.page?.close();
    await this.senders?.stop();
    await this.collector?.stop();
  }

  inTime(what, ok, detail) {
    this.checks.inTime(what, ok, detail, this.options.timesCount);
  }

  isUntil(what, state, issued) {
    const ok = state !== undefined && isUntil(state, issued);
    this.checks.that(what, ok, state?.certificates.map(({ not_after: end }) => end).join());
  }

  /** Waits until the senders' counts since the newest start match. */
  async counted(fits, what) {
    const until = performance.now() + PATIENCE_MS;
    for (;;) {
      const { lives, life } = await this.senders.counts();
      if (fits(lives[life])) return this.checks.that(what, true);
      if (performance.now() > until) return this.checks.that(what, false, JSON.stringify(lives[life]));
      await sleep(100);
    }
  }

  async pageShows(selector, words, what) {
    if (this.page !== undefined) this.checks.that(what, await this.page.shows(selector, words));
  }

  async picture(name) {
    await this.page?.picture(name);
  }
}

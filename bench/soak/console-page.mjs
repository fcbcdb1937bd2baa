/** The console in Chromium, if it is installed. */
import fs from 'node:fs';
import path from 'node:path';

/** Time for the page to show an expected state, also on a busy machine. */
const PATIENCE_MS = 600_000;
const plain = (text) => text.replaceAll('\u00a0', ' ').trim();

export class ConsolePage {
  /** Errors that the browser reported. */
  complaints = [];
  #browser;
  #page;
  #out;
  #taken = 0;

  /** @returns undefined if no browser can be started. */
  static async open(url, out) {
    let browser;
    try {
      const { launchBrowser } = await import('../../test/chromium.ts');
      browser = await launchBrowser();
    } catch {
      return undefined;
    }
    const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    page.setDefaultTimeout(PATIENCE_MS);
    const opened = new ConsolePage(browser, page, out);
    await page.goto(url);
    return opened;
  }

  constructor(browser, page, out) {
    this.#browser = browser;
    this.#page = page;
    this.#out = out;
    page.on('pageerror', (error) => this.complaints.push(error.message));
    if (out !== undefined) fs.mkdirSync(out, { recursive: true });
  }

  /** Saves a picture of the page, with a number and this name. */
  async picture(name) {
    if (this.#out === undefined) return;
    const file = `${String(++this.#taken).padStart(2, '0')}-${name}.png`;
    await this.#page.screenshot({ path: path.join(this.#out, file), fullPage: true });
  }

  /** Resolves with whether that part of the page shows the text in time. */
  shows(selector, fits) {
    return this.#until(async () => fits.test(plain(await this.#page.locator(selector).first().innerText())));
  }

  /** Resolves with whether that cell of the row shows the text in time. */
  showsCell(heading, place, text) {
    return this.#until(async () => (await this.cells(heading))[place] === text);
  }

  /** The cells of a table's row, by its heading. */
  async cells(heading) {
    const row = this.#page.locator('tr', {
      has: this.#page.getByRole('rowheader', { name: heading, exact: true }),
    });
    return (await row.first().getByRole('cell').allInnerTexts()).map(plain);
  }

  async #until(isSo) {
    const until = performance.now() + PATIENCE_MS;
    for (;;) {
      if (await isSo()) return true;
      if (performance.now() > until) return false;
      await this.#page.waitForTimeout(100);
    }
  }

  close() {
    return this.#browser.close();
  }
}

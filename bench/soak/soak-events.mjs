/**
 * The events of a soak. Id and body follow from the sender and the number of an event, so a stored event can
 * be compared with the sent one without keeping millions of them.
 */
import { randomBytes } from 'node:crypto';

export const KINDS = ['inference-start', 'internal-artifact', 'human-output', 'outcome', 'user-feedback'];

const PAYLOADS = [
  '"model_instance":{"model_id":"deterioration","model_version":"4.2"},"inputs":{"input_uri":"https://records.example.org/obs/77"}',
  '"artifact":{"artifact_type":"explanation","artifact_uri":"https://records.example.org/shap/77"}',
  '"output":{"output_uri":"https://records.example.org/alert/9","summary":"High risk within 6 hours"}',
  '"outcome":{"outcome_type":"validated","description":"Transferred to intensive care"}',
  '"feedback":{"feedback_type":"thumbs","comment":"useful"}',
];
/** Most bodies have 400 to 1,500 bytes, and one in a thousand is large. */
const LARGE = 20_000;
const PADDING = 'x'.repeat(LARGE);
const paddingOf = (number) => (number % 997 === 996 ? LARGE : 100 + ((number * 7919) % 1100));

const hex = (number, digits) => number.toString(16).padStart(digits, '0');
const ID = /^([0-9a-f]{8})-([0-9a-f]{4})-4([0-9a-f]{3})-8([0-9a-f]{3})-([0-9a-f]{12})$/;

export class SoakEvents {
  /** 15 hexadecimal digits that identify this soak. */
  nonce;
  #begun;

  constructor({ nonce = randomBytes(8).toString('hex').slice(1), begun = Date.now() } = {}) {
    this.nonce = nonce;
    this.#begun = begun;
  }

  /** The settings for another thread, which makes the same events. */
  get seed() {
    return { nonce: this.nonce, begun: this.#begun };
  }

  /** A version 4 UUID (RFC 9562) that contains sender and number. */
  id(sender, number) {
    const { nonce } = this;
    return `${nonce.slice(0, 8)}-${nonce.slice(8, 12)}-4${hex(sender, 3)}-8${nonce.slice(12)}-${hex(number, 12)}`;
  }

  /** @returns sender and number of an id, or undefined for another id. */
  placeOf(id) {
    const found = ID.exec(id);
    if (found === null || found[1] + found[2] + found[4] !== this.nonce) return undefined;
    return { sender: parseInt(found[3], 16), number: parseInt(found[5], 16) };
  }

  /** Runs of five events, one of each kind. */
  kindOf(number) {
    return KINDS[number % KINDS.length];
  }

  /** The exact body, in ASCII. */
  body(sender, number) {
    const place = number % KINDS.length;
    const run = place === 0 ? '' : `"run_id":"${this.id(sender, number - place)}",`;
    return (
      `{"event_id":"${this.id(sender, number)}",${run}"timestamp":"${new Date(this.#begun + number).toISOString()}",` +
      `"protocol_version":"0.0.1","system_metadata":{"hostname":"icu-3","app_name":"soak","latency_ms":412},` +
      `${PAYLOADS[place]},"note":"${PADDING.slice(0, paddingOf(number))}"}`
    );
  }

  /** An event with the same id and other content. */
  contradiction(sender, number) {
    return `${this.body(sender, number).slice(0, -1)},"changed":true}`;
  }

  /** An invalid event: its timestamp is missing. */
  faulty(sender, number) {
    return this.body(sender, number).replace(/"timestamp":"[^"]*",/, '');
  }
}

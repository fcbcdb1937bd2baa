/**
 * Events read for columns: what a column takes as it was sent is told from where it stands in the bytes of the event,
 * and nothing is made of the rest. An event that is not plain (json-scan.ts) is parsed.
 */
import { EVENT_KINDS, type EventKind } from '@clinical-events/protocol';
import type { ReadEvents } from '../store/event-log.js';
import { latin1, RepeatedText, utf8 } from '../store/repeated-text.js';
import {
  BASE_FIELDS,
  PAYLOADS,
  ScannedBody,
  ScannedObject,
  type EventBody,
  type PayloadName,
} from './event-body.js';
import { JsonScan, MemberName } from './json-scan.js';
import { runEvent, type EventReader, type RunEvent } from './run-event.js';

type FieldName = (typeof BASE_FIELDS)[number] | PayloadName;

interface Field {
  readonly name: MemberName;
  readonly field: FieldName;
}

/** The fields that the protocol names for each kind, by the signatures of their names, no two of which are the same. */
const FIELDS = new Map(EVENT_KINDS.map((kind) => [kind, fieldsOf([...BASE_FIELDS, ...PAYLOADS[kind]])]));

function fieldsOf(names: readonly FieldName[]): Map<number, Field> {
  const fields = names.map((field): Field => ({ name: new MemberName(field), field }));
  return new Map(fields.map((field) => [field.name.signature, field]));
}

export class ScanningReader implements EventReader<EventBody> {
  #read: ReadEvents | undefined;
  #scan = new JsonScan();
  /** Of the batch before, which is in use until the next. */
  #before = new JsonScan();
  readonly #version = new RepeatedText(utf8);

  begin(read: ReadEvents): void {
    this.#read = read;
    [this.#scan, this.#before] = [this.#before, this.#scan];
    this.#scan.begin(read.source);
  }

  event(index: number): RunEvent<EventBody> {
    const read = this.#read;
    if (read === undefined) throw new TypeError('nothing was read');
    const event = read.facts(index);
    if (event.payloadState !== 'plain') return { event, body: undefined };
    const body = this.#body(read.bodyFrom(index), read.bodyTo(index), event.kind, event.runId !== undefined);
    return body === undefined ? runEvent(event, read.body(index)) : { event, body };
  }

  /** @returns undefined for one that has to be parsed. */
  #body(from: number, to: number, kind: EventKind, namesRun: boolean): ScannedBody | undefined {
    const scan = this.#scan;
    const event = scan.scan(from, to);
    const fields = FIELDS.get(kind);
    if (event < 0 || fields === undefined) return undefined;
    const body = new ScannedBody();
    let extra: string[] | undefined;
    for (let member = scan.first(event); member >= 0; member = scan.after(member, event)) {
      const known = fields.get(scan.signature(member));
      if (known === undefined || !scan.isNamed(member, known.name)) {
        (extra ??= []).push(scan.text(member));
        continue;
      }
      switch (known.field) {
        case 'event_id':
          break;
        case 'run_id':
          // The nil UUID is kept as what it is (recorded-event.ts).
          if (!namesRun) return undefined;
          break;
        case 'timestamp':
          if (scan.isEscaped(member)) return undefined;
          body.timestamp = latin1(scan.bytes, scan.from(member) + 1, scan.to(member) - 1);
          break;
        case 'parent_event_id':
          if (scan.isEscaped(member)) return undefined;
          if (scan.isString(member))
            body.parent_event_id = latin1(scan.bytes, scan.from(member) + 1, scan.to(member) - 1);
          break;
        case 'protocol_version':
          if (scan.isEscaped(member)) return undefined;
          body.protocol_version = this.#version.of(scan.bytes, scan.from(member) + 1, scan.to(member) - 1);
          break;
        default:
          if (!scan.isObject(member)) return undefined;
          body[known.field] = new ScannedObject(scan, member);
      }
    }
    if (extra !== undefined) body.extra = `{${extra.join(',')}}`;
    return body;
  }
}

/**
 * OTLP in protobuf. The bytes are checked first: protobuf-es accepts a message that is longer than its
 * parent.
 */
import { type DescMessage, fromBinary, ScalarType } from '@bufbuild/protobuf';
import { BinaryReader, WireType } from '@bufbuild/protobuf/wire';
import type { Fields } from '@clinical-events/protocol/spans';
import type { Signal } from '../decoded.js';
import { DecodingFault, MOST_LEVELS, MOST_MESSAGES, tooDeep, tooMany } from './fault.js';
import { type Form, type Message, wholeNumber } from './form.js';
import {
  type AnyValue,
  ExportLogsServiceRequestSchema,
  ExportTraceServiceRequestSchema,
  type KeyValue,
  LogRecordSchema,
  SpanSchema,
} from './generated/otlp_pb.js';

const REQUESTS: Readonly<Record<Signal, DescMessage>> = {
  traces: ExportTraceServiceRequestSchema,
  logs: ExportLogsServiceRequestSchema,
};

/** Nested messages stay in the bytes of their parent. */
const ONE_BY_ONE: Readonly<Record<string, DescMessage>> = { spans: SpanSchema, logRecords: LogRecordSchema };

type Members = Readonly<Record<string, unknown>>;

/**
 * Reads protobuf. An absent field has its zero value, as in protobuf-es; every field of an absent message is
 * undefined.
 */
export const protobufForm: Form = {
  requestOf(body, signal) {
    const bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    const type = REQUESTS[signal];
    try {
      new Examination(bytes).message(shapeOf(type), bytes.length, 1);
    } catch (error) {
      throw error instanceof DecodingFault ? error : malformed();
    }
    return read(type, bytes);
  },
  forEach(of, name, act) {
    const one = ONE_BY_ONE[name];
    for (const item of (of as Members)[name] as readonly (Message | Buffer)[]) {
      act(one ? read(one, item as Buffer) : item);
    }
  },
  message: (of, name) => (of as Members)[name] as Message | undefined,
  text: (of, name) => ((of as Members)[name] ?? '') as string,
  id(of, name, digits) {
    const bytes = (of as Members)[name] as Buffer;
    if (bytes.length !== digits / 2) return '';
    const id = bytes.toString('hex');
    return /[^0]/.test(id) ? id : '';
  },
  time: (of, name) => (of as Members)[name] as bigint,
  number: (of, name) => (of as Members)[name] as number,
  attributes: (of) => fieldsOf(((of as Members)['attributes'] ?? []) as readonly KeyValue[]),
  value: (of, name) => valueOf((of as Members)[name] as AnyValue | undefined),
};

function read(type: DescMessage, bytes: Uint8Array): Message {
  try {
    return fromBinary(type, bytes, { readUnknownFields: false });
  } catch {
    throw malformed();
  }
}

/** The last of equal names counts, as in JSON. */
function fieldsOf(list: readonly KeyValue[]): Fields {
  const fields = Object.create(null) as Record<string, unknown>;
  for (const { key, value } of list) fields[key] = valueOf(value);
  return fields;
}

function valueOf(any: AnyValue | undefined): unknown {
  const value = any?.value;
  switch (value?.case) {
    case 'stringValue':
    case 'boolValue':
      return value.value;
    case 'intValue':
      return wholeNumber(value.value);
    case 'doubleValue':
      return Number.isFinite(value.value) ? value.value : null;
    case 'arrayValue':
      return value.value.values.map(valueOf);
    case 'kvlistValue':
      return fieldsOf(value.value.values);
    case 'bytesValue':
      return Buffer.from(value.value).toString('base64');
    default:
      return null;
  }
}

/** A message type: for each field number its wire type, and the shape of nested messages. */
type Shape = Map<number, { readonly wire: WireType; readonly shape: Shape | undefined }>;

const shapes = new Map<DescMessage, Shape>();

function shapeOf(type: DescMessage): Shape {
  const known = shapes.get(type);
  if (known) return known;
  const shape: Shape = new Map();
  shapes.set(type, shape);
  for (const { number, localName, message, scalar } of type.fields) {
    const inner = message ?? ONE_BY_ONE[localName];
    shape.set(number, { wire: wireOf(scalar), shape: inner && shapeOf(inner) });
  }
  return shape;
}

function wireOf(scalar: ScalarType | undefined): WireType {
  if (scalar === ScalarType.FIXED64 || scalar === ScalarType.DOUBLE) return WireType.Bit64;
  if (scalar === ScalarType.FIXED32) return WireType.Bit32;
  const isVarint = scalar !== undefined && scalar !== ScalarType.STRING && scalar !== ScalarType.BYTES;
  return isVarint ? WireType.Varint : WireType.LengthDelimited;
}

/** Limits what is built from the bytes, and finds messages that are longer than their parent. */
class Examination {
  readonly #bytes: Uint8Array;
  readonly #reader: BinaryReader;
  #messages = 0;

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
    this.#reader = new BinaryReader(bytes);
  }

  /** Checks the message from the reader's position to `end`, nested `level` deep. */
  message(shape: Shape, end: number, level: number): void {
    if (level > MOST_LEVELS) throw tooDeep();
    if (++this.#messages > MOST_MESSAGES) throw tooMany(MOST_MESSAGES, 'messages');
    const reader = this.#reader;
    while (reader.pos < end) {
      const [number, wire] = reader.tag();
      const field = shape.get(number);
      if (field && field.wire !== wire) throw malformed();
      if (wire === WireType.Varint) this.#skipVarint();
      else if (wire === WireType.Bit64) reader.pos += 8;
      else if (wire === WireType.Bit32) reader.pos += 4;
      else if (wire === WireType.LengthDelimited) {
        const to = reader.uint32() + reader.pos;
        if (to > end) throw malformed();
        if (field?.shape) this.message(field.shape, to, level + 1);
        else reader.pos = to;
      } else reader.skip(wire, number, MOST_LEVELS - level);
    }
    if (reader.pos !== end) throw malformed();
  }

  #skipVarint(): void {
    while ((this.#bytes[this.#reader.pos++] ?? 0) >= 0x80);
  }
}

function malformed(): DecodingFault {
  return new DecodingFault('malformed', 'the request is not OTLP in protobuf');
}

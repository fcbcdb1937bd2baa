/** The receiver's answers, in the encoding of the request. */
import { create, type DescMessage, type MessageInitShape, toBinary, toJsonString } from '@bufbuild/protobuf';
import type { Encoding, Signal } from '../decoded.js';
import {
  ExportLogsServiceResponseSchema,
  ExportTraceServiceResponseSchema,
  RpcStatusSchema,
} from './generated/otlp_pb.js';

/**
 * An ExportTraceServiceResponse or ExportLogsServiceResponse. It has a partial_success when items were
 * rejected or there is a message; one without rejected items is a warning.
 */
export function successBody(signal: Signal, encoding: Encoding, rejected: number, message: string): Buffer {
  const isWhole = rejected === 0 && message === '';
  if (signal === 'traces') {
    const partialSuccess = { rejectedSpans: BigInt(rejected), errorMessage: message };
    return bodyOf(ExportTraceServiceResponseSchema, encoding, isWhole ? {} : { partialSuccess });
  }
  const partialSuccess = { rejectedLogRecords: BigInt(rejected), errorMessage: message };
  return bodyOf(ExportLogsServiceResponseSchema, encoding, isWhole ? {} : { partialSuccess });
}

/** A google.rpc.Status. @param code of google.rpc.Code. */
export function statusBody(encoding: Encoding, code: number, message: string): Buffer {
  return bodyOf(RpcStatusSchema, encoding, { code, message });
}

function bodyOf<Desc extends DescMessage>(
  schema: Desc,
  encoding: Encoding,
  said: MessageInitShape<Desc>,
): Buffer {
  const message = create(schema, said);
  return Buffer.from(encoding === 'json' ? toJsonString(schema, message) : toBinary(schema, message));
}

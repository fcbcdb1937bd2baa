import type { Fields } from '@clinical-events/protocol/spans';
import type { Signal } from '../decoded.js';
import { DecodingFault } from './fault.js';

/** A message of OTLP in its encoding. */
export type Message = object;

/** Reads an encoding: absent fields are empty, and a field of another type is a DecodingFault. */
export interface Form {
  requestOf(body: Uint8Array, signal: Signal): Message;
  forEach(of: Message, name: string, act: (message: Message) => void): void;
  message(of: Message, name: string): Message | undefined;
  text(of: Message, name: string): string;
  /** Hexadecimal digits in lower case; empty unless there are `digits` of them and one is not 0. */
  id(of: Message, name: string, digits: number): string;
  /** A time in nanoseconds. */
  time(of: Message, name: string): bigint;
  /** A 32-bit integer. */
  number(of: Message, name: string): number;
  attributes(of: Message): Fields;
  value(of: Message, name: string): unknown;
}

/** An int64 as a number if that is exact, else as its decimal digits. */
export function wholeNumber(value: bigint): number | string {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : String(value);
}

/** Adds the item's index to a fault. */
export function forEachOf(list: readonly Message[], name: string, act: (message: Message) => void): void {
  let index = 0;
  try {
    for (; index < list.length; index++) act(list[index] as Message);
  } catch (error) {
    throw error instanceof DecodingFault ? error.in(`${name}[${index}]`) : error;
  }
}

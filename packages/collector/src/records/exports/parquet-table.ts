/** What the rows of a Parquet file are made of: values, lists of texts, and lists of structs of values. */
import type { SchemaElement } from 'hyparquet-writer';
import type { Text } from '../event-body.js';

/** `time` is a text's milliseconds since 1970 UTC; `count` a whole number below 2^31. */
export type ValueType = 'text' | 'number' | 'count' | 'time';

export interface Value<Source> {
  readonly name: string;
  readonly type: ValueType;
  /** A text for `text`, else a number. Undefined where there is none. */
  readonly of: (source: Source) => Text | number | undefined;
}

export interface Texts<Row> {
  readonly name: string;
  readonly type: 'texts';
  readonly of: (row: Row) => readonly string[] | undefined;
}

/** Made by {@link structs}. */
export interface Structs<Row, Entry = never> {
  readonly name: string;
  readonly type: 'structs';
  readonly of: (row: Row) => readonly Entry[];
  readonly members: readonly Value<Entry>[];
}

/** A list of structs: each field of them by its name, made of an entry. */
export function structs<Row, Entry>(
  name: string,
  of: (row: Row) => readonly Entry[],
  members: readonly Value<Entry>[],
): Structs<Row> {
  // What its entries are is nobody's business but theirs.
  return { name, type: 'structs', of, members } as unknown as Structs<Row>;
}

export type Field<Row> = Value<Row> | Texts<Row> | Structs<Row>;

export interface Table<Row> {
  readonly name: string;
  readonly fields: readonly Field<Row>[];
}

/** The schema as the format wants it: depth first, each group with the number of its children. */
export function schemaOf<Row>({ name, fields }: Table<Row>): SchemaElement[] {
  return [{ name, num_children: fields.length }, ...fields.flatMap((field) => elementsOf(field))];
}

function elementsOf<Row>(field: Field<Row>): SchemaElement[] {
  switch (field.type) {
    case 'texts':
      return [...listHead(field.name), { ...leafOf('element', 'text'), repetition_type: 'REQUIRED' }];
    case 'structs':
      return [
        ...listHead(field.name),
        { name: 'element', repetition_type: 'REQUIRED', num_children: field.members.length },
        ...field.members.map(({ name, type }) => leafOf(name, type)),
      ];
    default:
      return [leafOf(field.name, field.type)];
  }
}

/** A list in the three levels that the format asks for (LogicalTypes.md, "Lists"). */
function listHead(name: string): SchemaElement[] {
  return [
    { name, repetition_type: 'REQUIRED', converted_type: 'LIST', num_children: 1 },
    { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
  ];
}

export function leafOf(name: string, type: ValueType): SchemaElement {
  switch (type) {
    case 'text':
      return { name, type: 'BYTE_ARRAY', converted_type: 'UTF8', repetition_type: 'OPTIONAL' };
    case 'number':
      return { name, type: 'DOUBLE', repetition_type: 'OPTIONAL' };
    case 'count':
      return { name, type: 'INT32', repetition_type: 'OPTIONAL' };
    case 'time':
      return {
        name,
        type: 'INT64',
        converted_type: 'TIMESTAMP_MILLIS',
        logical_type: { type: 'TIMESTAMP', isAdjustedToUTC: true, unit: 'MILLIS' },
        repetition_type: 'OPTIONAL',
      };
  }
}

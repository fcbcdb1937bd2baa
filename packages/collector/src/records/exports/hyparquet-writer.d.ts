/** Stands in until the package is installed: delete this file then. */
declare module 'hyparquet-writer' {
  export interface SchemaElement {
    name: string;
    type?: 'BOOLEAN' | 'INT32' | 'INT64' | 'DOUBLE' | 'BYTE_ARRAY';
    repetition_type?: 'REQUIRED' | 'OPTIONAL' | 'REPEATED';
    converted_type?: string;
    logical_type?: object;
    num_children?: number;
  }
  export interface RowGroup {
    columns: {
      file_offset: bigint;
      meta_data?: { data_page_offset: bigint; dictionary_page_offset?: bigint };
    }[];
  }
  export class ByteWriter {
    offset: number;
    index: number;
    getBytes(): Uint8Array;
    appendBytes(bytes: Uint8Array): void;
  }
  export interface ColumnSource {
    name: string;
    data: unknown[];
    encoding?: string;
    statistics?: boolean;
  }
  export class ParquetWriter {
    constructor(options: {
      writer: ByteWriter;
      schema: SchemaElement[];
      codec?: string;
      compressors?: Record<string, (input: Uint8Array) => Uint8Array>;
      statistics?: boolean;
      kvMetadata?: { key: string; value?: string }[];
      createdBy?: string;
    });
    writer: ByteWriter;
    num_rows: bigint;
    row_groups: RowGroup[];
    pendingIndexes: { offsetIndex?: { page_locations: { offset: bigint }[] } }[];
    write(options: { columnData: ColumnSource[]; rowGroupSize?: number; pageSize?: number }): void;
    finish(): void;
  }
}

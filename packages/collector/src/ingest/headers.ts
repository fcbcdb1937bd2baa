/** The request headers that the collector acts on, read in one pass without building an object of all of them. */

export interface RequestHeaders {
  host: number;
  /** Where a page's script comes from (RFC 6454 section 7); empty when two say so. */
  origin: string | undefined;
  apiKey: string | undefined;
  /** True when a header that may stand once stands twice: two readings of one request. */
  repeated: boolean;
  contentType: string | undefined;
  contentEncoding: string | undefined;
  /** From Content-Length; undefined when the body is chunked or there is none. */
  contentLength: number | undefined;
  transferEncoding: string | undefined;
}

/**
 * @param raw names and values in turn, as they came (`IncomingMessage.rawHeaders`). The parser has already
 *   refused a Content-Length that is no number, two different ones, and one beside Transfer-Encoding.
 */
export function readHeaders(raw: readonly string[]): RequestHeaders {
  const headers: RequestHeaders = {
    host: 0,
    origin: undefined,
    apiKey: undefined,
    repeated: false,
    contentType: undefined,
    contentEncoding: undefined,
    contentLength: undefined,
    transferEncoding: undefined,
  };
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = raw[i] ?? '';
    const value = raw[i + 1] ?? '';
    switch (name.length) {
      case 4:
        if (name.toLowerCase() === 'host') headers.host++;
        break;
      case 6:
        if (name.toLowerCase() === 'origin') headers.origin = headers.origin === undefined ? value : '';
        break;
      case 9:
        if (name.toLowerCase() === 'x-api-key') {
          headers.repeated ||= headers.apiKey !== undefined;
          headers.apiKey = value;
        }
        break;
      case 12:
        if (name.toLowerCase() === 'content-type') {
          headers.repeated ||= headers.contentType !== undefined;
          headers.contentType = value;
        }
        break;
      case 14:
        if (name.toLowerCase() === 'content-length') {
          headers.repeated ||= headers.contentLength !== undefined;
          headers.contentLength = Number(value);
        }
        break;
      case 16:
        if (name.toLowerCase() === 'content-encoding') {
          headers.repeated ||= headers.contentEncoding !== undefined;
          headers.contentEncoding = value;
        }
        break;
      case 17:
        if (name.toLowerCase() === 'transfer-encoding') {
          headers.repeated ||= headers.transferEncoding !== undefined;
          headers.transferEncoding = value;
        }
    }
  }
  return headers;
}

/** True for `application/json`, alone or with charset UTF-8 (RFC 9110 section 8.3; other parameters are ignored). */
export function isJsonMediaType(contentType: string | undefined): boolean {
  if (contentType === 'application/json') return true;
  if (contentType === undefined) return false;
  const [type = '', ...parameters] = contentType.toLowerCase().split(';');
  if (type.trim() !== 'application/json') return false;
  return parameters.every((parameter) => {
    const [name = '', value = ''] = parameter.split('=', 2);
    return name.trim() !== 'charset' || /^\s*"?utf-?8"?\s*$/.test(value);
  });
}

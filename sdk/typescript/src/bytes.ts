/** Bytes, base64 and text, alike in Node and in browsers. */

/** Bytes as base64: standard alphabet, padded. */
export function toBase64(bytes: Uint8Array): string {
  const parts: string[] = [];
  // Arguments of a call have a limit; pieces of a multiple of three join without padding.
  for (let at = 0; at < bytes.length; at += 24_576) {
    parts.push(btoa(String.fromCharCode(...bytes.subarray(at, at + 24_576))));
  }
  return parts.join("");
}

/** The bytes of a base64 text; undefined where it is none. Line ends and missing padding are taken. */
export function fromBase64(text: string): Uint8Array<ArrayBuffer> | undefined {
  try {
    const binary = atob(text);
    const bytes = new Uint8Array(binary.length);
    for (let i = 0; i < binary.length; i += 1) bytes[i] = binary.charCodeAt(i);
    return bytes;
  } catch {
    return undefined;
  }
}

/** The text of bytes; undefined where they are not UTF-8. Nothing is dropped, no mark either. */
export function utf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

/** The bytes of a piece of output. */
export function bytesOf(text: string, encoding: unknown): Uint8Array<ArrayBuffer> {
  if (encoding === "base64") return fromBase64(text) ?? new Uint8Array();
  return new TextEncoder().encode(text);
}

/** All bytes in one piece. */
export function join(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  let length = 0;
  for (const part of parts) length += part.length;
  const all = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}

/** Text for a reader: bytes that are not UTF-8 as `\xNN`. */
export function shown(bytes: Uint8Array): string {
  const whole = utf8(bytes);
  if (whole !== undefined) return whole;
  let text = "";
  for (let at = 0; at < bytes.length; ) {
    const length = sequence(bytes, at);
    if (length === 0) {
      text += `\\x${(bytes[at] ?? 0).toString(16).padStart(2, "0")}`;
      at += 1;
    } else {
      text += utf8(bytes.subarray(at, at + length)) ?? "";
      at += length;
    }
  }
  return text;
}

/** How long the valid character at `at` is; 0: there is none. */
function sequence(bytes: Uint8Array, at: number): number {
  const first = bytes[at] ?? 0;
  const length = first < 0x80 ? 1 : first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : first < 0xf5 ? 4 : 0;
  if (length === 0 || at + length > bytes.length) return 0;
  return utf8(bytes.subarray(at, at + length)) === undefined ? 0 : length;
}

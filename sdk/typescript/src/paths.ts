/** Paths below `/workspace`: text, or bytes where a name is no UTF-8. */

import { join, shown, toBase64, utf8 } from "./bytes.js";
import { localError } from "./errors.js";

/**
 * A path, absolute below `/workspace` or relative to it. Names are bytes: those that are no UTF-8
 * have no text, and a path with one is given as bytes.
 */
export type FilePath = string | Uint8Array;

/** A name: text, or bytes that are no UTF-8. */
export type Segment = string | Uint8Array;

const SLASH = new Uint8Array([0x2f]);

/** The path from `/workspace` on: bytes where it has no text. */
export function absolute(path: FilePath, operation: string): FilePath {
  const segments = ["/workspace", ...segmentsOf(path, operation)];
  if (segments.every((segment) => typeof segment === "string")) return segments.join("/");
  const bytes = (segment: Segment): Uint8Array => (typeof segment === "string" ? encoded(segment) : segment);
  return join(segments.flatMap((segment, at) => (at === 0 ? [bytes(segment)] : [SLASH, bytes(segment)])));
}

/** The fields of a JSON body that name a path. */
export function field(name: "path" | "newPath", path: FilePath, operation: string): Record<string, string> {
  const whole = absolute(path, operation);
  return typeof whole === "string" ? { [name]: whole } : { [`${name}Base64`]: toBase64(whole) };
}

/** A path for a reader, as the server writes it. */
export function text(path: FilePath): string {
  return typeof path === "string" ? path : shown(path);
}

/**
 * The segments below `/workspace`. Dots are taken out here, because no URL can carry them; a path
 * that they lead out of the workspace is refused as the server would.
 */
export function segmentsOf(path: FilePath, operation: string): Segment[] {
  if ((typeof path !== "string" && !(path instanceof Uint8Array)) || path.length === 0) {
    const message = "path must be a string or bytes, and not empty";
    throw localError("VALIDATION_FAILED", 400, message, { field: "path" }, { operation });
  }
  const denied = (): Error => {
    const context = { path: text(path), operation, errno: "EACCES" };
    return localError("PERMISSION_DENIED", 403, `${text(path)} leads out of /workspace`, context, { operation });
  };
  const names = split(path);
  const segments: Segment[] = names[0] === "" ? [] : ["workspace"];
  for (const segment of names) {
    if (segment === "" || segment === ".") continue;
    if (segment !== "..") segments.push(segment);
    else if (segments.pop() === undefined) throw denied();
  }
  if (segments.shift() !== "workspace") throw denied();
  return segments;
}

/** The names of a path, each as text where it has one. */
function split(path: FilePath): Segment[] {
  if (typeof path === "string") return path.split("/");
  const names: Segment[] = [];
  for (let at = 0; at <= path.length; ) {
    const slash = path.indexOf(0x2f, at);
    const end = slash < 0 ? path.length : slash;
    // A copy: the caller may write into its bytes before they are sent.
    const name = path.slice(at, end);
    names.push(utf8(name) ?? name);
    at = end + 1;
  }
  return names;
}

function encoded(name: string): Uint8Array {
  return new TextEncoder().encode(name);
}

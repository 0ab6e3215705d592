/** Names of bindings, checked by the compiler. */

/** What a binding looks like in an `Env`: anything with `fetch`. Only its name counts here. */
export interface ServiceBindingTarget {
  fetch(request: Request): Promise<Response>;
}

/** An `Env` of which nothing is known: every name is taken. */
export type AnyEnv = Record<string, ServiceBindingTarget>;

/**
 * The names of the bindings of an `Env`: its keys whose value has `fetch`. In place of an `Env`
 * a union of names may stand: `getSandbox<"PYTHON" | "RUBY">(…)`.
 */
export type ServiceBindingName<Env> = [Env] extends [string]
  ? Env
  : { [K in keyof Env]-?: Env[K] extends { fetch: (...args: never[]) => unknown } ? K : never }[keyof Env] & string;

// Names of bindings, held by the compiler: each line below an expectation must not compile.

import {
  getSandbox,
  type AnyEnv,
  type CodeContext,
  type ExecutionResult,
  type OutputMessage,
  type ReadFileResult,
  type ReadFileStreamResult,
  type RunCodeOptions,
  type SandboxClient,
  type SandboxInfo,
  type SandboxOptions,
  type ServiceBindingName,
  type ServiceBindingTarget,
} from "sandkeep";

type Equal<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
function holds<_T extends true>(): void {}

interface Env {
  PYTHON: ServiceBindingTarget;
  JAVASCRIPT: { fetch(request: Request): Promise<Response>; connect(): void };
  OPTIONAL?: ServiceBindingTarget;
  SECRET: string;
  LIMIT: number;
  Sandbox: { idFromName(name: string): unknown };
}

holds<Equal<ServiceBindingName<Env>, "PYTHON" | "JAVASCRIPT">>();
holds<Equal<ServiceBindingName<AnyEnv>, string>>();
holds<Equal<ServiceBindingName<"PYTHON" | "RUBY">, "PYTHON" | "RUBY">>();
holds<Equal<ServiceBindingName<{ SECRET: string }>, never>>();

const server = "http://127.0.0.1:7777";

export async function narrowed(): Promise<void> {
  const sandbox = getSandbox<Env>(server, "notes");
  holds<Equal<typeof sandbox, SandboxClient<"PYTHON" | "JAVASCRIPT">>>();
  await sandbox.interpreter.runCode("1", { binding: "PYTHON" });
  await sandbox.interpreter.createCodeContext({ binding: "JAVASCRIPT", envVars: { A: "1", B: undefined } });
  // @ts-expect-error no such binding
  await sandbox.interpreter.runCode("1", { binding: "RUBY" });
  // @ts-expect-error no binding, but a text
  await sandbox.interpreter.runCode("1", { binding: "SECRET" });
  // @ts-expect-error no binding, but a namespace
  await sandbox.interpreter.createCodeContext({ binding: "Sandbox" });
  // @ts-expect-error a context needs a binding
  await sandbox.interpreter.createCodeContext({});
  // @ts-expect-error a working directory belongs to a context
  await sandbox.interpreter.runCode("1", { binding: "PYTHON", cwd: "/workspace" });
  // @ts-expect-error a variable of a context is set or left out
  await sandbox.interpreter.createCodeContext({ binding: "PYTHON", envVars: { A: null } });
  // @ts-expect-error read-only
  sandbox.id = "other";
  // @ts-expect-error read-only
  sandbox.interpreter = sandbox.interpreter;
}

export async function open(): Promise<void> {
  const sandbox = getSandbox(server, "notes");
  const context: CodeContext = await sandbox.interpreter.createCodeContext({ binding: "ANY" });
  const options: RunCodeOptions = { context, envVars: { A: undefined, B: null, C: "1" }, timeout: 5, signal: undefined };
  const result: ExecutionResult = await sandbox.interpreter.runCode("1", {
    ...options,
    onStdout: (output: OutputMessage) => console.log(output.text, output.timestamp),
    onResult: async (value) => console.log(value.formats(), value["image/png"], value.json),
    onError: (error) => console.log(error.name, error.lineNumber),
  });
  holds<Equal<typeof result.error extends undefined ? true : false, false>>();
  // @ts-expect-error times are dates
  const text: string = context.createdAt;
  // @ts-expect-error read-only
  context.id = text;
  const info: SandboxInfo = await sandbox.getInfo();
  holds<Equal<typeof info.expiresAt, number | null>>();
  holds<Equal<typeof info.createdAt, string>>();
}

export async function files(): Promise<void> {
  const options: SandboxOptions = { normalizeId: true };
  const sandbox = getSandbox(new URL(server), "notes", options);
  const text: ReadFileResult = await sandbox.readFile("a");
  const bytes: ReadFileStreamResult = await sandbox.readFile("a", { encoding: "none" });
  await sandbox.writeFile("b", bytes.content);
  await sandbox.writeFile("b", text.content, { encoding: text.encoding });
  await sandbox.writeFile("b", new Uint8Array(1));
  // @ts-expect-error no such encoding
  await sandbox.readFile("a", { encoding: "latin1" });
  // @ts-expect-error a stream has no text
  holds<Equal<typeof bytes.content, string>>();
  const exit = await sandbox.exec(["true"], { onStdout: (output) => console.log(output.bytes.length) });
  holds<Equal<typeof exit.exitCode, number>>();
  // @ts-expect-error a command is a list
  await sandbox.exec("true");
  for await (const event of sandbox.execStream({ argv: ["true"], cwd: "/" })) {
    if (event.type === "exit") holds<Equal<typeof event.exitCode, number>>();
  }
}

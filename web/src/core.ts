// The C++ core in WebAssembly: questions in the words of `tessera explain`, answers as its JSON.

import type { Answers, Catalogue } from "./answers.ts";

interface Exports extends Record<string, unknown> {
  memory: WebAssembly.Memory;
  _initialize(): void;
  room(size: number): number;
  answer_size(): number;
  trace(words: number, size: number): number;
  grid(words: number, size: number): number;
  traffic(words: number, size: number): number;
  catalogue(): number;
}

/** What the core says of a question that makes no sense: a sentence. */
export class CoreError extends Error {}

export interface Core {
  ask<Topic extends keyof Answers>(topic: Topic, words: string): Answers[Topic];
  /** The answer as text, as `tessera explain --json` prints it. */
  askText(topic: keyof Answers, words: string): string;
  catalogue(): Catalogue;
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

const WORDS: Record<string, number> = { inf: Infinity, "-inf": -Infinity, nan: NaN };

/** JSON has no word for infinities and NaN; the core writes them as strings. */
function withNumbers(value: unknown): unknown {
  if (typeof value === "string") return WORDS[value] ?? value;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; ++i) {
      if (typeof value[i] !== "number") value[i] = withNumbers(value[i]);
    }
  } else if (value !== null && typeof value === "object") {
    const object = value as Record<string, unknown>;
    for (const name in object) {
      if (typeof object[name] !== "number") object[name] = withNumbers(object[name]);
    }
  }
  return value;
}

export function parseAnswer<T>(text: string): T {
  return withNumbers(JSON.parse(text)) as T;
}

class WasmCore implements Core {
  private exports: Exports;

  constructor(private readonly module: WebAssembly.Module) {
    this.exports = this.start();
  }

  ask<Topic extends keyof Answers>(topic: Topic, words: string): Answers[Topic] {
    return parseAnswer(this.askText(topic, words));
  }

  askText(topic: keyof Answers, words: string): string {
    try {
      const bytes = encoder.encode(words);
      const room = this.exports.room(bytes.length);
      new Uint8Array(this.exports.memory.buffer).set(bytes, room);
      return this.read(this.exports[topic](room, bytes.length));
    } catch (error) {
      // Whatever left the middle of a call may have left its stack behind.
      this.exports = this.start();
      throw error;
    }
  }

  catalogue(): Catalogue {
    return parseAnswer(this.read(this.exports.catalogue()));
  }

  private read(address: number): string {
    return this.text(address, this.exports.answer_size());
  }

  private text(address: number, size: number): string {
    return decoder.decode(new Uint8Array(this.exports.memory.buffer, address, size));
  }

  private start(): Exports {
    const page = {
      fail: (address: number, size: number) => {
        throw new CoreError(this.text(address, size));
      },
      // Both languages write the shortest digits that read back as the same number.
      digits: (value: number, address: number) =>
        encoder.encodeInto(
          String(value),
          new Uint8Array(this.exports.memory.buffer, address, 32),
        ).written,
    };
    const refuse = () => 52; // ENOSYS: there is no system
    const wasi = new Proxy({}, { get: () => refuse });
    const instance = new WebAssembly.Instance(this.module, {
      page,
      wasi_snapshot_preview1: wasi as WebAssembly.ModuleImports,
    });
    const exports = instance.exports as Exports;
    exports._initialize();
    return exports;
  }
}

export async function openCore(bytes: BufferSource): Promise<Core> {
  return new WasmCore(await WebAssembly.compile(bytes));
}

/** The bytes of base64, as the build puts them into the script. */
export function decodeBase64(text: string): Uint8Array<ArrayBuffer> {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; ++i) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

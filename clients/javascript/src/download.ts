// Downloads files as streams, in constant memory.

import type { ApiRequest, OpenResponse, RequestOptions, Sender } from "./send.js";

const FILENAME = /filename="([^"/\\]{1,200})"/;

/** A file: iterate it, `open` it to learn its name first, or `save` it. */
export class Download implements AsyncIterable<Uint8Array> {
  readonly #sender: Sender;
  readonly #request: ApiRequest;
  readonly #options: RequestOptions;

  /** Created by the `export` methods of a client. */
  constructor(sender: Sender, request: ApiRequest, options: RequestOptions) {
    this.#sender = sender;
    this.#request = request;
    this.#options = options;
  }

  /** Request the file. The returned file must be iterated or closed. */
  async open(): Promise<OpenFile> {
    const open = await this.#sender.open(this.#request, this.#options);
    if (!open.response.headers.get("content-type")?.startsWith("text/csv")) {
      open.close();
      throw open.unexpected("is not a CSV file");
    }
    return new OpenFile(open);
  }

  /** Yield the file chunk by chunk. Throws ConnectionFailed if the connection is cut. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    yield* await this.open();
  }

  /** Write the file and return its size in bytes. The path gets the complete file or stays as it was. */
  async save(path: string | URL): Promise<number> {
    const { open, rename, rm } = await import("node:fs/promises");
    const part = path instanceof URL ? new URL(`${path.href}.part`) : `${path}.part`;
    let size = 0;
    try {
      const file = await open(part, "w");
      try {
        for await (const chunk of this) {
          await file.writeFile(chunk); // appends, since the file is open
          size += chunk.byteLength;
        }
      } finally {
        await file.close();
      }
      await rename(part, path);
    } catch (error) {
      await rm(part, { force: true });
      throw error;
    }
    return size;
  }
}

/** A file whose response has begun. It can be read once. */
export class OpenFile implements AsyncIterable<Uint8Array> {
  readonly #open: OpenResponse;
  /** The name that the server gives the file, "" if it gives none. */
  readonly filename: string;

  /** Created by `Download`. */
  constructor(open: OpenResponse) {
    this.#open = open;
    const disposition = open.response.headers.get("content-disposition") ?? "";
    this.filename = FILENAME.exec(disposition)?.[1] ?? "";
  }

  /** Yield the file chunk by chunk. Throws ConnectionFailed if the connection is cut. */
  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array, void, undefined> {
    yield* this.#open.chunks();
  }

  /** Stop reading. */
  close(): void {
    this.#open.close();
  }
}

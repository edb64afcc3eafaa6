// Lists, fetched page by page while they are iterated.

import type { ApiRequest, RequestOptions, Sender } from "./send.js";
import type { Pagination } from "./types.js";

const SIZE = 100;
const REMEMBERED = 1000; // ids of a list: ten pages of the greatest size

/** One page of a list, newest first. */
export interface Page<T> {
  items: T[];
  pagination: Pagination;
}

/** A list: `for await` gives its items, page by page, only as far as you go. */
export class Pages<T> implements AsyncIterable<T> {
  readonly #sender: Sender;
  readonly #request: ApiRequest;
  readonly #query: Record<string, unknown>;
  readonly #options: RequestOptions;

  /** Made by the `list` methods of a client. */
  constructor(sender: Sender, request: ApiRequest, options: RequestOptions) {
    this.#sender = sender;
    this.#request = request;
    this.#query = { page: 1, size: SIZE, ...given(request.query) };
    this.#options = options;
  }

  /** Every item once, from the requested page to the last. Each loop begins anew. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    const seen = new Set<string>();
    for await (const page of this.pages()) {
      for (const item of page.items) {
        // A new item moves the others on: the last of one page is then the first of the next.
        const id = idOf(item);
        if (seen.has(id)) continue;
        seen.add(id);
        if (seen.size > REMEMBERED) seen.delete(seen.values().next().value as string);
        yield item;
      }
    }
  }

  /** Page after page, each with its pagination. */
  async *pages(): AsyncGenerator<Page<T>, void, undefined> {
    for (let number = Number(this.#query["page"]); ; number += 1) {
      const page = await this.#page(number);
      yield page;
      if (number >= page.pagination.totalPages) return;
    }
  }

  /** The requested page alone. */
  page(): Promise<Page<T>> {
    return this.#page(Number(this.#query["page"]));
  }

  #page(number: number): Promise<Page<T>> {
    const request = { ...this.#request, query: { ...this.#query, page: number } };
    return this.#sender.data<Page<T>>(request, this.#options, isPage);
  }
}

function given(query: object = {}): Record<string, unknown> {
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value != null));
}

function idOf(item: unknown): string {
  const found = item as { id?: string; eventId?: string };
  return found.id ?? found.eventId ?? "";
}

function isPage(data: object): boolean {
  const page = data as Partial<Page<unknown>>;
  return Array.isArray(page.items) && Number.isInteger(page.pagination?.totalPages);
}

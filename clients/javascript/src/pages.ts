// Lists that are fetched page by page while they are iterated.

import type { ApiRequest, RequestOptions, Sender } from "./send.js";
import type { Pagination } from "./types.js";

const PAGE_SIZE = 100;
const REMEMBERED_IDS = 1000; // ten pages of the largest size

/** One page of a list, newest first. */
export interface Page<T> {
  items: T[];
  pagination: Pagination;
}

/** A list. `for await` yields its items and fetches pages as they are needed. */
export class Pages<T> implements AsyncIterable<T> {
  readonly #sender: Sender;
  readonly #request: ApiRequest;
  readonly #query: Record<string, unknown>;
  readonly #options: RequestOptions;

  /** Created by the `list` methods of a client. */
  constructor(sender: Sender, request: ApiRequest, options: RequestOptions) {
    this.#sender = sender;
    this.#request = request;
    this.#query = { page: 1, size: PAGE_SIZE, ...withoutNulls(request.query) };
    this.#options = options;
  }

  /** Yield each item once, from the requested page to the last. Every loop starts again. */
  async *[Symbol.asyncIterator](): AsyncGenerator<T, void, undefined> {
    const seen = new Set<string>();
    for await (const page of this.pages()) {
      for (const item of page.items) {
        // A new item shifts the others: the last one of a page is then also first on the next.
        const id = idOf(item);
        if (seen.has(id)) continue;
        seen.add(id);
        if (seen.size > REMEMBERED_IDS) seen.delete(seen.values().next().value as string);
        yield item;
      }
    }
  }

  /** Yield pages with their pagination. */
  async *pages(): AsyncGenerator<Page<T>, void, undefined> {
    for (let number = Number(this.#query["page"]); ; number += 1) {
      const page = await this.#page(number);
      yield page;
      if (number >= page.pagination.totalPages) return;
    }
  }

  /** Return only the requested page. */
  page(): Promise<Page<T>> {
    return this.#page(Number(this.#query["page"]));
  }

  #page(number: number): Promise<Page<T>> {
    const request = { ...this.#request, query: { ...this.#query, page: number } };
    return this.#sender.data<Page<T>>(request, this.#options, isPage);
  }
}

function withoutNulls(query: object = {}): Record<string, unknown> {
  return Object.fromEntries(Object.entries(query).filter(([, value]) => value != null));
}

function idOf(item: unknown): string {
  const object = item as { id?: string; eventId?: string };
  return object.id ?? object.eventId ?? "";
}

function isPage(data: object): boolean {
  const page = data as Partial<Page<unknown>>;
  return Array.isArray(page.items) && Number.isInteger(page.pagination?.totalPages);
}

// The base class of all resources.

import { Download } from "./download.js";
import { Pages } from "./pages.js";
import type { ApiRequest, PostOptions, RequestOptions, Sender } from "./send.js";

/** The operations on one kind of resource, such as `client.orders`. */
export class Resource {
  readonly #sender: Sender;

  constructor(sender: Sender) {
    this.#sender = sender;
  }

  protected data<T>(request: ApiRequest, options: PostOptions): Promise<T> {
    return this.#sender.data<T>(request, options);
  }

  protected async nothing(request: ApiRequest, options: PostOptions): Promise<void> {
    await this.#sender.done(request, options);
  }

  protected pages<T>(request: ApiRequest, options: RequestOptions): Pages<T> {
    return new Pages<T>(this.#sender, request, options);
  }

  protected file(request: ApiRequest, options: RequestOptions): Download {
    return new Download(this.#sender, request, options);
  }
}

// Made of the OpenAPI document by `make client`: change nothing here.

/** The version of this package. */
export const VERSION = "0.1.0";

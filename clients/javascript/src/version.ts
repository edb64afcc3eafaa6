// Generated from the OpenAPI document by `make client`: do not edit.

/** The version of this package. */
export const VERSION = "0.1.0";

"""Money, ids, errors, structs, settings, encryption, log, metrics; imports no other package."""

"""Money, ids, errors, structs, settings, encryption, log, metrics; imports nothing of ours."""

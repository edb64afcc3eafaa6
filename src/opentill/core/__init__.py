"""Money, ids, errors, settings, encryption, log and metrics; imports no other package of ours."""

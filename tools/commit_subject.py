"""The commit-msg hook: reject a subject that is too long or not an imperative sentence.

Git runs it with the path of the file that holds the message. CONTRIBUTING.md has the rules, such as
"Reject a refund that the provider reversed", at most 72 characters, no full stop.
"""

import re
import sys
from pathlib import Path
from typing import Final

MAX_LENGTH: Final = 72
# Subjects that Git writes or replaces itself.
_BY_GIT: Final = re.compile(r"(Merge|Revert|fixup!|squash!|amend!) ")
# Words with which no imperative sentence begins: articles, pronouns, prepositions and others.
_NON_VERBS: Final = frozenset({
    "a", "an", "the", "this", "that", "these", "those", "it", "its", "they", "we", "you", "i",
    "what", "who", "which", "how", "when", "where", "why", "one", "two", "three", "some", "all",
    "every", "each", "no", "not", "and", "or", "but", "of", "on", "in", "at", "to", "for",
    "from", "with", "by",
})  # fmt: skip
_NON_IMPERATIVE: Final = re.compile(r"\w+(ed|ing|[^s]s)$")
# Verbs whose imperative ends like a past tense, a participle or a third person.
_EXCEPTIONS: Final = frozenset({
    "bring", "embed", "exceed", "feed", "need", "proceed", "shed", "speed", "spring", "string",
    "succeed", "alias", "bias", "canvas", "focus", "seed", "ring", "sing", "wing",
})  # fmt: skip


def find_problems(message: str) -> list[str]:
    """Return the problems of a commit message's subject, with the accepted form of each."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject = lines[0] if lines else ""
    if _BY_GIT.match(subject):
        return []
    if not subject.strip():
        return ["the first line must be the subject"]
    problems = []
    if len(subject) > MAX_LENGTH:
        problems.append(f"the subject has {len(subject)} characters; the maximum is {MAX_LENGTH}")
    first = re.split(r"[^\w-]", subject, maxsplit=1)[0]
    verb = first.lower()
    if (
        not first[:1].isupper()
        or verb in _NON_VERBS
        or (_NON_IMPERATIVE.fullmatch(verb) and verb not in _EXCEPTIONS)
    ):
        problems.append(
            f"{first!r}: begin with a capital and an imperative verb, such as Add, Fix or Reject"
        )
    if subject.endswith("."):
        problems.append("remove the full stop at the end of the subject")
    if len(lines) > 1 and lines[1].strip():
        problems.append("the second line must be empty; the body starts after it")
    return problems


def main() -> int:
    """Check the message in the file that Git names; return the exit code."""
    problems = find_problems(Path(sys.argv[1]).read_text())
    for problem in problems:
        sys.stderr.write(f"commit message: {problem}\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

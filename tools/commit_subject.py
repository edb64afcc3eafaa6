"""The commit-msg hook: refuse a subject that is long or not an imperative sentence.

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
# Words that begin no imperative sentence: articles, pronouns, prepositions and others.
_NO_VERBS: Final = frozenset({
    "a", "an", "the", "this", "that", "these", "those", "it", "its", "they", "we", "you", "i",
    "what", "who", "which", "how", "when", "where", "why", "one", "two", "three", "some", "all",
    "every", "each", "no", "not", "and", "or", "but", "of", "on", "in", "at", "to", "for",
    "from", "with", "by",
})  # fmt: skip
_OTHER_FORM: Final = re.compile(r"\w+(ed|ing|[^s]s)$")
# Verbs whose imperative ends like another form.
_STEMS: Final = frozenset({
    "bring", "embed", "exceed", "feed", "need", "proceed", "shed", "speed", "spring", "string",
    "succeed", "alias", "bias", "canvas", "focus", "seed", "ring", "sing", "wing",
})  # fmt: skip


def problems(message: str) -> list[str]:
    """Return the problems of a commit message's subject, each with what would be accepted."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject = lines[0] if lines else ""
    if _BY_GIT.match(subject):
        return []
    if not subject.strip():
        return ["the first line must be the subject"]
    wrong = []
    if len(subject) > MAX_LENGTH:
        wrong.append(f"the subject has {len(subject)} characters; {MAX_LENGTH} are the most")
    first = re.split(r"[^\w-]", subject, maxsplit=1)[0]
    verb = first.lower()
    if (
        not first[:1].isupper()
        or verb in _NO_VERBS
        or (_OTHER_FORM.fullmatch(verb) and verb not in _STEMS)
    ):
        wrong.append(
            f"{first!r}: begin with a capital and an imperative verb, such as Add, Fix or Reject"
        )
    if subject.endswith("."):
        wrong.append("leave out the full stop")
    if len(lines) > 1 and lines[1].strip():
        wrong.append("leave the second line empty, before the body")
    return wrong


def main() -> int:
    """Check the message in the file named by Git; return the exit code."""
    wrong = problems(Path(sys.argv[1]).read_text())
    for problem in wrong:
        sys.stderr.write(f"commit message: {problem}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

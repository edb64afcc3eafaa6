"""The commit-msg hook: refuse a subject that is long, or is no imperative sentence.

Git runs it with the path of the file that holds the message. What it asks for stands in
CONTRIBUTING.md: "Reject a refund that the provider reversed", at most 72 characters, no full stop.
"""

import re
import sys
from pathlib import Path
from typing import Final

LONGEST: Final = 72
# Git writes these subjects itself, or takes them away again.
_BY_GIT: Final = re.compile(r"(Merge|Revert|fixup!|squash!|amend!) ")
# No imperative begins so: articles, pronouns, prepositions and the like.
_NO_VERBS: Final = frozenset({
    "a", "an", "the", "this", "that", "these", "those", "it", "its", "they", "we", "you", "i",
    "what", "who", "which", "how", "when", "where", "why", "one", "two", "three", "some", "all",
    "every", "each", "no", "not", "and", "or", "but", "of", "on", "in", "at", "to", "for",
    "from", "with", "by",
})  # fmt: skip
_OTHER_FORM: Final = re.compile(r"\w+(ed|ing|[^s]s)$")
# Verbs whose stem has the ending of another form.
_STEMS: Final = frozenset({
    "bring", "embed", "exceed", "feed", "need", "proceed", "shed", "speed", "spring", "string",
    "succeed", "alias", "bias", "canvas", "focus", "seed", "ring", "sing", "wing",
})  # fmt: skip


def problems(message: str) -> list[str]:
    """Return what is wrong with a commit message's subject; each says what would be accepted."""
    lines = [line for line in message.splitlines() if not line.startswith("#")]
    subject = lines[0] if lines else ""
    if _BY_GIT.match(subject):
        return []
    if not subject.strip():
        return ["the first line must be the subject"]
    wrong = []
    if len(subject) > LONGEST:
        wrong.append(f"the subject has {len(subject)} characters; {LONGEST} are the most")
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
    """Check the message in the file that git names; return the exit code."""
    wrong = problems(Path(sys.argv[1]).read_text())
    for problem in wrong:
        sys.stderr.write(f"commit message: {problem}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

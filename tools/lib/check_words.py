"""Looks for banned phrases in text files: in docs, comments and user-visible strings alike.

Plain English instead: record, report, print, match, list, mean, allow. A phrase may be broken
across lines of a paragraph, of a comment or of a string.
"""

import re
import sys

# A regular expression, in lower case, a space matching any break; and what to write instead.
BANNED = {
    "(?:is|are|was|were|be|been|being) told": "is reported, is printed",
    "tells (?:of|about|its|which|what|why|how|that)": "reports, records, says",
    "stands? for": "means, matches",
    "stood for": "meant",
    "stands? (?:in|behind|above|below) (?:it|its|them|there)": "is in it, comes after it",
    "nobody knows": "is not recorded, is unknown",
    "(?:where|if|when) nothing is said": "by default",
    "as is done": "(the default), as",
    "nevertheless": "anyway",
    "all the same[,.;:)]": "anyway",
    "means nothing to": "is unknown to",
    "known to be harmless": "on the list of allowed",
    "what (?:became|becomes) of": "whether it was kept, its result",
    "nothing else than": "only",
    "as people say": "(leave it out)",
    "(?<!there )is no (?:number|count|size|name|file|folder|list|time|api|trace|yaml|json|python"
    "|tensor|call)\\b": "is not a",
}

# Data, what quotes the phrases, and third parties' words.
EXEMPT = re.compile(
    r"^(?:testdata/|LICENSE|tools/lib/check_words(?:_test)?\.py"
    r"|dialects/\w+/api_list/\w+_api_list\.yaml)"
)

# Between two words: a space, or a line break with what continues the comment or the string.
BREAK = r"""(?:\\n|[ "']|\s*\n\s*(?://|\#|\*)?\s*f?["']?)+"""


def pattern(phrase):
    return re.compile(r"\b" + re.sub(r"(?<!\(\?<!there) ", lambda _: BREAK, phrase), re.IGNORECASE)


PATTERNS = [(pattern(phrase), instead) for phrase, instead in BANNED.items()]


def problems(text):
    """Yields (line number, what is wrong)."""
    for banned, instead in PATTERNS:
        for match in banned.finditer(text):
            words = " ".join(re.sub(BREAK, " ", match[0]).split())
            yield text.count("\n", 0, match.start()) + 1, f'"{words}": write "{instead}"'


def main(paths):
    failed = False
    for path in paths:
        if EXEMPT.match(path):
            continue
        with open(path, "rb") as file:
            data = file.read()
        if b"\0" in data:
            continue
        for number, problem in sorted(problems(data.decode("utf-8", "replace"))):
            print(f"{path}:{number}: {problem}")
            failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

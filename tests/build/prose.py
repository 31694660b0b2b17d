# SPDX-License-Identifier: BSD-3-Clause
"""Count phrases that are hard to understand, in comments, messages and documents.

Each rule is one pattern of "The language of the code" (CONTRIBUTING.md).  A count is of places, for one rule and one area.
"""
import re

import ctext

PERSONS = (r"users?|readers?|persons?|people|somebody|anybody|everybody|nobody|someone|anyone|everyone|"
           r"administrators?|engineers?|attackers?|authors?|contributors?|developers?|operators?|owners?|programmers?")
WHO = re.compile(r"\bwho\b", re.I)
PERSON_WHO = re.compile(r"\b(?:" + PERSONS + r"),?\s+who$", re.I)
TOLD = re.compile(r"\b(?:is|are|was|were|be|been|being)\s+(?:not\s+)?told\b", re.I)
SUCH = re.compile(r"\bso\s+(?:many|much)\b|\bsuch\s+as\s+(?:are|is|was|were|have|has|had|do|does)\b", re.I)
QUOTED = re.compile(r"`[^`]*`|\"[^\"\n]*\"")
START = re.compile(r"^\W*(?:It|The same|Who|What)\b")
LONG = 30  # maximum number of words in a sentence

RULES = {
    "who": '"who" for a thread, process or peer: write "the thread that", "the peer that"',
    "told": '"is told": write notified, reported, logged, returned',
    "such": '"so many", "so much", "such as were": write N, the number, those',
    "start": "a comment begins with It, The same, Who or What: begin with a verb or with the noun that it is about",
    "question": 'a comment is a question: write "True if ..."',
    "long": f"a sentence of more than {LONG} words (a colon and a semicolon end one)",
}


def who(text):
    return [m.start() for m in WHO.finditer(text) if not PERSON_WHO.search(text[:m.end()])]


def sentences(text):
    """Yield (offset, number of words) of each sentence.  A line of a picture or of a table ends a sentence."""
    offset, words, start = 0, 0, 0
    for line in text.split("\n"):
        picture = re.search(r"\S {3,}\S|^\s*[|+]|<-|->|---", line)
        if picture:
            if words:
                yield start, words
            words = 0
        else:
            for m in re.finditer(r"\S+", line):
                if words == 0:
                    start = offset + m.start()
                words += 1 if re.search(r"\w", m.group()) else 0
                if re.search(r"[.;:!?][)\"'*`]*$", m.group()):
                    yield start, words
                    words = 0
        offset += len(line) + 1
    if words:
        yield start, words


def places(rule, what, text):
    """Return the offsets in text at which it breaks the rule.  Text in quotes does not count."""
    if what != "string" and rule in ("who", "told", "such"):
        text = QUOTED.sub(lambda m: "_" * len(m.group()), text)
    if rule == "who":
        return who(text)
    if rule == "told":
        return [m.start() for m in TOLD.finditer(text)]
    if rule == "such":
        return [m.start() for m in SUCH.finditer(text)]
    if what != "comment" and rule in ("start", "question"):
        return []
    if rule == "start":
        return [0] if START.match(text) else []
    if rule == "question":
        return [0] if text.rstrip(" \n*").endswith("?") else []
    return [] if what == "string" else [at for at, words in sentences(text) if words > LONG]


def find(root):
    """Return {(rule, area): ["file:line: text", ...]} of the tree."""
    found = {(rule, area): [] for rule in RULES for area in ctext.AREAS}
    for area in ctext.AREAS:
        for path in ctext.area_files(root, area):
            if path.startswith("tests/build/prose"):  # the patterns themselves
                continue
            for line, what, text in ctext.pieces(root, path):
                for rule in RULES:
                    for at in places(rule, what, text):
                        at_line = line + (text.count("\n", 0, at) if what != "string" else 0)
                        shown = " ".join(text[max(0, at - 30):at + 90].split())
                        found[rule, area].append(f"{path}:{at_line}: {shown}")
    return found

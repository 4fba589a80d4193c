#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Doxygen's INPUT_FILTER for the public headers, which have plain // comments.

doxygen_filter.py HEADER: prints the header, line by line, with the markup that Doxygen expects:

- the comment at the top documents the file, which belongs to the group of its section of serried.h;
- a // block directly before a declaration documents that declaration, as does a comment after it;
- a block that ends in a colon documents every declaration up to the next blank line or block;
- a block with a blank line after it is a heading and documents nothing.

serried.h itself becomes the list of groups. Other files (the pages) are not changed.
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TRAILING = re.compile(r'^(?P<code>(?:[^"/]|"(?:[^"\\]|\\.)*"|/(?!/))*?\S)\s+(?P<mark>//)(?P<text>.*)$')


def sections():
    """The sections of serried.h: [(group, title, headers)]."""
    found, comment = [], []
    with open(os.path.join(ROOT, "serried.h"), encoding="utf-8") as file:
        for line in file:
            include = re.match(r'#include "(.*)"', line)
            if line.startswith("//"):
                comment.append(line[2:].strip())
            elif include and comment:
                title, _, rest = " ".join(comment).partition(": ")
                found.append((f"sr_group_{len(found) + 1}", title.rstrip("."), rest, [include[1]]))
                comment = []
            elif include:
                found[-1][3].append(include[1])
            else:
                comment = []
    return found


def escaped(text):
    """Text of a comment, safe from Doxygen's commands, HTML and Markdown; `code` is so by itself."""
    if text.count("`") >= 2:
        parts = text.split("`", 2)
        return escaped(parts[0]) + f"`{parts[1]}`" + escaped(parts[2])
    text = re.sub(r"([\\@<>&#%$])", r"\\\1", text).replace("::", r"\::")
    # `*out` and `a_` would be emphasis, [x](y) a link.
    text = re.sub(r"(?<![\w*`])(\*+\w[\w.>\[\]-]*)", r"`\1`", text)
    return text.replace("](", "] (").replace("*/", "* /").replace("/*", "/ *")


def bare(line):
    """A comment line's text, without the mark and one blank."""
    text = line.strip()[2:]
    return text[1:] if text.startswith(" ") else text


def block_lines(block):
    """A // block as /// lines; what is indented (tables, formulas, code) stays as it is."""
    texts, out = [bare(line) for line in block], []
    verbatim = False
    for number, text in enumerate(texts):
        if text.startswith(" "):
            if not verbatim and out:
                out[-1] += " @verbatim"
            begin = "" if verbatim or out else "@verbatim "
            verbatim = number + 1 < len(texts) and texts[number + 1].startswith(" ")
            out.append("/// " + begin + text + ("" if verbatim else " @endverbatim"))
        else:
            out.append("/// " + escaped(text))
    return out


def joined(block):
    return " ".join(escaped(bare(line).strip()) for line in block)


class Header:
    """One pass over the lines of a header."""

    def __init__(self, lines):
        self.lines = lines
        self.out = []
        self.group = ""       # text for every declaration of the run
        self.documented = False  # the next declaration has its own block
        self.inside = False      # a declaration that continues over several lines
        self.parentheses = 0     # open ones

    def head(self, group):
        """SPDX line and the comment at the top."""
        end = 1
        while end < len(self.lines) and self.lines[end].startswith("//"):
            end += 1
        self.out.append("/// @file")
        self.out += block_lines(self.lines[1:end])
        self.out[-1] += f" @ingroup {group}" if group else ""
        return end

    def block(self, start):
        """A block of comment lines; returns the line after it."""
        end = start
        while end < len(self.lines) and self.lines[end].lstrip().startswith("//"):
            end += 1
        block = self.lines[start:end]
        following = self.lines[end].strip() if end < len(self.lines) else ""
        self.group, self.documented = "", False
        if following and not following.startswith("}") and block[-1].rstrip().endswith(":"):
            self.group = joined(block)[:-1]
        elif following and not following.startswith(("}", "#include", "#ifdef", "#if ", "#ifndef")):
            self.documented = True
            self.out += block_lines(block)
            return end
        self.out += [""] * len(block)
        return end

    def code(self, number):
        """A line of code, perhaps with a comment after it; returns the line after both."""
        line, text, end = self.lines[number], "", number + 1
        trailing = TRAILING.match(line)
        if trailing:
            line = trailing["code"]
            column = trailing.start("mark")
            parts = ["//" + trailing["text"]]
            while end < len(self.lines) and self.lines[end].startswith(" " * column + "//"):
                parts.append(self.lines[end])
                end += 1
            text = joined(parts)
        if line.startswith("static inline "): # Doxygen asks for no comment on what is static
            line = line[len("static "):]
        code = line.rstrip()
        macro = line.startswith("#define") and not re.match(r"#define [A-Z0-9_]+_H$", line)
        starts = not self.inside and (macro or not line.startswith(("#", "}", "{")) )
        starts = starts and line.strip() not in ("extern \"C\" {", "}")
        if starts and self.group and not self.documented:
            text = f"{text} ({self.group})" if text else self.group
        if text and macro and not line.endswith("\\"):
            line = f"{line} /**< {text} */"
        elif text and macro:
            self.out[-1] += f" /** {text} */" # belongs to the next line, the macro's
        elif text and starts and not line.strip().startswith("}"):
            indent = len(line) - len(line.lstrip())
            line = f"{' ' * indent}/** {text} */ {line.lstrip()}"
            if indent and re.match(r"\s+\w[^(]*;$", code): # several members in one declaration
                line = f"{' ' * indent}/** {text} */ " + code.lstrip().replace(", ", f", /** {text} */ ")
        elif text:
            line = f"{line} /**< {text} */"
        self.out.append(line)
        self.out += [""] * (end - number - 1)
        if starts or self.inside:
            self.documented = False
        code = re.sub(r'"(?:[^"\\]|\\.)*"', '""', code)
        if macro or (self.inside and code.endswith("\\")):
            self.inside = code.endswith("\\")
        elif not code.startswith("#"):
            self.parentheses += code.count("(") - code.count(")")
            self.inside = self.parentheses > 0 or not re.search(r"[;{},]$", code)
        return end

    def run(self, group):
        number = self.head(group)
        while number < len(self.lines):
            line = self.lines[number]
            if not line.strip():
                self.out.append("")
                self.group, self.documented, number = "", False, number + 1
            elif line.lstrip().startswith("//"):
                number = self.block(number)
            elif line.endswith(") {"): # a function's body: its comments are not for readers of the list
                number = self.code(number)
                while number < len(self.lines) and self.lines[number] != "}":
                    self.out.append("")
                    number += 1
            else:
                number = self.code(number)
        return self.out


def group_list():
    lines = ["/** @file", "Everything that serried offers to other programs and to plug-ins. */"]
    for group, title, rest, _ in sections():
        lines.append(f"/** @defgroup {group} {title}")
        lines.append(f"{escaped(rest[:1].upper() + rest[1:])} */")
    return lines


def main():
    path = os.path.abspath(sys.argv[1])
    name = os.path.relpath(path, ROOT)
    with open(path, encoding="utf-8") as file:
        text = file.read()
    if name == "serried.h":
        print("\n".join(group_list()))
    elif not name.endswith(".h"):
        print(text, end="")
    else:
        group = next((g for g, _, _, headers in sections() if name in headers), "")
        print("\n".join(Header(text.splitlines()).run(group)))


if __name__ == "__main__":
    main()

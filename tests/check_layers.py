#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The rules that no compiler checks: rooms and folders (ARCHITECTURE.md), lists, names, words, language.

    tests/check_layers.py [ROOT]

Prints one line for each finding, "file:line: rule: what", and ends with 1 if there is any.
Tested by tests/check_layers_selftest.py, which breaks every rule once.
"""
import os
import re
import subprocess
import sys

CODE = (".c", ".h", ".cu", ".inc", ".def")
SOURCES = CODE + (".py", ".sh", ".cmake", ".yaml")
LINES_MAX = 800

# Which rooms a room may include, longest prefix first.
BASE, DEVICE = ("kernels/base/",), ("kernels/base/", "kernels/device/")
BELOW_TRAINER = ("kernels/", "graph/", "autograd/", "collective/", "dataio/", "trainer/")
MAY_INCLUDE = [
    ("kernels/base/", BASE),
    ("kernels/device/", DEVICE),
    ("kernels/", ("kernels/",)),
    ("graph/", ("graph/", "kernels/")),
    ("autograd/", ("autograd/", "graph/", "kernels/")),
    ("collective/", ("collective/",) + DEVICE),
    ("dataio/", ("dataio/", "kernels/base/", "kernels/cpu/image")),
    ("trainer/", BELOW_TRAINER),
    ("launcher/", BELOW_TRAINER + ("launcher/", "serried.h")),
]
# Folders of a room, each of which may include itself and those before it.
FOLDERS = {
    "dataio/": ("record", "jpeg", "image", "import", "formats", "pack", "transforms", "pipeline"),
    "trainer/": ("draw", "recipe", "models", "losses", "optimizers", "schedules", "tasks", "exchange", "checkpoint",
                 "engine", "report", "run"),
    "launcher/": ("start", "commands", "bench"),
    "kernels/cpu/": ("reference", "x86", "onednn"),
}
SOURCES_MAX = 40  # .c files of a folder
MANY = ("dataio/transforms", "graph/ops")  # may have more: one file for each row of a table
# Single edges beyond that, with the reason.
EDGES = {
    ("kernels/device/stream_cpu.c", "kernels/kernel.h"):
        "threads that will run kernels let the providers limit their libraries' own threads",
    ("kernels/device/module.c", "kernels/kernel.h"):
        "a module brings the kernels of its devices",
}
ROOMS = ("kernels/", "graph/", "autograd/", "collective/", "dataio/", "trainer/", "launcher/")

# Libraries that stay behind one door: header pattern -> files that may include it.
DOORS = [
    (r"mpi\.h", r"collective/(backend|bootstrap)_mpi\.c|collective/mpi_start\w*\.[ch]|tests/.*"),
    (r"(oneapi/)?dnnl/?.*", r"kernels/cpu/onednn/\w+\.[ch]|tests/.*"),
    (r"cuda.*|cudnn.*|cublas.*|nccl.*", r".*/cuda/.*|collective/backend_nccl\w*\.c|tests/.*"),
    (r"kernels/device/cpu_stream\.h", r"kernels/device/\w+\.c|graph/executor_cpu\.c|tests/.*"),
    (r"kernels/device/(device|cpu)_internal\.h", r"kernels/device/\w+\.[ch]|.*/cuda/.*|tests/.*"),
    (r"lmdb\.h", r"dataio/record/store_lmdb\.c|launcher/commands/library_list\.c|tests/.*"),
    (r"cairo.*", r"trainer/draw/plot\w*\.[ch]|launcher/commands/library_list\.c|tests/.*"),
]

# Lists of descriptors: the .def, the prefix of the descriptors, and the files that hold them.
LISTS = [
    ("graph/ops/op_list.def", "sr_op_", r"graph/ops/op_\w+\.c"),
    ("collective/backend_list.def", "sr_comm_backend_", r"collective/backend_\w+\.c"),
    ("collective/bootstrap_list.def", "sr_bootstrap_", r"collective/bootstrap_\w+\.c"),
    ("dataio/transforms/transform_list.def", "sr_transform_", r"dataio/transforms/transform_(?!options)\w+\.c"),
    ("dataio/pipeline/transformer_list.def", "sr_transformer_", r"dataio/pipeline/transformer_\w+\.c"),
    ("dataio/record/container_list.def", "sr_container_", r"dataio/record/container_\w+\.c"),
    ("dataio/record/store_list.def", "sr_store_", r"dataio/record/store_\w+\.c"),
    ("dataio/formats/format_list.def", "sr_format_", r"dataio/formats/format_\w+\.c"),
    ("dataio/import/source_kind_list.def", "sr_source_kind_", r"dataio/import/source_\w+\.c"),
    ("trainer/models/model_list.def", "sr_model_", r"trainer/models/(segmentation/)?model_\w+\.c"),
    ("trainer/losses/loss_list.def", "sr_loss_", r"trainer/losses/loss_\w+\.c"),
    ("trainer/tasks/task_list.def", "sr_task_", r"trainer/tasks/task_\w+\.c"),
    ("trainer/optimizers/optimizer_list.def", "sr_optimizer_",
     r"trainer/optimizers/optimizer_\w+\.c"),
    ("trainer/schedules/schedule_list.def", "sr_schedule_", r"trainer/schedules/schedule_\w+\.c"),
    ("kernels/provider_list.def", "sr_provider_", r"kernels/cpu/\w+/\w*provider\w*\.c"),
    ("kernels/device/device_list.def", "sr_device_", r"kernels/device/device_\w+\.c"),
    ("launcher/commands/command_list.def", "sr_cmd_", r"launcher/(commands|bench)/cmd_(?!bench_)\w+\.c"),
    ("launcher/bench/bench_list.def", "sr_bench_", r"launcher/bench/cmd_bench_\w+\.c"),
]
# Descriptors that are reached in another way.
UNLISTED = {
    "sr_comm_backend_local": "ranks as threads of one process, made by its own function in tests",
}

# Files are written by kernels/base/file_write.c alone, which knows what may be replaced. These open
# something for writing that is no result: file -> why.
WRITER = "kernels/base/file_write.c"
OPEN_FOR_WRITING = {
    "kernels/chooser_cache.c": "a lock",
    "kernels/base/file_lock.c": "a lock",
    "trainer/run/rank_board.c": "memory that a job's processes share, in a new folder of its own",
    "launcher/start/start.c": "a lock in that folder",
    "launcher/start/start_guard.c": "that lock, and /dev/null for the streams of a process",
    "dataio/import/spool.c": "an unnamed temporary file",
}
OPENERS = re.compile(r"(?<![\w.>])(?:open|openat|open64)\s*\(([^;]*?)\)\s*[;,)<>=&|]", re.S)
FOPENS = re.compile(r"(?<![\w.>])f(?:re|d)?open(?:64)?\s*\(([^;]*?)\)\s*[;,)!=&|]", re.S)

# An address of a device is a number: nothing but the devices and launchers turns it into a pointer, or a
# pointer into it, except where unified memory is handed to a library.
ADDRESS_ROOMS = ("graph/", "autograd/", "collective/", "trainer/", "launcher/")
ADDRESS_DOORS = r"collective/comm_message\.c|.*/cuda/.*|collective/backend_nccl\w*\.c"
ADDRESS = [
    (r"\(\s*(?:const\s+)?(?:struct\s+)?\w+(?:\s+const)?\s*\*+\s*(?:const\s*)?\)\s*\(?(?:[^;,=?()]|\([^()]*\))*?\.at\b",
     "the host reads no device memory: use a kernel, a copy or sr_device_map"),
    (r"\bu?intptr_t\b", "a number that is an address: addresses come from devices, as sr_address"),
    (r"\(\s*sr_address\s*\)\s*\{\s*[^\s0}]|\bsr_address\s+\w+\s*=\s*\{\s*[^\s0}]",
     "an address that is made of something else: use sr_address_add, sr_device_host_address"),
    (r"\bmem(?:cpy|move|set|cmp)\s*\([^;]*?\.at\b", "the host reads no device memory: use a kernel or a copy"),
]

# Words that stand nowhere (or only where the second pattern allows), with the reason.
LIBM = (r"\b(exp|exp2|expm1|log|log2|log10|log1p|pow|tanh|sinh|cosh|erf|erfc|sin|cos|tan|asin|acos|"
        r"atan|atan2|cbrt|hypot|lgamma|tgamma)f?\s*\(")
WORDS = [
    ("float-reduction", r"\bMPI_I?(All)?reduce\w*|\bMPI_I?Reduce\w*|\bMPI_I?Ex?[Ss]can\b|\bMPI_SUM\b"
     r"|\bnccl(AllReduce|Reduce|ReduceScatter|Sum)\b", r"tests/.*",
     "sums go through the lane tree in a fixed order"),
    ("mpi-collective", r"(?i)\bMPI_I?(bcast|barrier|allgatherv?|alltoall[vw]?|gatherv?|scatterv?)\b",
     r"collective/bootstrap_mpi\.c|tests/.*", "an MPI collective has no deadline"),
    ("volatile", r"\bvolatile\b", r"kernels/cuda/tensor_slabs\.h", "use C11 atomics with a named order"),
    ("allocation", r"(?<![\w.>])(malloc|calloc|realloc|strdup|strndup|aligned_alloc|posix_memalign)"
     r"\s*\(", r"kernels/base/memory\.c|.*/cuda/.*|tests/.*", "allocate through sr_alloc"),
    ("exit", r"(?<![\w.>])(exit|abort|quick_exit)\s*\(", r"launcher/.*|tests/.*",
     "only the launcher ends the process"),
    ("rename", r"(?<![\w.>])(rename|renameat2?|link|linkat|symlink|symlinkat|mkostemps?|mkstemps?|creat|"
     r"ftruncate|truncate|copy_file_range|sendfile)\s*\(",
     r"kernels/base/file_write\.c|dataio/(import/spool|pipeline/ring)\.c|trainer/run/run_lock\.c|"
     r"tests/.*",
     "write files through kernels/base/file.h"),
    ("libm", LIBM, r"launcher/.*|tests/.*|.*/cuda/.*|trainer/draw/plot\w*\.c",
     "bits of libm depend on its version: use kernels/base/math.h"),
    ("shape-rule", r"op\s*->\s*infer\s*\(", r"graph/recording\.c|tests/.*",
     "shapes are inferred where an operator is recorded, by its one rule"),
    ("skip", r"(?<![\w.>])skip\s*\(\s*\)", r"tests/unit/support/test_support\.h",
     "a case that cannot run says why: test_skip(why)"),
    ("lock", r"\bpthread_cond_\w+|\bsem_\w+\s*\(", r"(?!dataio/).*",
     "a process killed inside would leave it locked: use the rings"),
]

# Language (comments, messages, pages): a phrase, lines in which it is right, what to say instead.
PROSE = CODE + (".py", ".sh", ".cmake", ".yaml", ".md")
LANGUAGE = [
    (r"\b[Pp]apers?\b", r"\d paper\\n|\(paper|[Tt]he paper|, paper\b|'s paper|\bpaper,|\bpaper's|paper\)", "an annotation file, if it is no publication"),
    (r"\bknows? (it|them)sel(f|ves)\b", None, "is detected, is recognised"),
    (r"\b[Bb]ehind (four )?walls\b|\bno walls\b", None, "sandboxed, not sandboxed"),
    (r"\b(is|are|was) through\b", None, "complete"),
    (r"\b[Tt]ells\b", r"tells .*apart", "prints, reports, shows"),
    (r"\b[Uu]sual (JPEG|picture|PNG)s?\b", None, "baseline JPEG, ordinary picture"),
    (r"\b(is|are|was) none\b", r"[Tt]here (is|are|was) none|none of", "invalid, missing, is not one"),
    (r"\b[Tt]he ground\b", r"ground truth", "scratch, base"),
    (r"\b(does|do|did) not go\b", None, "fails, does not work"),
    (r"\b[Ll]ook whether\b", None, "check whether"),
    (r"\blies? behind the end\b", None, "is after the end"),
    (r"\bkeeps to 0\b", None, "is set to 0, stays 0"),
    (r"\b1 findings\b", None, "1 finding"),
    (r"\bsomething else than\b", None, "something other than"),
    (r"\bof (its|their|one's) own where\b|\b[Ww]hat it is is\b", None, "a sentence with a subject"),
    (r"\bstands? (nowhere|once)\b", None, "is, appears"),
    (r"\bin silence\b", None, "without a message, silently"),
]


def list_files(root):
    """Files of the checkout, also new ones that git does not ignore; without git, all."""
    git = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"],
                         capture_output=True, text=True, check=False)
    if git.returncode == 0:
        names = git.stdout.splitlines()
    else:
        names = []
        for folder, folders, files in os.walk(root):
            folders[:] = [f for f in folders if f not in ("build", "runs", ".git", "__pycache__")]
            names += [os.path.relpath(os.path.join(folder, f), root) for f in files]
    return sorted(n for n in set(names) if os.path.isfile(os.path.join(root, n)))


TOKENS = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)


def blank(text, strings=True):
    """The text with comments (and strings) turned to blanks, lines kept."""
    def swap(match):
        token = match.group(0)
        if token[0] in "\"'" and not strings:
            return token
        return re.sub(r"[^\n]", " ", token)
    return TOKENS.sub(swap, text)


def may_include(name):
    for prefix, allowed in MAY_INCLUDE:
        if name.startswith(prefix):
            return allowed
    return None


def check_includes(name, text, report):
    allowed = may_include(name)
    for number, line in enumerate(blank(text, strings=False).splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+(["<])([^">]+)[">]', line)
        if not match:
            continue
        target = match.group(2)
        foreign = target.startswith(ROOMS + ("serried.h",)) and not target.startswith(allowed or "")
        if allowed and foreign and (name, target) not in EDGES:
            report(name, number, "layer", f"may not include {target}")
        for header, files in DOORS:
            if re.fullmatch(header, target) and not re.fullmatch(files, name):
                report(name, number, "door", f"<{target}> belongs to {files.split('|')[0]} alone")


def folder_rank(name):
    """(room, position of the file's folder in the room's order, or None)."""
    for room, folders in FOLDERS.items():
        if name.startswith(room):
            folder = name[len(room):].split("/")[0]
            return room, folders.index(folder) if folder in folders else None
    return None, None


def check_folders(name, text, report):
    """Folders of a room depend in one direction; what lies in the room itself may use all of them."""
    room, rank = folder_rank(name)
    if room is None or rank is None:
        return
    for number, line in enumerate(blank(text, strings=False).splitlines(), 1):
        match = re.match(r'\s*#\s*include\s+"([^"]+)"', line)
        if not match or folder_rank(match.group(1))[0] != room:
            continue
        other = folder_rank(match.group(1))[1]
        if other is None or other > rank:
            report(name, number, "folder", f"may not include {match.group(1)}: {room} goes "
                   + ", ".join(FOLDERS[room]))


def check_sizes(files, report):
    counts = {}
    for name in files:
        if name.endswith(".c"):
            counts.setdefault(os.path.dirname(name), []).append(name)
    for folder, names in counts.items():
        if len(names) > SOURCES_MAX and folder not in MANY and "/corpus" not in folder:
            report(names[0], 1, "size", f"{folder} has {len(names)} source files; at most {SOURCES_MAX}")
    for room, folders in FOLDERS.items():
        for name in files:
            inside = name[len(room):].split("/") if name.startswith(room) else []
            if len(inside) > 1 and inside[0] not in folders:
                report(name, 1, "folder", f"{inside[0]} has no position in FOLDERS of tests/check_layers.py")


# One walk over a text instead of one for each phrase.
ANY_PHRASE = re.compile("|".join(f"(?:{pattern})" for pattern, _, _ in LANGUAGE))


def check_language(name, text, report):
    """Phrases that an English-speaking reader would stop at, in comments, messages and pages."""
    if "/corpus/" in name or name.endswith((".csv", "LICENSE")):
        return
    prose = text if name.endswith((".md", ".txt")) else "\n".join(prose_lines(name, text))
    if not ANY_PHRASE.search(prose):
        return
    for pattern, allowed, better in LANGUAGE:
        for match in re.finditer(pattern, prose):
            begin = prose.rfind("\n", 0, match.start()) + 1
            end = prose.find("\n", match.end())
            line = prose[begin:end if end >= 0 else None]
            if not (allowed and re.search(allowed, line)):
                report(name, prose[:match.start()].count("\n") + 1, "language",
                       f"'{match.group(0)}': {better}")


def prose_lines(name, text):
    """Lines of which code is blanked, so that comments and strings remain."""
    if not name.endswith(CODE):
        return text.splitlines()
    kept, end = [], 0
    for match in TOKENS.finditer(text):
        if match.group(0)[0] != "'" and not is_include(text, match.start()):
            kept += [re.sub(r"[^\n]", " ", text[end:match.start()]), match.group(0)]
            end = match.end()
    return ("".join(kept) + re.sub(r"[^\n]", " ", text[end:])).splitlines()


def is_include(text, at):
    return text[text.rfind("\n", 0, at) + 1:at].lstrip().startswith("#")


def check_joins(name, text, report):
    """Only the exchange joins gradients to communicators, only the feed batches to tensors."""
    if not name.startswith("trainer/") or not name.endswith(".c"):
        return
    included = re.findall(r'^\s*#\s*include\s+"([^"]+)"', text, re.M)
    graph = any(i.startswith(("graph/", "autograd/")) for i in included)
    base = os.path.basename(name)
    if graph and any(i.startswith("collective/") for i in included) and "exchange" not in base:
        report(name, 1, "join", "only trainer/exchange*.c joins tensors and communicators")
    tables = base == "plugins.c"  # fills the tables of all rooms
    if graph and any(i.startswith("dataio/") for i in included) and "feed" not in base and not tables:
        report(name, 1, "join", "only trainer/feed*.c joins tensors and batches")


def check_not_run(name, text, report):
    """A test says what it leaves out in the form that tests/run counts."""
    if not name.startswith("tests/") or "selftest" in name or name == "tests/sum_results.py":
        return
    for match in re.finditer(r"[\"']\s*NOT RUN(?!: )", text):
        report(name, text[:match.start()].count("\n") + 1, "not-run", "the line is 'NOT RUN: what and why'")


# Tasks are named by their own files alone, and by the recipe that names none.
TASK_NAMED = r"trainer/tasks/.*|trainer/recipe/recipe_internal\.h"
TASK_ROOMS = ("kernels/", "graph/", "autograd/", "collective/", "trainer/", "launcher/")


def check_tasks(name, text, tasks, report):
    if not name.startswith(TASK_ROOMS) or re.fullmatch(TASK_NAMED, name):
        return
    code = blank(text, strings=False)
    for match in re.finditer('"(' + "|".join(tasks) + ')"', code):
        report(name, code[:match.start()].count("\n") + 1, "task",
               f"{match.group(0)}: what differs by task belongs into its descriptor")


def task_names(root):
    """The names of all tasks in trainer/tasks."""
    names, folder = [], os.path.join(root, "trainer", "tasks")
    for file in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        if re.fullmatch(r"task_\w+\.c", file):
            with open(os.path.join(folder, file), encoding="utf-8") as source:
                names += re.findall(r'\.name = "(\w+)",\n\s*\.help', source.read())
    return names or ["classify"]


def check_words(name, text, report):
    plain = blank(text)
    for rule, pattern, allowed, reason in WORDS:
        if allowed and re.fullmatch(allowed, name):
            continue
        for match in re.finditer(pattern, plain):
            before = plain[:match.start()]
            if rule == "volatile" and re.search(r"\b(__asm__|asm)\s*$", before):
                continue
            if rule == "libm" and not name.startswith(ROOMS):
                continue
            number = before.count("\n") + 1
            report(name, number, rule, f"'{match.group(0).strip(' (')}': {reason}")
    for match in re.finditer(r"\bswitch\s*\(([^;{]*)\)\s*\{", plain):
        kind = re.search(r"(->|\.|\b)op(_kind|_id|code)?\s*(->\s*\w+\s*)?$",
                         match.group(1).strip())
        if kind and name.startswith(ROOMS):
            report(name, plain[:match.start()].count("\n") + 1, "op-switch",
                   "what differs by operator belongs into its descriptor")
    if not re.search(r"_list\.c$|\.def$", name) and name.startswith(ROOMS):
        for match in re.finditer(r"^\s*#\s*(if|ifdef|ifndef|elif)\b[^\n]*SR_WITH_", plain, re.M):
            number = plain[:match.start(1)].count("\n") + 1
            report(name, number, "ifdef", "SR_WITH_ stands in list files and CMake only")


def check_writing(name, text, report):
    """No room opens files for writing by itself."""
    if not name.startswith(ROOMS) or name == WRITER or name in OPEN_FOR_WRITING:
        return
    plain = blank(text, strings=False)
    for match in OPENERS.finditer(plain):
        if re.search(r"\bO_(WRONLY|RDWR|CREAT|TMPFILE|TRUNC|APPEND)\b", match.group(1)):
            report(name, plain[:match.start()].count("\n") + 1, "writing",
                   "opens a file for writing: do it through kernels/base/file.h")
    for match in FOPENS.finditer(plain):
        if not re.search(r',\s*"r[be]*"$', match.group(1).strip()):
            report(name, plain[:match.start()].count("\n") + 1, "writing",
                   "a stream that is not open for reading alone: write through kernels/base/file.h")


def check_addresses(name, text, report):
    """Above the launchers nothing reads through an address of a device."""
    if not name.startswith(ADDRESS_ROOMS) or re.fullmatch(ADDRESS_DOORS, name):
        return
    plain = blank(text)
    for pattern, reason in ADDRESS:
        for match in re.finditer(pattern, plain):
            report(name, plain[:match.start()].count("\n") + 1, "address",
                   f"'{' '.join(match.group(0).split())}': {reason}")


def check_shape(name, text, report):
    lines = text.splitlines()
    head = lines[1:2] if lines and lines[0].startswith("#!") else lines[:1]
    if not head or "SPDX-License-Identifier: Apache-2.0" not in head[0]:
        report(name, 1, "spdx", "the first line is the SPDX line")
    if name.endswith(CODE) and len(lines) > LINES_MAX:
        report(name, LINES_MAX, "length", f"{len(lines)} lines; at most {LINES_MAX}")


def check_names(files, report):
    seen = {}
    for name in files:
        base = os.path.basename(name)
        if not name.endswith(CODE):
            continue
        if base in seen:
            report(name, 1, "unique", f"the name is taken by {seen[base]}")
        seen.setdefault(base, name)


def check_structs(files, read, report):
    """No two structs of the rooms share a name that begins with sr_."""
    seen = {}
    for name in files:
        if not name.endswith(CODE) or not name.startswith(ROOMS):
            continue
        text = blank(read(name))
        for match in re.finditer(r"\b(?:struct|union|enum)\s+(sr_\w+)\s*\{", text):
            where = seen.setdefault(match.group(1), name)
            if where != name:
                report(name, text[:match.start()].count("\n") + 1, "struct",
                       f"{match.group(1)} is another type in {where}")


def listed_names(text, prefix):
    # The first argument that is a name: SR_OP(sr_op_add), SR_COMMAND("train", sr_cmd_train, ...).
    names = re.findall(r"^\s*[A-Z]\w*\([\s,]*([A-Za-z_]\w*)", blank(text), re.M)
    return [n if n.startswith("sr_") else prefix + n for n in names]


def check_lists(files, read, report):
    known = {definition for definition, _, _ in LISTS} | {"kernels/kernel_list.def", "kernels/expression_list.def",
                                                          "kernels/cpu/x86/x86_list.def",
                                                          "kernels/device/module_list.def"}
    for name in files:
        if name.endswith("_list.def") and name.startswith(ROOMS) and name not in known:
            report(name, 1, "list", "not known to tests/check_layers.py: add it to LISTS")
    for definition, prefix, pattern in LISTS:
        holders = [f for f in files if re.fullmatch(pattern, f) and
                   not f.endswith(("_internal.c", "_list.c"))]
        lines = listed_names(read(definition), prefix) if definition in files else []
        texts = {holder: blank(read(holder)) for holder in holders}
        for holder, text in texts.items():
            check_holder(holder, text, definition, prefix, lines, report)
        for line in lines:
            if not any(mentions(text, line, prefix) for text in texts.values()):
                report(definition, 1, "list", f"{line} is in no {pattern}")


def mentions(text, descriptor, prefix):
    """The file has the descriptor's name, or (where a macro builds it) what follows the prefix."""
    name = descriptor[len(prefix):]
    return re.search(rf"\b({descriptor}|{name})\b", text) is not None


def check_holder(holder, text, definition, prefix, lines, report):
    """Every descriptor that the file defines has a line in the list, and there is at least one."""
    for descriptor in re.findall(rf"^const\s+\w+\s+({prefix}\w+)\s*=", text, re.M):
        if descriptor not in lines and descriptor not in UNLISTED:
            report(holder, 1, "list", f"{descriptor} has no line in {definition}")
    unlisted = any(re.search(rf"\b{name}\b", text) for name in UNLISTED)
    if not unlisted and not any(mentions(text, line, prefix) for line in lines):
        report(holder, 1, "list", f"nothing of it is in {definition}; name helpers *_internal.c")


def check_public(files, read, report):
    """What serried.h includes is public: it needs public headers alone, and C++ can call it."""
    if "serried.h" not in files:
        return
    public = re.findall(r'^#include "([^"]+)"$', read("serried.h"), re.M)
    for name in public:
        if name not in files:
            report("serried.h", 1, "public", f"{name} does not exist")
            continue
        text = read(name)
        if 'extern "C"' not in text:
            report(name, 1, "public", "has no extern \"C\" for C++ programs")
        if name.endswith("_internal.h"):
            report(name, 1, "public", "is in serried.h, but its name says internal")
        for needed in re.findall(r'^\s*#\s*include\s+"([^"]+\.h)"', text, re.M):
            if needed not in public:
                report(name, 1, "public", f"includes {needed}, which is not in serried.h")


def check_tree(root):
    """All findings of a tree as sorted lines."""
    findings = []

    def report(name, number, rule, what):
        findings.append((name, number, f"{name}:{number}: {rule}: {what}"))

    def read(name):
        with open(os.path.join(root, name), encoding="utf-8", errors="replace") as file:
            return file.read()

    files, tasks = list_files(root), task_names(root)
    for name in files:
        if name.endswith(SOURCES) or os.path.basename(name) == "CMakeLists.txt":
            check_shape(name, read(name), report)
            check_not_run(name, read(name), report)
        if name.endswith(PROSE) and not name.startswith("tests/check_layers"):
            check_language(name, read(name), report)
        if name.endswith(CODE):
            text = read(name)
            check_includes(name, text, report)
            check_folders(name, text, report)
            check_joins(name, text, report)
            check_words(name, text, report)
            check_tasks(name, text, tasks, report)
            check_writing(name, text, report)
            check_addresses(name, text, report)
        if name.startswith("recipes/") and not name.endswith((".yaml", ".md", ".txt")):
            report(name, 1, "recipes", "recipes hold YAML only")
    check_sizes(files, report)
    check_names(files, report)
    check_structs(files, read, report)
    check_lists(files, read, report)
    check_public(files, read, report)
    return [line for _, _, line in sorted(set(findings))]


def main():
    root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(os.path.dirname(__file__), "..")
    findings = check_tree(root)
    for line in findings:
        print(line)
    print(f"{len(findings)} findings" if findings else "layers: clean")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""ARCHITECTURE.md's walks and exercises are true: the files that they name exist, and each exercise, done here by a
script in a copy of the tree, touches exactly the files that the page lists, builds and passes its tests.

    check_exercises.py pages                  the files exist
    check_exercises.py build [JOBS]           the exercises, all in one copy of the tree (about two minutes)
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(os.path.join(HERE, "..", ".."))
WALK_MAX = 15

# Exercise: (file, a piece of the line after which the text is put, text). A file that the tree does not have is copied
# from exercise_NAME of this folder.
EXERCISES = {
    "operator": [
        ("kernels/expression_list.def", "// Written so that NaN stays NaN.",
         'SR_EXPRESSION(cube, "x^3", CALL_1, IN(T, x, sr_input_elements(p, 0)) OUT(T, y, p->count),\n'
         '              CODE(X0, X0, MUL, X0, MUL), LITERALS(0),\n'
         '              DERIVES, GRADIENT(0, sr_scale(sr_mul(g, sr_square(x)), 3.0, 0.0)),\n'
         '              .keeps_inputs = 1u, .in_place = SR_IN_PLACE(0, 0))'),
        ("graph/ops.h", "sr_tensor sr_square(", "sr_tensor sr_cube(sr_tensor x); // x^3"),
        ("graph/ops.h", "#define sr_square(",
         "#define sr_cube(...) (sr_at(__FILE__, __LINE__), sr_cube(__VA_ARGS__))"),
        ("tests/unit/kernels/test_kernels_expression.c", "FORMULA(square, ", "FORMULA(cube, x[0] * x[0] * x[0])"),
        ("tests/unit/kernels/test_kernels_expression.c", "ROW(square, ", "    ROW(cube, -2, 2, 2, 0),"),
        ("tests/unit/graph/op_cases_math.c", "BUILD(square, ", "BUILD(cube, sr_cube(in[0]))"),
        ("tests/unit/graph/op_cases_math.c", "WRONG(square_of_integers, ",
         "WRONG(cube_of_integers, sr_cube(ZEROS(SR_I32, 1, 3)))"),
        ("tests/unit/graph/op_cases_math.c", "const op_case op_cases_math[] = {",
         '    {.op = "cube",\n     .build = cube,\n     .inputs = 1,\n     .info = {F64(1, 2)},\n'
         '     .in = {{-3, 0.5}},\n     .want = {-27, 0.125},\n     .want_count = 2,\n     .gradient = GRADIENT_TWICE,\n'
         '     .low = -2,\n     .high = 2,\n     .wrong = cube_of_integers,\n     .message = "cube: input"},'),
        ("tests/unit/graph/test_missing.c", "CALL(square, ", "CALL(cube, sr_cube(SR_NONE))"),
        ("tests/unit/graph/test_missing.c", '{"sr_square", ', '    {"sr_cube", "cube: x", cube},'),
        ("tests/peers/random_table.py", "NOT_COMPARED = {", '    "cube": "two products, which are compared",'),
        ("tests/numerics/digests.txt", "square/reference reference ", "cube/reference reference 0000000000000000"),
    ],
    "transform": [
        ("dataio/transforms/transform_bgr.c", None, None),
        ("dataio/transforms/transform_list.def", "SR_TRANSFORM(invert)", "SR_TRANSFORM(bgr)"),
        ("dataio/CMakeLists.txt", "transforms/transform_invert.c", "    transforms/transform_bgr.c"),
        ("tests/unit/dataio/test_transform_table.c", '{{"invert", NULL}, ',
         '    {{"bgr", NULL}, {"center_crop", NULL}, STAYS, UINT64_C(0x0)},'),
        ("tests/numerics/digests.txt", "transform/invert data ", "transform/bgr data 0000000000000000"),
        ("docs/augmentation.md", "| `invert.probability` |", "(written by docs/make_recipe_tables.py)"),
    ],
    "task": [
        ("trainer/tasks/task_brightness.c", None, None),
        ("trainer/tasks/metric_error.c", None, None),
        ("trainer/tasks/metric_error.h", None, None),
        ("trainer/tasks/task_list.def", "SR_TASK(sr_task_gan)", "SR_TASK(sr_task_brightness)"),
        ("trainer/CMakeLists.txt", "tasks/task_gan.c", "    tasks/task_brightness.c\n    tasks/metric_error.c"),
        ("tests/unit/trainer/tasks/test_task_table.c", '{"gan", "',
         '    {"brightness", "tests/recipes/tiny.yaml", {"task=brightness", "loss=~"}},'),
        ("docs/recipes.md", "| `task` |", "(written by docs/make_recipe_tables.py)"),
    ],
    "recipe key": [
        ("trainer/recipe/recipe.h", "int on_corrupt;",
         "        const char *source; // where the pictures come from, for people; or NULL"),
        ("trainer/recipe/recipe_keys.c", "static const sr_option recipe_options[] = {",
         '    {"data.source", "where the pictures come from, for people", SR_OPT_STRING, AT(recipe.data.source), NULL,\n'
         "     0, 0, NULL, NEUTRAL},"),
        ("trainer/run/train_setup.c", 'SR_INFO("run folder: ',
         '    if (t->recipe->data.source)\n        SR_INFO("pictures: %s", t->recipe->data.source);'),
        ("docs/recipes.md", "| `data.train` |", "(written by docs/make_recipe_tables.py)"),
    ],
}
WRITTEN = ("pack.txt", "tasks/task_X.c")  # by a command, by whoever adds one
MADE_BY_COMMAND = ("docs/augmentation.md", "docs/recipes.md", "tests/numerics/digests.txt")
TARGETS = ["serried-command", "test_ops", "test_missing", "test_kernels_providers", "test_kernels_expression",
           "test_transform_table", "test_task_table", "numerics_digests"]


def read_sections(text, heading):
    """{name: files in backticks} of the '### NAME' sections below '## HEADING'."""
    part = re.search(rf"^## {heading}$(.*?)(?=^## |\Z)", text, re.M | re.S)
    sections = re.findall(r"^### (.*?)$(.*?)(?=^### |\Z)", part.group(1), re.M | re.S) if part else []
    return {name: re.findall(r"`([\w-]+(?:/[\w.-]+)+)`", body) for name, body in sections}


def check_pages():
    with open(os.path.join(ROOT, "ARCHITECTURE.md"), encoding="utf-8") as file:
        text = file.read()
    findings = []
    walks, exercises = read_sections(text, "Two walks"), read_sections(text, "Four exercises")
    if len(walks) != 2:
        findings.append(f"{len(walks)} walks instead of 2")
    for name, files in walks.items():
        different = list(dict.fromkeys(files))
        findings += [f"'{name}' names {path}, which does not exist" for path in different
                     if not os.path.isfile(os.path.join(ROOT, path))]
        if not 5 <= len(different) <= WALK_MAX:
            findings.append(f"'{name}' names {len(different)} files; at most {WALK_MAX}")
    if list(exercises) != [f"Add {'an' if name[0] in 'aeio' else 'a'} {name}" for name in EXERCISES]:
        findings.append(f"exercises {list(exercises)}, scripts for {list(EXERCISES)}")
        return findings
    for (title, listed), (name, edits) in zip(exercises.items(), EXERCISES.items()):
        touched = {path for path, _, _ in edits}
        findings += [f"'{title}' does not name {path}, which {name} touches" for path in sorted(touched - set(listed))]
        findings += [f"'{title}' names {path}, which {name} does not touch" for path in sorted(set(listed) - touched)]
        findings += [f"{path}: the line '{anchor}' of {name} is not there once"
                     for path, anchor, _ in edits if anchor and count_lines(path, anchor) != 1]
    return findings


def check_rooms():
    """Files that the pages of rooms name exist, there or from the root."""
    findings = []
    for room in ("kernels", "graph", "dataio", "trainer"):
        with open(os.path.join(ROOT, room, "README.md"), encoding="utf-8") as file:
            text = file.read()
        for path in dict.fromkeys(re.findall(r"`([\w-]+(?:/[\w-]+)*\.(?:c|h|def|inc|py|txt))`", text)):
            known = any(os.path.isfile(os.path.join(ROOT, base, path)) for base in (room, "."))
            if not known and path not in WRITTEN:
                findings.append(f"{room}/README.md names {path}, which does not exist")
    return findings


def count_lines(path, anchor):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return sum(anchor in line for line in file)


def copy_tree(to):
    names = subprocess.run(["git", "-C", ROOT, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True,
                           check=True).stdout.splitlines()
    for name in names:
        source, target = os.path.join(ROOT, name), os.path.join(to, name)
        if os.path.isfile(source):
            os.makedirs(os.path.dirname(target), exist_ok=True)
            shutil.copy2(source, target, follow_symlinks=False)


def edit(tree, path, anchor, text):
    target = os.path.join(tree, path)
    if anchor is None:
        shutil.copy(os.path.join(HERE, "exercise_" + os.path.basename(path)), target)
        return
    with open(target, encoding="utf-8") as file:
        lines = file.read().split("\n")
    at = next(i for i, line in enumerate(lines) if anchor in line)
    lines.insert(at + 1, text)
    with open(target, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


def run(tree, *command, code=0):
    done = subprocess.run(command, cwd=tree, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode != code:
        print(done.stdout[-6000:])
        raise SystemExit(f"FAILED  {' '.join(command)}: exit code {done.returncode} instead of {code}")
    print("ok      " + " ".join(command)[:120], flush=True)
    return done.stdout


def build(jobs):
    with tempfile.TemporaryDirectory(prefix="serried-exercises-") as tree:
        copy_tree(tree)
        for edits in EXERCISES.values():
            for path, anchor, text in edits:
                if path not in MADE_BY_COMMAND:
                    edit(tree, path, anchor, text)
        out = os.path.join(tree, "build", "exercises")
        run(tree, "cmake", "-S", ".", "-B", out, "-G", "Ninja", "-DSERRIED_WERROR=ON", "-DSERRIED_TESTS=ON",
            "-DCMAKE_BUILD_TYPE=Debug", "-DCMAKE_C_FLAGS_DEBUG=-O1", "-DSERRIED_WITH_X86=OFF", "-DSERRIED_WITH_ONEDNN=OFF",
            "-DSERRIED_WITH_CAIRO=OFF", "-DSERRIED_WITH_LMDB=OFF")
        run(tree, "cmake", "--build", out, "-j", str(jobs), "--target", *TARGETS)
        said = run(tree, os.path.join(out, "tests", "test_transform_table"), code=1)
        digest = re.search(r"case \d+, bgr: UINT64_C\((0x\w+)\)", said).group(1)
        path = os.path.join(tree, "tests/unit/dataio/test_transform_table.c")
        with open(path, encoding="utf-8") as file:
            text = file.read()
        with open(path, "w", encoding="utf-8") as file:
            file.write(text.replace("UINT64_C(0x0)", f"UINT64_C({digest})"))
        run(tree, "cmake", "--build", out, "-j", str(jobs), "--target", "test_transform_table")
        for name in ("test_transform_table", "test_ops", "test_missing", "test_kernels_expression",
                     "test_kernels_providers", "test_task_table"):
            run(tree, os.path.join(out, "tests", name))
        serried = os.path.join(out, "serried")
        run(tree, sys.executable, "docs/make_recipe_tables.py", serried, "--write")
        run(tree, sys.executable, "docs/make_recipe_tables.py", serried)
        run(tree, sys.executable, "tests/peers/check_random.py", out, "--table")
        run(tree, sys.executable, "tests/numerics/check_numerics.py", os.path.join(out, "tests", "numerics_digests"), "--write")
        run(tree, sys.executable, "tests/check_layers.py")
        for wanted, path in (("cube", "tests/numerics/digests.txt"), ("bgr", "tests/numerics/digests.txt"),
                             ("`bgr.probability`", "docs/augmentation.md"), ("`brightness`", "docs/recipes.md"),
                             ("`data.source`", "docs/recipes.md")):
            with open(os.path.join(tree, path), encoding="utf-8") as file:
                if wanted not in file.read():
                    raise SystemExit(f"FAILED  {path} has no {wanted}")
        shown = run(tree, serried, "recipe", "show", "tests/recipes/tiny.yaml", "data.source=here", "augment=[bgr]")
        if "source: here" not in shown:
            raise SystemExit("FAILED  recipe show does not print the new key")


def main():
    if sys.argv[1] == "build":
        build(int(sys.argv[2]) if len(sys.argv) > 2 else os.cpu_count())
        return 0
    findings = [f"ARCHITECTURE.md: {finding}" for finding in check_pages()] + check_rooms()
    for finding in findings:
        print(finding)
    print(f"{len(findings)} findings" if findings else "walks and exercises: true")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Breaks every rule of check_layers.py once, and checks that right code passes."""
import os
import sys
import tempfile

import check_layers

SPDX = "// SPDX-License-Identifier: Apache-2.0\n"

GOOD = {
    "serried.h": SPDX + '#include "kernels/base/status.h"\n',
    "kernels/base/status.h": SPDX + 'extern "C" {}\n#include <stdint.h>\n',
    "kernels/base/memory.c": SPDX + "void *f(void) { return calloc(1, 2); }\n",
    "kernels/base/read.c": SPDX + 'void r(void) { FILE *f = fopen(p, "re"); int d = open(p, O_RDONLY); }\n',
    "kernels/base/file_write.c": SPDX + "void w(void) { int d = open(p, O_RDWR | O_CREAT, 0666); rename(a, b); }\n",
    "kernels/base/pause.c": SPDX + 'void p(void) { __asm__ volatile("pause"); }\n',
    "graph/node.c": SPDX + '#include "kernels/base/status.h"\n// MPI_SUM, volatile in a comment\n'
                           'const char *s = "exit(1) malloc(2)";\nint f(int k) { switch (k) {} }\n',
    "graph/ops/op_list.def": SPDX + "SR_OP(sr_op_add)\nSR_OP(twice)\n",
    "graph/ops/op_add.c": SPDX + "const sr_op sr_op_add = {0};\nOP(twice)\n",
    "collective/backend_list.def": SPDX + "SR_COMM_BACKEND(mpi)\n",
    "collective/backend_mpi.c": SPDX + "const sr_comm_backend sr_comm_backend_mpi = {0};\n#include <mpi.h>\n",
    "collective/bootstrap_list.def": SPDX + "SR_BOOTSTRAP(mpi)\n",
    "collective/bootstrap_mpi.c": SPDX + "const sr_bootstrap sr_bootstrap_mpi = {0};\n"
                                         "#include <mpi.h>\nvoid f(void) { MPI_Iallgather(); }\n",
    "kernels/provider_list.c": SPDX + "#ifdef SR_WITH_X86\n#endif\n",
    "trainer/exchange/exchange.c": SPDX + '#include "collective/comm.h"\n#include "graph/tensor.h"\n',
    "graph/executor.c": SPDX + "void f(parser *p, sr_address a) { sr_address none = {0}; p->at = (char *)p->end; "
                               "g((sr_address){0}, a.at == 0 ? p->at : none.at); memcpy(p->at, p->end, 3); }\n",
    "collective/comm_message.c": SPDX + "void f(sr_address a) { send((const void *)a.at); }\n",
    "launcher/main.c": SPDX + '#include "launcher/bench/bench.h"\nint main(void) { exit(exp(0)); }\n',
    "dataio/pipeline/step.c": SPDX + '// The paper calls it a step; two marks tell them apart.\n#include "dataio/record/record.h"\n'
                                     "int tells = 1;\ntypedef struct sr_step {\n    int x;\n} sr_step;\n",
    "tests/run.py": "#!/usr/bin/env python3\n# SPDX-License-Identifier: Apache-2.0\n",
    "recipes/tiny.yaml": "# SPDX-License-Identifier: Apache-2.0\nmodel: tiny\n",
}

# file, text, rule that must fire
BAD = [
    ("kernels/base/x.c", SPDX + '#include "kernels/device/device.h"\n', "layer"),
    ("kernels/device/x.c", SPDX + '#include "kernels/kernel.h"\n', "layer"),
    ("graph/x.c", SPDX + '#include "autograd/gradients.h"\n', "layer"),
    ("graph/x.c", SPDX + '# include "collective/comm.h"\n', "layer"),
    ("collective/x.c", SPDX + '#include "kernels/kernel.h"\n', "layer"),
    ("dataio/x.c", SPDX + '#include "graph/tensor.h"\n', "layer"),
    ("trainer/x.c", SPDX + '#include "launcher/run.h"\n', "layer"),
    ("autograd/x.c", SPDX + '#include "trainer/models/model.h"\n', "layer"),
    ("trainer/x.c", SPDX + "#include <mpi.h>\n", "door"),
    ("kernels/cpu/x.c", SPDX + "#include <oneapi/dnnl/dnnl.h>\n", "door"),
    ("trainer/x.c", SPDX + '#include "collective/comm.h"\n#include "graph/tensor.h"\n', "join"),
    ("trainer/x.c", SPDX + '#include "dataio/pipeline/pipeline.h"\n#include "autograd/g.h"\n', "join"),
    ("collective/x.c", SPDX + "void f(void) { MPI_Allreduce(); }\n", "float-reduction"),
    ("collective/backend_mpi.c", SPDX + "int s = MPI_SUM;\n", "float-reduction"),
    ("kernels/cuda/x.cu", SPDX + "void f(void) { ncclAllReduce(); }\n", "float-reduction"),
    ("trainer/x.c", SPDX + "void f(void) { MPI_Barrier(); }\n", "mpi-collective"),
    ("collective/backend_mpi.c", SPDX + "void f(void) { MPI_Ibcast(); }\n", "mpi-collective"),
    ("dataio/x.c", SPDX + "static volatile int x;\n", "volatile"),
    ("graph/x.c", SPDX + "void *f(void) { return malloc(3); }\n", "allocation"),
    ("graph/x.c", SPDX + "void f(void) { exit(3); }\n", "exit"),
    ("trainer/x.c", SPDX + "void f(void) { rename(a, b); }\n", "rename"),
    ("dataio/x.c", SPDX + "void f(void) { if (symlink(a, b) != 0) return; }\n", "rename"),
    ("trainer/x.c", SPDX + 'void f(void) { FILE *file = fopen(p, "wbe"); }\n', "writing"),
    ("launcher/x.c", SPDX + 'void f(void) { FILE *file = fopen(p, "r+"); }\n', "writing"),
    ("launcher/x.c", SPDX + "void f(void) { FILE *file = fopen(p, mode); }\n", "writing"),
    ("graph/x.c", SPDX + "void f(void) { if ((fd = open(p, O_WRONLY | O_CREAT, 0666)) < 0) return; }\n",
     "writing"),
    ("graph/x.c", SPDX + "void f(void) { int fd = openat(d, p,\nO_RDONLY | O_CREAT, 0666); }\n", "writing"),
    ("kernels/cpu/x.c", SPDX + "float f(float x) { return expf(x); }\n", "libm"),
    ("dataio/x.c", SPDX + "void f(void) { pthread_cond_wait(0, 0); }\n", "lock"),
    ("dataio/x.c", SPDX + "void f(void) { sem_post(0); }\n", "lock"),
    ("graph/x.c", SPDX + "void f(n *n) { switch (n->op) {} }\n", "op-switch"),
    ("graph/x.c", SPDX + "void f(n *n) { switch (n->op->kind) {} }\n", "op-switch"),
    ("trainer/x.c", SPDX + "\n#if defined(SR_WITH_CAIRO)\n#endif\n", "ifdef"),
    ("graph/x.c", "int x;\n" + SPDX, "spdx"),
    ("recipes/x.yaml", "model: x\n", "spdx"),
    ("tests/x.py", "#!/usr/bin/env python3\nprint()\n", "spdx"),
    ("graph/x.c", SPDX + "int x;\n" * 800, "length"),
    ("graph/status.h", SPDX, "unique"),
    ("graph/ops/op_sub.c", SPDX + "const sr_op sr_op_sub = {0};\n", "list"),
    ("graph/ops/op_add.c", SPDX + "const sr_op sr_op_add = {0};\n", "list"),  # twice: a dead line
    ("graph/ops/op_help.c", SPDX + "int x;\n", "list"),
    ("dataio/formats/format_x.c", SPDX + "const sr_format sr_format_x = {0};\n", "list"),
    ("graph/pass_list.def", SPDX + "SR_PASS(x)\n", "list"),
    ("kernels/base/status.h", SPDX, "public"),
    ("serried.h", SPDX + '#include "kernels/base/no.h"\n', "public"),
    ("kernels/base/status.h", SPDX + 'extern "C" {}\n#include "kernels/base/x.h"\n', "public"),
    ("graph/x.c", SPDX + "void f(void) { node->op->infer(&view, out); }\n", "shape-rule"),
    ("launcher/x.c", SPDX + 'bool f(const char *t) { return strcmp(t, "classify") == 0; }\n', "task"),
    ("tests/unit/test_x.c", SPDX + "void f(void) { skip(); }\n", "skip"),
    ("tests/unit/test_x.c", SPDX + 'void f(void) { puts("NOT RUN nothing"); }\n', "not-run"),
    ("tests/dist/x.py", "# SPDX-License-Identifier: Apache-2.0\nprint(f'  NOT RUN this')\n", "not-run"),
    ("dataio/record/x.c", SPDX + '#include "dataio/jpeg/decode.h"\n', "folder"),
    ("trainer/engine/x.h", SPDX + '#include "trainer/run/train.h"\n', "folder"),
    ("launcher/start/x.c", SPDX + '#include "launcher/commands/command.h"\n', "folder"),
    ("dataio/other/x.c", SPDX + "int x;\n", "folder"),
    ("graph/x.c", SPDX + "struct sr_step {\n    int x;\n};\n", "struct"),
    ("graph/x.c", SPDX + "// It tells what happened.\n", "language"),
    ("graph/x.c", SPDX + 'const char *s = "what is none";\n', "language"),
    ("docs/x.md", "Papers lie beside the pictures.\n", "language"),
    ("tests/x.py", "# SPDX-License-Identifier: Apache-2.0\n# Look whether it is there.\n", "language"),
    ("graph/x.c", SPDX + "float f(sr_address a) { return *(const float *)a.at; }\n", "address"),
    ("trainer/x.c", SPDX + "float f(phase *p) { return ((float *)(p->values.at + 4))[1]; }\n", "address"),
    ("trainer/x.c", SPDX + "float *f(run *r) {\n    return (float *const)sr_address_add(r->a, 4)\n        .at;\n}\n",
     "address"),
    ("trainer/x.c", SPDX + "void f(run *r) { const size_t a = 4; memcpy(r->out, a + r->in[0].at, 3); }\n", "address"),
    ("autograd/x.c", SPDX + "float f(sr_address a) { uintptr_t n = a.at; return g(n); }\n", "address"),
    ("collective/x.c", SPDX + "sr_address f(void *p) { return (sr_address){(size_t)p}; }\n", "address"),
    ("launcher/x.c", SPDX + "void f(void *p) { const sr_address a = {.at = (size_t)p}; g(a); }\n", "address"),
    ("graph/x.c", SPDX + '#include "kernels/device/device_internal.h"\n', "door"),
    ("recipes/x.py", "# SPDX-License-Identifier: Apache-2.0\n", "recipes"),
]


def findings_of(files):
    with tempfile.TemporaryDirectory() as root:
        for name, text in files.items():
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return check_layers.check_tree(root)


def main():
    failures = 0
    if findings_of(GOOD):
        failures += 1
        print("right code has findings:", *findings_of(GOOD), sep="\n  ")
    for name, text, rule in BAD:
        findings = findings_of(dict(GOOD, **{name: text}))
        if not any(f": {rule}: " in line for line in findings):
            failures += 1
            print(f"{name}: rule '{rule}' did not fire on {text[len(SPDX):60]!r}: {findings}")
    crowd = {f"graph/crowd/x{number}.c": SPDX + "int x;\n" for number in range(check_layers.SOURCES_MAX + 1)}
    if not any(": size: " in line for line in findings_of(dict(GOOD, **crowd))):
        failures += 1
        print("rule 'size' did not fire")
    print(f"{len(BAD) + 2} cases, {failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

// SPDX-License-Identifier: Apache-2.0
// Digests of every entry of the kernel table, over the problems of kernel_cases.c: f32 and bf16
// together, and f16 in a row of its own ("conv2d/onednn,f16"); tails, several blocks.
#include "tests/numerics/numerics_digests.h"

#include "kernels/base/cpuid.h"
#include "kernels/base/hash.h"
#include "kernels/base/memory.h"
#include "tests/unit/kernels/kernel_fixture.h"
#include "tests/unit/kernels/kernel_problem.h"
#include "tests/unit/support/test_support.h"

enum { MAX_ENTRIES = 256, ROWS = 2 };

static const sr_provider *provider; // whose entries run
static const char *const row_names[ROWS] = {"", ",f16"};
static uint64_t digest[ROWS][MAX_ENTRIES];
static bool ran[ROWS][MAX_ENTRIES];
static bool done[MAX_ENTRIES]; // has digests of the problems that are not new

static int row_of(const problem *c) {
    for (int i = 0; i < c->request.args; i++)
        if (c->request.dtype[i] == SR_F16)
            return 1;
    return 0;
}

static void run_entry(const problem *c, size_t place, const arrays *inputs) {
    const int row = row_of(c);
    sr_prepared prepared;
    assert_ok(sr_kernel_prepare_as(&c->request, &provider->entries[place], 0, &prepared));
    arrays a = copy_arrays(c, inputs);
    void *workspace = sr_alloc(prepared.workspace, "a test workspace");
    void *scratch = sr_alloc(prepared.scratch, "test scratch");
    assert_ok(sr_prepared_run(&prepared, &c->request, a.p, workspace, scratch));
    for (int i = 0; i < c->request.args; i++)
        if (is_result(&c->arg[i]) && a.p[i] != NULL)
            digest[row][place] = sr_hash64_seed(a.p[i], bytes_of(c, i), digest[row][place]);
    ran[row][place] = true;
    sr_free(workspace);
    sr_free(scratch);
    free_arrays(&a);
    sr_prepared_release(&prepared);
}

void check_problem(const problem *c) {
    arrays inputs = make_inputs(c);
    for (size_t k = 0; k < provider->count; k++)
        if (provider->entries[k].kernel == c->request.kernel && !done[k] &&
            provider->entries[k].supports(&c->request))
            run_entry(c, k, &inputs);
    free_arrays(&inputs);
}

static void print_heading(void) {
    char numerics[SR_PROVIDER_TEXT], features[80];
    const uint32_t decide = provider->features & sr_cpu_features();
    printf("[%s%s%s]\n", sr_provider_numerics(provider, numerics),
           provider->features ? "; processor " : "",
           provider->features ? decide ? sr_cpu_features_text(decide, features) : "plain" : "");
}

// An entry that could run but has no problem would go unchecked.
static void print_entry(size_t place) {
    const sr_kernel_entry *e = &provider->entries[place];
    const bool cased = kernel_cases[e->kernel] != NULL;
    const bool lacks = cased && (e->needs & ~sr_cpu_features()) != 0;
    const bool has[ROWS] = {true, e->dtypes != NULL && strstr(e->dtypes, " f16") != NULL};
    if (!lacks && !ran[0][place] && !ran[1][place] && (cased || provider->features || e->needs))
        fail_msg("%s serves no problem of kernel_cases.c here", e->name);
    for (int row = 0; row < ROWS; row++) {
        if (ran[row][place])
            printf("%s%s %s %016llx\n", e->name, row_names[row], e->numerics_class,
                   (unsigned long long)digest[row][place]);
        else if (lacks && has[row])
            printf("%s%s %s -\n", e->name, row_names[row], e->numerics_class);
    }
}

static void run_cases(void) {
    for (int kernel = 0; kernel < SR_KERNEL_COUNT; kernel++)
        if (kernel_cases[kernel] != NULL)
            kernel_cases[kernel]((sr_kernel_id)kernel);
}

// Entries that only problems that were added later reach have digests of these.
static void print_provider(void) {
    memset(digest, 0, sizeof digest);
    memset(ran, 0, sizeof ran);
    memset(done, 0, sizeof done);
    assert_true(provider->count <= MAX_ENTRIES);
    kernel_cases_of_digests = true;
    run_cases();
    for (size_t k = 0; k < provider->count; k++)
        done[k] = ran[0][k] || ran[1][k];
    kernel_cases_of_digests = false;
    run_cases();
    print_heading();
    for (size_t k = 0; k < provider->count; k++)
        print_entry(k);
}

static void print_providers(bool reference) {
    size_t count;
    const sr_provider *const *providers = sr_providers(&count);
    for (size_t i = 0; i < count; i++) {
        provider = providers[i];
        if ((strcmp(provider->name, "reference") == 0) == reference)
            print_provider();
    }
}

void digests_of_reference(void) {
    print_providers(true);
}

void digests_of_providers(void) {
    print_providers(false);
}

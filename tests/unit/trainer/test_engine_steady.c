// SPDX-License-Identifier: Apache-2.0
// A thousand steps of a rank, or 200 on a GPU, as the software GPU is slow: after the first ones
// nothing is allocated and the resident set stays the same, also after an evaluation, whose plan
// has another shape.
//
// Where only serried's own kernels run (SERRIED_PROVIDERS without onednn, or a GPU), allocations
// are counted in malloc itself, which this program overrides (calling glibc's), but for those of
// CUDA's own libraries. oneDNN allocates the argument list of each call and frees it again; with
// oneDNN, and where a sanitizer has its own malloc, serried's counter is used. On the software GPU
// the calls that make something on the device are counted, too. A failure prints who called malloc.
#include "tests/unit/support/test_support.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <unistd.h>

#include "kernels/base/memory.h"
#include "kernels/base/pool.h"
#include "kernels/base/rng.h"
#include "kernels/device/device.h"
#include "tests/unit/support/infer_logits.h"
#include "tests/unit/support/malloc_callers.h"
#include "tests/unit/support/picture_slot.h"
#include "trainer/engine/choices.h"
#include "trainer/engine/engine.h"

enum { SIDE = 8, SAMPLES = 2, LANES = 2, CLASSES = 5, SEEN_BLOCK = 3 };
#define MOST_GROWTH (256 << 10) // bytes of the resident set: stacks, pages touched the first time

static atomic_uint_fast64_t mallocs;

// The code of CUDA's libraries, once they are loaded.
typedef struct code_range {
    uintptr_t begin, end;
} code_range;
static code_range foreign[4];
static atomic_int foreign_count;
static bool on_gpu; // the engine's kernels are not the CPU's

// The software GPU's count of calls that make something; NULL elsewhere.
static union {
    void *object;
    unsigned long (*call)(const char *kind);
} device_count;

#ifdef SR_COUNT_MALLOC
static bool is_foreign(const void *caller) {
    const uintptr_t at = (uintptr_t)caller;
    const int count = atomic_load_explicit(&foreign_count, memory_order_acquire);
    for (int i = 0; i < count; i++)
        if (at >= foreign[i].begin && at < foreign[i].end)
            return true;
    return false;
}

static void count_call(const void *caller) {
    if (is_foreign(caller))
        return;
    atomic_fetch_add_explicit(&mallocs, 1, memory_order_relaxed);
    malloc_callers_note(caller);
}

// NOLINTBEGIN(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-inconsistent-declaration-parameter-name):
// glibc
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);

void *malloc(size_t bytes) {
    count_call(__builtin_return_address(0));
    return __libc_malloc(bytes);
}
void *calloc(size_t count, size_t bytes) {
    count_call(__builtin_return_address(0));
    return __libc_calloc(count, bytes);
}
void *realloc(void *old, size_t bytes) {
    count_call(__builtin_return_address(0));
    return __libc_realloc(old, bytes);
}
void *aligned_alloc(size_t align, size_t bytes) {
    count_call(__builtin_return_address(0));
    return __libc_memalign(align, bytes);
}
int posix_memalign(void **out, size_t align, size_t bytes) {
    count_call(__builtin_return_address(0));
    *out = __libc_memalign(align, bytes);
    return *out ? 0 : 12; // ENOMEM
}
// NOLINTEND(bugprone-reserved-identifier,cert-dcl37-c,cert-dcl51-cpp,readability-inconsistent-declaration-parameter-name)
#endif

static int find_foreign(struct dl_phdr_info *info, size_t size, void *user) {
    const int count = atomic_load_explicit(&foreign_count, memory_order_relaxed);
    (void)size;
    (void)user;
    if (!strstr(info->dlpi_name, "/libcudart.so") && !strstr(info->dlpi_name, "/libcuda.so"))
        return 0;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
            continue;
        const uintptr_t begin = info->dlpi_addr + part->p_vaddr;
        assert_true(count < (int)(sizeof foreign / sizeof *foreign));
        foreign[count] = (code_range){begin, begin + part->p_memsz};
        atomic_store_explicit(&foreign_count, count + 1, memory_order_release);
        break;
    }
    return 0;
}

static bool own_kernels_alone(void) {
    const char *providers = getenv("SERRIED_PROVIDERS");
    return on_gpu || (providers && !strstr(providers, "onednn"));
}

typedef struct allocation_counts {
    uint64_t own, on_device, mallocs;
} allocation_counts;

static allocation_counts allocations(void) {
    return (allocation_counts){
        .own = sr_memory_get_stats().allocations,
        .on_device = device_count.object ? device_count.call("made") : 0,
        .mallocs = own_kernels_alone() ? atomic_load_explicit(&mallocs, memory_order_relaxed) : 0};
}

static bool has_allocated(const allocation_counts *before, const allocation_counts *after) {
    return memcmp(before, after, sizeof *before) != 0;
}

// From here on nothing is to be allocated.
static allocation_counts begin_to_count(void) {
    malloc_callers_begin();
    return allocations();
}

static void expect_none_since(const allocation_counts *before) {
    const allocation_counts now = allocations();
    if (!has_allocated(before, &now))
        return;
    (void)printf("allocated: %llu times by serried, %llu times on the device, %llu times by "
                 "malloc:\n",
                 (unsigned long long)(now.own - before->own),
                 (unsigned long long)(now.on_device - before->on_device),
                 (unsigned long long)(now.mallocs - before->mallocs));
    malloc_callers_print(stdout);
    fail_msg("steps allocate");
}

static long resident_bytes(void) {
    char text[128] = "";
    FILE *file = fopen("/proc/self/statm", "re");
    assert_non_null(file);
    assert_non_null(fgets(text, sizeof text, file));
    (void)fclose(file);
    char *rest;
    (void)strtol(text, &rest, 10);
    return strtol(rest, NULL, 10) * sysconf(_SC_PAGESIZE);
}

typedef struct steady_fixture {
    sr_recipe *recipe;
    sr_comm *comm;
    sr_engine *engine;
    uint8_t images[LANES][SAMPLES * SIDE * SIDE * 3];
    int32_t labels[LANES][SAMPLES];
    int64_t steps;
} steady_fixture;

static sr_status get(void *user, int lane, sr_slot *out) {
    steady_fixture *f = user;
    *out = picture_slot(SAMPLES, SIDE, f->images[lane], f->labels[lane]);
    return SR_OK;
}

static void done(void *user, int lane) {
    (void)user;
    (void)lane;
}

// The device's libraries are loaded by now.
static void look_for_gpu(const steady_fixture *f) {
    const sr_device *device = sr_engine_get_info(f->engine).device;
    on_gpu = sr_device_get_properties(device)->kind != SR_DEVICE_CPU;
    if (!on_gpu || atomic_load_explicit(&foreign_count, memory_order_relaxed) > 0)
        return;
    (void)dl_iterate_phdr(find_foreign, NULL);
    void *library = dlopen("libcudart.so.13", RTLD_LAZY | RTLD_NOLOAD);
    device_count.object = library ? dlsym(library, "soft_gpu_count") : NULL;
    if (library)
        (void)dlclose(library); // the module keeps it
}

static void begin(steady_fixture *f, int lanes, const char *precision) {
    char batch[32], lane_count[32];
    (void)snprintf(batch, sizeof batch, "batch=%d", lanes * SAMPLES);
    (void)snprintf(lane_count, sizeof lane_count, "lanes=%d", lanes);
    const char *overrides[] = {batch, lane_count, precision, "model.width=8"};
    const sr_task_desc *task;
    const sr_comm_options comm = {.alone = true};
    sr_rng rng;
    assert_ok(sr_recipe_load("tests/recipes/tiny.yaml", overrides, 4, &f->recipe));
    assert_ok(sr_choose_task(f->recipe, &task));
    assert_ok(sr_comm_create(&comm, &f->comm));
    const sr_engine_options options = {.recipe = f->recipe,
                                       .task = task,
                                       .comm = f->comm,
                                       .threads = sr_cpu_count() < LANES ? 1 : LANES,
                                       .classes = CLASSES,
                                       .batch = (int64_t)lanes * SAMPLES,
                                       .lanes = lanes,
                                       .image_height = SIDE,
                                       .image_width = SIDE,
                                       .seed = 3};
    assert_ok(sr_engine_create(&options, &f->engine));
    assert_ok(sr_param_set_start_average(sr_engine_get_set(f->engine, 0)));
    look_for_gpu(f);
    sr_rng_init(&rng, 7, 0, 0, 0);
    for (int lane = 0; lane < LANES; lane++) {
        for (int i = 0; i < SAMPLES; i++)
            f->labels[lane][i] = (int32_t)sr_rng_below(&rng, CLASSES);
        for (size_t i = 0; i < sizeof f->images[lane]; i++)
            f->images[lane][i] = (uint8_t)sr_rng_below(&rng, 256);
    }
}

static void end(steady_fixture *f) {
    sr_engine_free(f->engine);
    sr_comm_free(f->comm);
    sr_recipe_free(f->recipe);
}

static void take_steps(steady_fixture *f, int count) {
    const sr_lane_source source = {.get = get, .done = done, .user = f};
    const sr_ema_settings ema = {.decay = 0.9, .due = true};
    const int64_t batch = sr_engine_get_info(f->engine).batch;
    for (int i = 0; i < count; i++, f->steps++) {
        sr_phase_set_step(sr_engine_get_phase(f->engine, 0), f->steps, f->steps * batch, 1e-3,
                          1.0 / (double)batch, ema);
        assert_ok(sr_engine_step(f->engine, 0, f->steps, &source));
    }
}

// Another number of pictures than a lane has, with the average of the parameters.
static void evaluate(steady_fixture *f) {
    float logits[SEEN_BLOCK * CLASSES] = {0};
    uint8_t pictures[SEEN_BLOCK * SIDE * SIDE * 3];
    const sr_slot slot = picture_slot(SEEN_BLOCK, SIDE, pictures, NULL);
    memset(pictures, 99, sizeof pictures);
    assert_ok(sr_engine_use_average(f->engine, true));
    assert_ok(infer_logits(f->engine, &slot, logits, sizeof logits));
    assert_ok(sr_engine_use_average(f->engine, false));
    assert_true(logits[0] == logits[0]);
}

static void steady(int lanes, const char *precision) {
    steady_fixture f = {0};
    begin(&f, lanes, precision);
    const int quarter = on_gpu ? 50 : 250;
    assert_true(!device_count.object || device_count.call("made") > 0);
    // A GPU repeats work as a graph from its second time on, with either set of inputs.
    take_steps(&f, on_gpu ? 4 : 1);
    const allocation_counts after_one = begin_to_count();
    take_steps(&f, quarter);
    expect_none_since(&after_one);
    for (int i = 0; i < (on_gpu ? 2 : 1); i++) // compiles
        evaluate(&f);
    if (on_gpu) // inputs of more pictures are elsewhere
        take_steps(&f, 4);
    const allocation_counts after_evaluation = begin_to_count();
    take_steps(&f, quarter);
    evaluate(&f);
    take_steps(&f, quarter);
    expect_none_since(&after_evaluation);
    const long resident = resident_bytes();
    const allocation_counts before = begin_to_count();
    evaluate(&f);
    take_steps(&f, quarter);
    expect_none_since(&before);
    const long growth = resident_bytes() - resident;
    (void)printf("%d lanes, %s: %ld bytes more resident\n", lanes, precision, growth);
#ifdef SR_COUNT_MALLOC
    assert_true(growth <= MOST_GROWTH);
#endif
    assert_int_equal(2, sr_context_get_stats(sr_engine_get_info(f.engine).context).plans_compiled);
    end(&f);
}

static void test_one_lane(void **state) {
    (void)state;
    steady(1, "precision=fp32");
    steady(1, "precision=bf16");
}

static void test_two_lanes(void **state) {
    (void)state;
    steady(LANES, "precision=fp32");
    steady(LANES, "precision=bf16");
}

static void test_allocations_are_counted(void **state) {
    (void)state;
    char *copy = strdup("seen");
    assert_non_null(copy);
    free(copy);
#ifdef SR_COUNT_MALLOC
    assert_true(atomic_load_explicit(&mallocs, memory_order_relaxed) > 0);
#endif
    const allocation_counts before = begin_to_count();
    void *own = sr_alloc(1, "a test");
    const allocation_counts after = allocations();
    assert_true(has_allocated(&before, &after));
    assert_true(after.own == before.own + 1);
    sr_free(own);
}

static void test_callers_are_named(void **state) {
    (void)state;
#ifdef SR_COUNT_MALLOC
    char text[1024] = "";
    FILE *out = fmemopen(text, sizeof text, "w");
    assert_non_null(out);
    malloc_callers_begin();
    for (int i = 0; i < 3; i++)
        free(strdup("seen"));
    malloc_callers_print(out);
    (void)fclose(out);
    const char *named = strstr(text, "3 x ");
    assert_non_null(named);
    assert_non_null(strstr(named, "strdup"));
    assert_non_null(strstr(named, "test_engine_steady("));
#else
    test_skip("the sanitizer has its own malloc");
#endif
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_allocations_are_counted),
        cmocka_unit_test(test_callers_are_named),
        cmocka_unit_test(test_one_lane),
        cmocka_unit_test(test_two_lanes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

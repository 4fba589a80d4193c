// SPDX-License-Identifier: Apache-2.0
// A custom training loop: ranks, data, steps and the digest, using only public functions. The same
// recipe and data give the same digest on any number of ranks, and with `serried train`:
//   mpirun -np 2 ./own_loop RECIPE data.train=DATA
#include <serried.h>
#include <stdio.h>
#include <string.h>

typedef struct job {
    sr_recipe *recipe;
    const sr_task_desc *task;
    sr_comm *comm;
    sr_dataset *data;
    sr_engine *engine;
    sr_feed *feed;
    sr_schedule schedule;
    sr_arena arena;
} job;

static sr_status open_job(job *j, const char *recipe, const char *const *values, int count) {
    sr_device_properties device;
    SR_TRY(sr_recipe_load(recipe, values, count, &j->recipe));
    SR_TRY(sr_plugins_load(j->recipe, SR_PLUGINS_NAMED));
    SR_TRY(sr_recipe_check(j->recipe));
    SR_TRY(sr_choose_task(j->recipe, &j->task));
    SR_TRY(sr_comm_create(NULL, &j->comm));
    sr_log_set_rank(sr_comm_rank(j->comm), sr_comm_size(j->comm));
    SR_TRY(sr_choose_device(j->recipe, 0, &device));
    SR_TRY(sr_fingerprint_agree(j->comm, &device, false));
    SR_TRY(sr_dataset_open(j->recipe->data.train, "train", &j->data));
    const sr_recipe *r = j->recipe;
    sr_engine_options engine = sr_engine_options_of(j->recipe, j->task);
    engine.comm = j->comm;
    engine.device = device.name;
    engine.threads = 1;
    engine.classes = sr_dataset_class_count(j->data);
    const sr_schedule_lengths lengths = {
        .total = r->steps * r->batch, .epoch = sr_dataset_count(j->data), .batch = r->batch};
    SR_TRY(sr_engine_create(&engine, &j->engine));
    sr_engine_set_lengths(j->engine, &lengths);
    SR_TRY(sr_choose_schedule(j->recipe, 0, &j->arena, &lengths, &j->schedule));
    sr_pipeline_options pipeline = sr_pipeline_options_of(r, j->task, NULL);
    pipeline.lane_begin = sr_engine_get_info(j->engine).lane_begin;
    pipeline.lane_end = sr_engine_get_info(j->engine).lane_end;
    return sr_feed_create(&pipeline, 1, sr_engine_get_info(j->engine).device, &j->feed);
}

static sr_status train(job *j) {
    sr_phase *phase = sr_engine_get_phase(j->engine, 0);
    const int64_t batch = j->recipe->batch, steps = j->recipe->steps;
    char digest[SR_SHA256_HEX];
    for (int64_t step = 0; step < steps; step++) {
        double lr = sr_schedule_lr(&j->schedule, step * batch);
        sr_phase_set_step(phase, step, step * batch, lr, 1.0 / (double)batch, (sr_ema_settings){0});
        SR_TRY(sr_engine_step(j->engine, 0, step, sr_feed_source(j->feed)));
        SR_INFO("step %d: loss %.4f", (int)step, sr_phase_loss_sum(phase) / (double)batch);
    }
    SR_TRY(sr_state_digest(j->engine, steps * batch, steps, digest));
    if (sr_comm_rank(j->comm) == 0)
        printf("digest %s\n", digest);
    return SR_OK;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "--data-process") == 0)
        return sr_data_process_main(argc, argv); // this program, started as a data process
    job j = {0};
    sr_arena_init(&j.arena);
    sr_status status = argc < 2 ? SR_FAIL(SR_E_USAGE, "which recipe?")
                                : open_job(&j, argv[1], (const char *const *)argv + 2, argc - 2);
    if (status == SR_OK)
        status = train(&j);
    if (status != SR_OK)
        SR_ERROR("%s", sr_error_message());
    if (status != SR_OK && j.comm)
        sr_comm_abort(j.comm, status, sr_error_message());
    sr_feed_free(j.feed);
    sr_engine_free(j.engine);
    sr_dataset_free(j.data);
    sr_comm_free(j.comm);
    sr_recipe_free(j.recipe);
    sr_arena_release(&j.arena);
    return sr_status_exit_code(status);
}

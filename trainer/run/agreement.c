// SPDX-License-Identifier: Apache-2.0
// Compares the recipes of all ranks (agreement.h): each rank compares its own with that of rank 0,
// and all of them gather what was found.
#include "trainer/run/agreement.h"

#include <stdio.h>
#include <string.h>

#include "kernels/base/memory.h"
#include "kernels/base/text.h"

enum { KEY_BYTES = 128, VALUE_BYTES = 96 };

// The first key in which a rank differs from rank 0; an empty key: none.
typedef struct difference {
    char key[KEY_BYTES], value[VALUE_BYTES], first[VALUE_BYTES];
} difference;

static const char *next_line(const char *line) {
    line += strcspn(line, "\n");
    return *line ? line + 1 : line;
}

// The value in a line "key=value".
static void copy_value(const char *line, char out[VALUE_BYTES]) {
    const char *value = line + strcspn(line, "=\n");
    value += *value == '=';
    const size_t length = strcspn(value, "\n");
    if (length < VALUE_BYTES)
        (void)snprintf(out, VALUE_BYTES, "%.*s", (int)length, value);
    else
        (void)snprintf(out, VALUE_BYTES, "%.*s...", VALUE_BYTES - 4, value);
}

// The value of the key that 'line' begins with, elsewhere.
static void find_value(const char *text, const char *line, char out[VALUE_BYTES]) {
    const size_t length = strcspn(line, "=\n");
    (void)snprintf(out, VALUE_BYTES, "no value");
    for (; *text; text = next_line(text))
        if (strcspn(text, "=\n") == length && memcmp(text, line, length) == 0) {
            copy_value(text, out);
            return;
        }
}

static void compare(const char *mine, const char *first, difference *out) {
    *out = (difference){.key = ""};
    while (*mine && *first && strcspn(mine, "\n") == strcspn(first, "\n") &&
           memcmp(mine, first, strcspn(mine, "\n")) == 0) {
        mine = next_line(mine);
        first = next_line(first);
    }
    if (!*mine && !*first)
        return;
    const char *line = *mine ? mine : first; // that a shorter text lacks
    (void)snprintf(out->key, KEY_BYTES, "%.*s", (int)strcspn(line, "=\n"), line);
    find_value(mine, line, out->value);
    find_value(first, line, out->first);
}

// Sends the text of rank 0 to all; *out is in new memory.
static sr_status text_of_first(sr_comm *comm, const sr_text *mine, char **out) {
    static const char what[] = "the recipe of rank 0";
    int64_t bytes = (int64_t)mine->length;
    SR_TRY(sr_comm_broadcast(comm, 0, &bytes, sizeof bytes, what));
    char *text = sr_alloc((size_t)bytes + 1, what);
    if (!text)
        return SR_E_MEMORY;
    if (sr_comm_rank(comm) == 0)
        memcpy(text, mine->data, mine->length);
    text[bytes] = '\0';
    *out = text;
    return sr_comm_broadcast(comm, 0, text, (size_t)bytes, what);
}

static sr_status report(const sr_comm *comm, const difference *all) {
    const int ranks = sr_comm_size(comm);
    int rank = 1, others = 0;
    char more[32] = "";
    while (rank < ranks && !all[rank].key[0])
        rank++;
    if (rank == ranks)
        return SR_OK;
    for (int r = rank + 1; r < ranks; r++)
        others += strcmp(all[r].key, all[rank].key) == 0;
    if (others > 0)
        (void)snprintf(more, sizeof more, " and %d more", others);
    return SR_FAIL(SR_E_USAGE,
                   "ranks disagree on %s: rank %d (%s)%s: %s, rank 0: %s; give all ranks the same "
                   "recipe and overrides",
                   all[rank].key, rank, sr_comm_peer_name(comm, rank), more, all[rank].value,
                   all[rank].first);
}

static sr_status agree(sr_comm *comm, const sr_text *mine, char **first, difference *all) {
    difference own;
    SR_TRY(text_of_first(comm, mine, first));
    compare(mine->data, *first, &own);
    SR_TRY(sr_comm_all_gather(comm, &own, sizeof own, all, "all ranks to compare their recipes"));
    return report(comm, all);
}

sr_status sr_agree_on_recipe(sr_comm *comm, const sr_recipe *recipe) {
    char *first = NULL;
    sr_text mine;
    difference *all =
        sr_alloc_array((size_t)sr_comm_size(comm), sizeof *all, "recipes of all ranks");
    sr_text_init(&mine);
    sr_status status = all ? SR_OK : SR_E_MEMORY;
    sr_recipe_add_shared(recipe, &mine);
    if (status == SR_OK)
        status = sr_text_check(&mine);
    if (status == SR_OK)
        status = agree(comm, &mine, &first, all);
    sr_text_release(&mine);
    sr_free(first);
    sr_free(all);
    return status;
}

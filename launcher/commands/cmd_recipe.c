// SPDX-License-Identifier: Apache-2.0
// serried recipe list | show RECIPE | check RECIPE...
#include <argp.h>
#include <stdio.h>
#include <string.h>

#include "launcher/commands/command.h"
#include "trainer/engine/choices.h"
#include "trainer/engine/plugins.h"
#include "trainer/run/plan_report.h"

enum { KEY_PLAIN = 0x100, KEY_NAMES, KEY_JSON, KEY_PLUGINS };

static const struct argp_option options[] = {
    {"plain", KEY_PLAIN, NULL, 0, "show: leave out the comments on where values come from", 0},
    {"names", KEY_NAMES, NULL, 0, "list: print names only", 0},
    {"json", KEY_JSON, NULL, 0, "show: print one JSON object; list: one object per recipe", 0},
    {"allow-plugins", KEY_PLUGINS, NULL, 0,
     "show, check: load plug-ins even if another user owns the recipe", 0},
    {0}};

static const char about[] =
    "List, show or check recipes."
    "\v"
    "  list    print the shipped recipes\n"
    "  show    print a recipe with every value resolved, and where it comes from\n"
    "  check   read recipes, open the data and weights that they name, and report\n"
    "          every error at which training would stop\n\n"
    "Shipped recipes are searched for in SERRIED_RECIPES (folders separated by ':') if it is "
    "set, otherwise beside the program.";

typedef struct recipe_arguments {
    const char *verb;
    const char **words; // after the verb
    int count;
    bool plain, names, json;
    sr_plugins_trust trust;
} recipe_arguments;

static error_t parse_option(int key, char *value, struct argp_state *state) {
    recipe_arguments *a = state->input;
    switch (key) {
    case KEY_PLAIN:
        a->plain = true;
        break;
    case KEY_JSON:
        a->json = true;
        break;
    case KEY_NAMES:
        a->names = true;
        break;
    case KEY_PLUGINS:
        a->trust = SR_PLUGINS_ALLOWED;
        break;
    case ARGP_KEY_ARG:
        if (a->verb)
            a->words[a->count++] = value;
        else
            a->verb = value;
        break;
    case ARGP_KEY_END:
        if (!a->verb)
            argp_error(state, "list, show or check?");
        break;
    default:
        return ARGP_ERR_UNKNOWN;
    }
    return 0;
}

static void print_json(const sr_recipe_listing *item) {
    sr_text line;
    sr_text_init(&line);
    sr_text_add(&line, "{\"name\": ");
    sr_text_add_json_string(&line, item->name);
    sr_text_add(&line, ", \"about\": ");
    sr_text_add_json_string(&line, item->about);
    sr_text_add(&line, "}\n");
    (void)fputs(line.data, stdout);
    sr_text_release(&line);
}

static sr_status list(const recipe_arguments *a) {
    if (a->count > 0)
        return SR_FAIL(SR_E_USAGE, "list takes no names; to see one: serried recipe show %s",
                       a->words[0]);
    sr_arena arena;
    sr_arena_init(&arena);
    sr_recipe_listing *items;
    int count = 0, width = 0;
    sr_status status = sr_recipe_list(&arena, &items, &count);
    for (int i = 0; status == SR_OK && i < count; i++) {
        int length = (int)strlen(items[i].name);
        width = length > width ? length : width;
    }
    for (int i = 0; status == SR_OK && i < count; i++) {
        if (a->json)
            print_json(&items[i]);
        else if (a->names)
            printf("%s\n", items[i].name);
        else
            printf("%-*s  %s\n", width, items[i].name, items[i].about);
    }
    if (status == SR_OK && count == 0)
        status = SR_FAIL(SR_E_NOT_FOUND,
                         "no recipes were found; check SERRIED_RECIPES, or install serried again");
    sr_arena_release(&arena);
    return status;
}

static sr_status show(const recipe_arguments *a) {
    if (a->count == 0)
        return SR_FAIL(SR_E_USAGE, "show which recipe? 'serried recipe list' lists them");
    sr_recipe *recipe = NULL;
    SR_TRY(sr_choose_recipe(a->words[0], a->words + 1, a->count - 1, &recipe));
    sr_text text;
    sr_text_init(&text);
    sr_status status = sr_plugins_load(recipe, a->trust);
    if (status == SR_OK)
        status = sr_recipe_check(recipe);
    if (status == SR_OK)
        status = a->json ? sr_recipe_print_json(recipe, &text)
                         : sr_recipe_print_yaml(recipe, !a->plain, &text);
    status = sr_command_print(status, &text);
    sr_recipe_free(recipe);
    return status;
}

static sr_status check_one(const char *name, sr_plugins_trust trust) {
    sr_recipe *recipe = NULL;
    SR_TRY(sr_choose_recipe(name, NULL, 0, &recipe));
    sr_status status = sr_plugins_load(recipe, trust);
    if (status == SR_OK)
        status = sr_recipe_check(recipe);
    if (status == SR_OK)
        status = sr_plan_rehearse(recipe);
    sr_recipe_free(recipe);
    return status;
}

// Checks all of them; returns the highest exit code.
static int check(const recipe_arguments *a) {
    int worst = 0;
    for (int i = 0; i < a->count; i++) {
        sr_status status = check_one(a->words[i], a->trust);
        if (status == SR_OK) {
            printf("%s: ok\n", a->words[i]);
            continue;
        }
        if (!strstr(sr_error_message(), a->words[i])) // a model's, which has no location
            sr_error_prefix("%s", a->words[i]);
        int code = sr_command_fail(status);
        worst = code > worst ? code : worst;
    }
    if (a->count == 0)
        return sr_command_fail(SR_FAIL(SR_E_USAGE, "check which recipes?"));
    return worst;
}

static int run(const recipe_arguments *a) {
    sr_status status = SR_OK;
    if (strcmp(a->verb, "check") == 0)
        return check(a);
    if (strcmp(a->verb, "list") == 0)
        status = list(a);
    else if (strcmp(a->verb, "show") == 0)
        status = show(a);
    else
        status = SR_FAIL(SR_E_USAGE, "unknown subcommand '%s'; recipe has list, show and check",
                         a->verb);
    return status == SR_OK ? 0 : sr_command_fail(status);
}

int sr_cmd_recipe(int argc, char **argv) {
    static const struct argp parser = {
        options, parse_option, "list\nshow RECIPE [key=value...]\ncheck RECIPE...", about, NULL,
        NULL,    NULL};
    recipe_arguments a = {0};
    a.words = sr_alloc_array((size_t)argc + 1, sizeof *a.words, "arguments");
    if (!a.words)
        return sr_command_fail(SR_E_MEMORY);
    int code = argp_parse(&parser, argc, argv, 0, NULL, &a) != 0 ? 2 : run(&a);
    sr_free(a.words);
    return code;
}

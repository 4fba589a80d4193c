// SPDX-License-Identifier: Apache-2.0
// The command line of `serried`: help, errors and their exit codes, recipes, tables, completion,
// plots and pictures. Runs the program given as the first argument, in the repository's root.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/support/test_support.h"

static const char *program;
static char folder[] = "/tmp/serried-command-XXXXXX";
static char output[1 << 16];

// In a line, $S is the program. Returns the exit code; 'output' gets stdout and stderr.
static int run(const char *line) {
    char command[2048];
    snprintf(command, sizeof command, "{ S='%s'; D=%s; %s; } 2>&1 </dev/null", program, folder,
             line);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t bytes = fread(output, 1, sizeof output - 1, pipe);
    output[bytes] = '\0';
    int state = pclose(pipe);
    return WIFEXITED(state) ? WEXITSTATUS(state) : -1;
}

static void expect(const char *line, int code, const char *text) {
    int got = run(line);
    if (got != code || !strstr(output, text))
        print_error("%s\nexit %d\n%s\nexpected exit %d with: %s\n", line, got, output, code, text);
    assert_int_equal(got, code);
    assert_non_null(strstr(output, text));
}

static int enter(void **state) {
    (void)state;
    static const char *const names[] = {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK",    "PMI_RANK",
                                        "SLURM_STEP_NUM_TASKS", "SLURM_NTASKS", "SERRIED_RECIPES"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        (void)unsetenv(names[i]);
    return mkdtemp(folder) ? 0 : -1;
}

static int leave(void **state) {
    (void)state;
    return run("rm -r $D");
}

static void test_help(void **state) {
    (void)state;
    expect("$S --help 2>/dev/null", 0, "usage: serried COMMAND");
    expect("$S help 2>/dev/null", 0, "  train ");
    expect("$S train --help 2>/dev/null", 0, "Exit codes: 0 ok, 1 failure, 2 recipe or usage");
    expect("$S help recipe 2>/dev/null", 0, "serried recipe");
    expect("$S", 2, "usage: serried COMMAND");
    expect("for c in $($S info commands | cut -d' ' -f1); do $S $c --help || exit 9; done", 0, "");
}

static void test_mistakes(void **state) {
    (void)state;
    expect("$S trian", 2, "serried: unknown command 'trian'; did you mean 'train'?\n");
    expect("$S zzzzzz", 2, "serried: unknown command 'zzzzzz'; 'serried --help' lists them\n");
    expect("$S train", 2, "serried train: which recipe?");
    expect("$S train resnet81", 2, "no shipped recipe 'resnet81'; did you mean 'resnet18'?");
    // A model is not a recipe; its family's recipe is named, or its own.
    expect("$S train vit_tiny_patch16_224", 2,
           "'vit_tiny_patch16_224' is a model, not a recipe: give it to one, as in 'deit-small "
           "model=vit_tiny_patch16_224'");
    expect("$S train resnet34 -n 2", 2, "as in 'resnet18 model=resnet34'");
    expect("$S recipe show mobilenet_v3_large", 2, "it is trained by 'mobilenet-v3-large'");
    expect("$S bench step efficientnet_b0", 2, "as in 'resnet50 model=efficientnet_b0'");
    expect("$S train vit_tiny_patch16", 2, "'vit_tiny_patch16_224' is a model");
    expect("$S train MobileNet_V3_Large", 2, "did you mean 'mobilenet-v3-large'?");
    expect("$S train Swin_T", 2, "'swin_t' is a model, not a recipe: it is trained by 'swin-tiny'");
    expect("$S train resnext50", 2, "'resnext50_32x4d' is a model, for 'model=' of a recipe");
    expect("$S train cifar10", 2,
           "no shipped recipe 'cifar10'; there are cifar10-fast, cifar10-resnet, cifar10-speed (");
    expect("$S train $D/resnet50.yaml", 2,
           "/resnet50.yaml: no such recipe file; did you mean 'resnet50'?");
    expect("$S train resnet18 model=mobilenet_v3", 2,
           "; available are mobilenet_v3_large, mobilenet_v3_small, and others");
    expect("$S train resnet18 model=resnext50", 2, "did you mean 'resnext50_32x4d'?");
    expect("$S train --resume $D/none", 2, "none: not a run folder: it has no recipe.yaml");
    expect("$S train resnet18 --frsh", 2, "unrecognized option '--frsh'");
    expect("$S train resnet18 -n many", 2,
           "-n: expected a number of ranks from 1 to 65536, got 'many'");
    expect("$S train resnet18 -n 2 optimzier.lr=1", 2,
           "command line: error: unknown key 'optimzier'; did you mean 'optimizer'?\n"
           "  optimzier.lr=1\n"
           "  ^\n");
    expect(
        "$S train resnet18 -n 9", 2,
        "error: 9 ranks need at least 9 lanes, but lanes is 8; start fewer ranks, or raise lanes "
        "(changes BatchNorm and results)");
    expect("$S info models nothing", 2, "no name in the table 'models' contains 'nothing'");
    expect("$S info models vit 32", 2, "one table at a time, and one pattern");
    expect("$S info kernels conv", 2, "one table at a time");
    expect("$S info opps", 2, "no table 'opps'; did you mean 'ops'?");
    expect("$S recipe list resnet18", 2, "to see one: serried recipe show resnet18");
    expect("cd $D && $S render ''", 2, "argument 1 ('') is empty; is a variable unset?");
    expect("$S train resnet18 --resume= -n 1", 2, "argument 2 ('--resume=') is empty");
    expect("$S recipe shw", 2, "unknown subcommand 'shw'");
    expect("$S doctor now", 2, "doctor takes no arguments");
    expect("$S version now", 2, "version takes no arguments");
    expect("$S show / --columns 1e3", 2, "--columns: '1e3' is not a whole number from 1 to 200");
}

static void test_info_patterns(void **state) {
    (void)state;
    expect("$S info models vit_base | grep -v '^ ' | cut -d' ' -f1 | xargs", 0,
           "vit_base_patch8_224 vit_base_patch16_224 vit_base_patch32_224\n");
    expect("$S info models 'RESNET?0' | grep -v '^ ' | cut -d' ' -f1", 0, "resnet50\n");
    expect("$S info optimizers adam | grep -v '^ ' | cut -d' ' -f1 | xargs", 0, "adam adamw\n");
    expect("$S info options warmup | grep -v '^#' | cut -d: -f1 | xargs", 0,
           "ema.warmup schedule.warmup schedule.warmup_start\n");
    expect("$S info options --json bucket | grep -c key", 0, "1\n");
}

// Output that cannot be written is a failure, even if the command itself succeeded.
static void test_full_disk(void **state) {
    (void)state;
    expect("$S version > /dev/full", 1, "cannot write the results to stdout: No space left");
    expect("$S recipe list > /dev/full", 1, "cannot write the results to stdout: No space left");
    expect("$S recipe list --names | head -1", 0, "ade20k-segformer-mit-b0\n");
}

static void test_slurm(void **state) {
    (void)state;
    expect("SLURM_STEP_NUM_TASKS=4 $S train resnet18", 2, "srun --mpi=pmix serried train");
    expect("SLURM_NTASKS=4 $S train resnet18", 2, "srun --mpi=pmix serried train");
}

// Larger images are a cure only where the map is not pooled over the whole image.
static void test_small_lanes(void **state) {
    (void)state;
    expect("$S train tests/recipes/segment-portable.yaml batch=4 lanes=4 --dry-run", 2,
           "batch norm classifier.0.convs.4.2 has one value for each channel (batch 4 in 4 lanes: "
           "one sample of one pixel), so its output is constant and nothing is learned: give "
           "lanes=1 and a larger batch, or sync_bn=all\n  lanes=4\n");
    expect("$S train tests/recipes/segment-portable.yaml batch=1 lanes=1 --dry-run", 2,
           "nothing is learned: raise batch\n  lanes=1\n");
    expect("$S train resnet18 image=32 batch=8 lanes=8 --dry-run", 2,
           "nothing is learned: give lanes=1 and a larger batch, or sync_bn=all, or use larger "
           "images\n");
}

static void test_recipes(void **state) {
    (void)state;
    expect("$S recipe list", 0, "resnet50 ");
    expect("$S recipe list --names", 0, "\nresnet50\n");
    expect("SERRIED_CACHE=$D/cache $S recipe check $($S recipe list --names)", 0, "resnet50: ok\n");
    expect("ls $D/cache", 2, "No such file"); // no kernel was timed
    // As many classes as the loss has weights.
    expect("$S train camvid-deeplab chooser=off --dry-run", 0, "11 classes are assumed");
    expect("$S bench step camvid-deeplab --plan --gpu h100 -i 32 -b 4", 0, "deeplabv3");
    expect("cd / && $S recipe show resnet18 batch=128", 0, "# command line\n");
    expect("for r in $($S recipe list --names); do $S recipe show --plain $r > $D/$r.yaml && "
           "$S recipe check $D/$r.yaml && $S recipe show --plain $D/$r.yaml | cmp - $D/$r.yaml || "
           "exit 9; done",
           0, "toy-gan.yaml: ok\n");
    expect("printf 'model: resnet18\\nepochs: 1\\noptimizer: {lr: 1}\\nbacth: 2\\n' > $D/bad.yaml; "
           "$S recipe check resnet18 $D/bad.yaml",
           2, "bad.yaml:4:1: error: unknown key 'bacth'; did you mean 'batch'?\n  bacth: 2\n  ^\n");
    expect("$S recipe check resnet18 optimizer.lr=1", 2, "");
}

static void test_tables(void **state) {
    (void)state;
    expect("$S info options", 0, "data.workers: integer = 0");
    expect("$S info models", 0, "resnet50 ");
    expect("$S info transforms", 0, "pad_crop ");
    expect("for t in commands options models optimizers schedules transforms losses ops devices "
           "kernels; do "
           "$S info $t > $D/t && test -s $D/t || exit 9; done",
           0, "");
    expect("$S info model resnet18", 0, "  11689512 parameters, 11689512 trained, 0 frozen; ");
    expect("$S info model tests/recipes/tiny.yaml batch=8 lanes=1 --depth 0 --json | python3 -c "
           "'import json, sys\ntold = json.load(sys.stdin)\n"
           "print(told[\"input\"][\"shape\"], told[\"layers\"][0][\"name\"])'",
           0, "[8, 32, 32, 3] tiny\n");
    expect("$S info model resnet50 --recipe batch=16 lanes=2", 0,
           "input of a lane [8, 224, 224, 3]");
    expect("$S info model resnet5", 2, "no model 'resnet5' ('serried info models' lists them)");
    expect("$S info model", 2, "which model?");
    expect("$S info model deeplabv3 --depth 1", 0, "[1, 28, 28, 21] f32");
    expect("$S info model lraspp image=64 batch=2 --depth 1", 0, "[2, 8, 8, 21] f32");
    expect("$S info model resnet18 task=segment", 2, "model resnet18 gives logits [1, 21] f32");
    expect("$S info model toy-critic", 2, "no task trains model toy-critic alone with pictures");
    expect("$S info model toy-critic image=32 --depth 1", 0, "toy-critic ");
    expect("$S info program deeplabv3 | grep -c '@\"classifier.0.convs.4.2\"'", 0, "3\n");
    expect("$S train tests/recipes/tiny.yaml --dry-run", 0, "M multiply-adds of a lane, forward\n");
    expect("$S info models --depth 2", 2, "--depth is for model, not 'models'");
    expect("$S info program tests/recipes/tiny.yaml batch=8 lanes=1 > $D/a.program && "
           "$S info program $D/a.program | cmp - $D/a.program && tail -n 1 $D/a.program",
           0, "return %");
    expect("$S info program $D/a.program --dot", 0, "label=\"conv1 (gradient)\"");
    expect("$S info program toy-gan --phase G --dot", 0, "digraph program {\n");
    expect("$S info program toy-gan --phase X", 2, "the recipe has no phase 'X'");
    expect("sed 's/relu(/rleu(/' $D/a.program > $D/b.program; $S info program $D/b.program", 3,
           "unknown operator 'rleu'; did you mean 'relu'?");
    expect("$S info program", 2, "which model? serried info program NAME");
    expect("$S info models --dot", 2, "--dot, --phase and --inference are for program");
    expect("$S info program tiny --phase D --inference", 2, "exclude each other");
    expect("HOME=/home/x $S recipe show tests/recipes/tiny.yaml steps=/home/x", 2,
           "the shell expanded '~' to it");
    expect("$S recipe list --json | python3 -c 'import json, sys\n"
           "print([json.loads(line)[\"name\"] for line in sys.stdin][0])'",
           0, "ade20k-segformer-mit-b0\n");
    expect("for r in $($S recipe list --names); do $S recipe show --json $r | python3 -c 'import "
           "json, sys\n"
           "told = json.load(sys.stdin)\n"
           "print(told[\"batch\"] > 0, told[\"checkpoint\"][\"every\"])' || exit 9; done | sort -u",
           0, "True ['1ep', '10min']\n");
    expect("$S version", 0, "serried ");
    expect("$S --version", 0, "zstd ");
}

#define COMPLETE(words, index)                                                                     \
    "$S completion bash > $D/c; cat > $D/run <<'END'\nsource $1\ncompopt() { :; }\n"               \
    "COMP_WORDS=($2 " words ")\nCOMP_CWORD=" index "\n_serried\necho \"got: ${COMPREPLY[@]}\"\n"   \
    "END\nbash $D/run $D/c $S"

static void test_completion(void **state) {
    (void)state;
    expect(COMPLETE("tra", "1"), 0, "got: train\n");
    expect(COMPLETE("train cifar10-f", "2"), 0, "got: cifar10-fast\n");
    expect(COMPLETE("train resnet18 data.wor", "3"), 0, "got: data.workers=\n");
    expect(COMPLETE("train --dr", "2"), 0, "got: --dry-run\n");
    expect(COMPLETE("info ker", "2"), 0, "got: kernels\n");
    expect(COMPLETE("bench rec", "2"), 0, "got: recover\n");
    expect(COMPLETE("render dir --c", "3"), 0, "got: --count\n");
    expect(COMPLETE("recipe show cifar10-f", "3"), 0, "got: cifar10-fast\n");
    expect(COMPLETE("recipe show cifar10-fast data.wor", "4"), 0, "got: data.workers=\n");
    expect(COMPLETE("recipe list cifar10-f", "3"), 0, "got: \n");
    expect(COMPLETE("info model hrnet_w1", "3"), 0, "got: hrnet_w18\n");
    expect(COMPLETE("info program mobilenet-v3-l", "3"), 0, "got: mobilenet-v3-large\n");
    expect(COMPLETE("bench step cifar10-f", "3"), 0, "got: cifar10-fast\n");
    expect(COMPLETE("bench step resnet18 --peer-m", "4"), 0, "got: --peer-malloc --peer-mode\n");
    expect("$S completion csh", 2, "usage: serried completion bash|zsh|fish");
    // Every table and benchmark of the program is offered.
    expect("$S completion bash > $D/c; for t in $($S bench --help | sed -n 's/^  \\([a-z]*\\) "
           ".*/\\1/p') "
           "$($S info --help | grep -oE '(commands|options|models|optimizers|schedules|transforms|"
           "losses|ops|devices|kernels|chooser|plugins)' | sort -u); do grep -qw $t $D/c || echo "
           "missing $t; "
           "done; echo all",
           0, "all\n");
    assert_null(strstr(output, "missing"));
    expect("$S train -h | head -1; $S doctor -h | head -1", 0, "Usage: serried doctor");
}

// What the shell itself offers; the scripts ask the serried that is found first.
#define FISH(words)                                                                                \
    "PATH=$(dirname $S):$PATH fish --no-config -c 'source '$D'/f; complete -C \"serried " words    \
    "\"'"

#define ZSH(words, index, wanted)                                                                  \
    "PATH=$(dirname $S):$PATH zsh -fc 'compdef() { :; }; compadd() { print -l -- $@; }; _files() " \
    "{ "                                                                                           \
    "print FILES; }; source '$D'/z; words=(serried " words ") CURRENT=" index                      \
    "; _serried' | grep "                                                                          \
    "-xE '" wanted "' | sort -u"

static void test_completion_of_other_shells(void **state) {
    (void)state;
    // Names are queried from the program, not fixed in the scripts.
    expect("$S completion zsh > $D/z; $S completion fish > $D/f; cat $D/z $D/f | grep -c cifar10",
           1, "0\n");
    if (system("command -v zsh fish > /dev/null") != 0)
        test_skip("zsh or fish is not installed");
    expect("zsh -n $D/z && fish -n $D/f", 0, "");
    expect(ZSH("info model x", "4", "FILES|resnet50-a1|hrnet_w18"), 0,
           "FILES\nhrnet_w18\nresnet50-a1\n");
    expect(ZSH("bench step resnet18 x", "5", "batch=|resnet18"), 0, "batch=\n");
    expect(ZSH("recipe x", "3", "show|batch="), 0, "show\n");
    expect(FISH("info model hrnet_w1"), 0, "hrnet_w18\n");
    expect(FISH("bench step cifar10-f"), 0, "cifar10-fast\n");
    expect(FISH("recipe show resnet18 data.wor"), 0, "data.workers=\n");
    expect(FISH("info ker"), 0, "kernels\n");
    expect(FISH("tra"), 0, "train\ttrain a recipe");
}

static void test_pictures(void **state) {
    (void)state;
    expect("$S render $D/a --count 2", 0, "20 pictures of 10 classes");
    expect("$S render $D/b --count 2 && diff -r $D/a $D/b && ls $D/a/*/*.jpg | wc -l", 0, "20\n");
    expect("$S render", 2, "DST is needed");
    expect("$S render /proc/none", 2, "/proc/none");
}

// A data set and a run of three steps in $D, with a class whose name needs quotes in CSV.
static void make_run(void) {
    expect("cd $D && $S render pictures --count 8 && mv pictures/star 'pictures/s, \"t\"' && "
           "$S pack pictures data --val-fraction 0.2",
           0, "10 classes");
    expect("$S train tests/recipes/tiny.yaml data.train=$D/data -o $D/trained steps=3 "
           "data.processes=0",
           0, "finished 3 steps");
    // each step of a short run has a row
    expect("cut -d, -f1 $D/trained/metrics.csv | tr '\\n' ' '", 0, "step 1 2 3 ");
}

static void test_subjects(void **state) {
    (void)state;
    make_run();
    expect("$S verify $D/none $D/data $D/trained", 2, "none: no such file or folder");
    assert_non_null(strstr(output, "data: intact: 2 shards"));
    assert_non_null(strstr(output, "model.safetensors"));
    expect("mkdir $D/all && mv $D/trained $D/all && $S verify $D/all && mv $D/all/trained $D", 0,
           "all/trained/checkpoints/00000001: generation 1");
    expect("mkdir $D/none-there && $S verify $D/none-there", 2, "is not a shard, data set");
    expect("$S stat --json $D/trained | python3 -c 'import json, sys\n"
           "told = json.load(sys.stdin)\n"
           "print(told[\"kind\"], told[\"step\"], len(told[\"classes\"]), "
           "told[\"weights\"][0][\"file\"])'",
           0, "checkpoint 3 10 model.safetensors\n");
    expect("$S val $D/data", 2, "data is neither a run folder nor a checkpoint");
    expect("cd $D && $S predict trained none.jpg pictures/ring/0001.jpg", 3,
           "1 of 2 pictures could not be read and were skipped");
    assert_non_null(strstr(output, "\npictures/ring/0001.jpg,"));
    expect("cd $D && $S predict trained pictures/*/0001.jpg 2> log | python3 -c 'import csv, sys\n"
           "rows = list(csv.reader(sys.stdin))\n"
           "print(len(rows), {len(row) for row in rows}, rows[-1][3].count(\":\"))'",
           0, "11 {4} 5\n");
    expect("cd $D && $S predict trained pictures --top 2 | head -3", 0,
           "file,class,probability,top2\npictures/");
    expect("cd $D && $S predict trained pictures | wc -l", 0, "81\n");
    expect("cd $D && ls pictures/*/0001.jpg | $S predict trained - | wc -l", 0, "11\n");
    expect(
        "cd $D && $S predict --json trained pictures/ring/0001.jpg | python3 -c 'import json, sys\n"
        "row = json.load(sys.stdin)\n"
        "print(row[\"file\"], len(row[\"top\"]), row[\"top\"][0][\"class\"] == row[\"class\"])'",
        0, "pictures/ring/0001.jpg 5 True\n");
    expect("$S predict $D/trained $D/data", 2, "no pictures in this folder");
    expect("$S predict runs/none x.jpg eval.flip=true", 2,
           "eval.flip=true: key=value goes before the first picture");
    expect("$S predict runs/none x.jpg", 2, "'runs/none' is not a run folder, a checkpoint or a");
    expect("cd $D && mkdir early && cp trained/identity trained/recipe.yaml early && $S val early",
           2, "early: no finished checkpoint yet");
    expect("$S predict $D/trained/last/model.safetensors $D/pictures", 2, "has weights only");
    expect("$S predict model.pth $D/pictures", 2, "serried-convert model.pth FILE.safetensors");
}

#define SHOW_IN(locale)                                                                            \
    "LC_ALL=" locale " script -qec \"stty cols 30; $S show $D/data -n 4 -o $D/show.png\" "         \
    "/dev/null"

// Half-block characters are only for terminals that read UTF-8.
// Pictures a and b with masks of 4 pixels: 0 0 1 2 and 0 1 1 9.
static void make_masked(void) {
    expect("python3 -c \"\n"
           "import os, struct, sys, zlib\n"
           "def chunk(kind, data):\n"
           "    return struct.pack('>I', len(data)) + kind + data + "
           "struct.pack('>I', zlib.crc32(kind + data))\n"
           "for kind, rows in (('images', ('\\1\\2\\3\\4',) * 2), "
           "('masks', ('\\0\\0\\1\\2', '\\0\\1\\1\\x09'))):\n"
           "    os.makedirs(f'{sys.argv[1]}/{kind}')\n"
           "    for name, row in zip('ab', rows):\n"
           "        with open(f'{sys.argv[1]}/{kind}/{name}.png', 'wb') as file:\n"
           "            file.write(b'\\x89PNG\\r\\n\\x1a\\n' + "
           "chunk(b'IHDR', struct.pack('>IIBBBBB', 4, 1, 8, 0, 0, 0, 0)) + "
           "chunk(b'IDAT', zlib.compress(b'\\0' + row.encode())) + chunk(b'IEND', b''))\n"
           "\" $D/scenes",
           0, "");
}

static void test_masks(void **state) {
    (void)state;
    make_masked();
    expect("printf '0 road\\n1 sky\\n2 void\\n' > $D/map.txt; "
           "$S pack $D/scenes $D/scenes-map --class-map $D/map.txt",
           3, "1 train; 2 classes");
    expect("cat $D/scenes-map/refused.csv", 0,
           "images/b.png,\"mask masks/b.png: pixel (3, 0) has the value 9, which is not in the "
           "class map\"");
    expect("$S pack $D/scenes $D/no-map --class-map none", 2, "none: no such class map");
    expect("$S pack $D/scenes $D/scenes-ids --void 9", 0, "2 train; 3 classes");
    expect("$S stat $D/scenes-ids", 0,
           "  8 pixels, 12.50% ignored; of each class: share of the pixels, pictures with it, "
           "weight\n");
    assert_non_null(strstr(output, "     0 0                          37.50%        2     1.00 "));
    expect("$S stat --json $D/scenes-ids | python3 -c 'import json, sys\n"
           "split = json.load(sys.stdin)[\"splits\"][0]\n"
           "print(split[\"pixels\"], split[\"ignored\"])\n"
           "for c in split[\"classes\"]:\n"
           "    print(c[\"name\"], c[\"pixels\"], c[\"pictures\"], c[\"share\"], "
           "round(c[\"weight\"], 3))'",
           0, "8 1\n0 3 2 0.375 1\n1 3 2 0.375 1\n2 1 1 0.125 1.714\n");
    expect("$S show $D/scenes-ids -o $D/scenes.png && wc -c < $D/scenes.png", 0, "scenes.png\n");
}

static void test_show(void **state) {
    (void)state;
    expect(SHOW_IN("C.UTF-8"), 0, "\xe2\x96\x80\x1b[0m\r\n");
    expect(SHOW_IN("C"), 0, "show.png\r\n");
    assert_null(strstr(output, "\x1b["));
}

static void test_quickstart(void **state) {
    (void)state;
    expect("launcher/quickstart --help", 0, "--no-install");
    expect("launcher/quickstart --wrong", 2, "unknown argument '--wrong'");
    expect("launcher/quickstart --data /none", 2, "'/none' does not exist");
    expect("launcher/quickstart --minutes soon", 2, "expected a whole number, got 'soon'");
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_help),          cmocka_unit_test(test_mistakes),
        cmocka_unit_test(test_slurm),         cmocka_unit_test(test_small_lanes),
        cmocka_unit_test(test_recipes),       cmocka_unit_test(test_tables),
        cmocka_unit_test(test_completion),    cmocka_unit_test(test_completion_of_other_shells),
        cmocka_unit_test(test_pictures),      cmocka_unit_test(test_quickstart),
        cmocka_unit_test(test_info_patterns), cmocka_unit_test(test_full_disk),
        cmocka_unit_test(test_subjects),      cmocka_unit_test(test_masks),
        cmocka_unit_test(test_show),
    };
    if (argc != 2) {
        fprintf(stderr, "usage: test_command SERRIED\n");
        return 2;
    }
    program = argv[1];
    return cmocka_run_group_tests(tests, enter, leave);
}

/* SPDX-License-Identifier: Apache-2.0 */
/* The flow example's command line. */
#include "ranks.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

struct settings {
    struct lbm_options run;
    const char *out, *dump, *compare, *label;
    float relative, absolute;
};

void
lbm_fail(const char *message, const char *detail)
{
    fprintf(stderr, "lbm: %s%s\n", message, detail);
    exit(EXIT_FAILURE);
}

static const char usage[] =
    "Usage: lbm [OPTION]...\n"
    "Computes the flow around a cylinder on all devices of an OpenCL platform.\n\n"
    "  --platform NAME|INDEX  part of the platform's name, or its number (0)\n"
    "  --devices N            use the first N devices only\n"
    "  --steps N              time steps (10000)\n"
    "  --size WxH             cells (640x192)\n"
    "  --out FILE.png         write a picture of the vorticity\n"
    "  --dump FILE            write the velocities\n"
    "  --compare FILE         compare with velocities written before; exit status 1\n"
    "                         if |a - b| > atol + rtol * |b| anywhere\n"
    "  --rtol X, --atol X     tolerances (1e-3, 1e-5); 0 and 0: bit for bit\n"
    "  --json                 print one JSON object, with the part of the time in "
    "which the\n"
    "                         devices ran kernels\n"
    "  --label TEXT           the object's name of this run\n"
    "  --help                 this text\n";

static int
whole_number(const char *text, int least, int most)
{
    char *end;
    const long value = strtol(text, &end, 10);

    if (end == text || *end != '\0' || value < least || value > most) {
        lbm_fail("bad number: ", text);
    }
    return (int)value;
}

static float
positive_number(const char *text)
{
    char *end;
    const float value = strtof(text, &end);

    if (end == text || *end != '\0' || !(value >= 0)) {
        lbm_fail("bad number: ", text);
    }
    return value;
}

static void
set_size(struct lbm_flow *flow, const char *text)
{
    char rest;

    if (sscanf(text, "%dx%d%c", &flow->width, &flow->height, &rest) != 2 ||
        flow->width < 16 || flow->width > 8192 || flow->height < 16 ||
        flow->height > 8192) {
        lbm_fail("bad size (16x16 to 8192x8192): ", text);
    }
}

static void
place_cylinder(struct lbm_flow *flow)
{
    const float height = (float)flow->height;

    flow->speed = 0.12f;
    flow->radius = height / 20;
    flow->centre_x = height * 0.35f;
    flow->centre_y = height * 0.5f + 1.25f; /* off the middle: the wake starts early */
}

static void
set_option(struct settings *s, int option, const char *value)
{
    switch (option) {
    case 'p':
        s->run.platform = value;
        break;
    case 'd':
        s->run.devices = whole_number(value, 1, LBM_MAX_DEVICES);
        break;
    case 's':
        s->run.steps = whole_number(value, 1, 100000000);
        break;
    case 'S':
        set_size(&s->run.flow, value);
        break;
    case 'o':
        s->out = value;
        break;
    case 'D':
        s->dump = value;
        break;
    case 'c':
        s->compare = value;
        break;
    case 'r':
        s->relative = positive_number(value);
        break;
    case 'a':
        s->absolute = positive_number(value);
        break;
    case 'j':
        s->run.profile = true;
        break;
    case 'l':
        s->label = value;
        break;
    case 'h':
        fputs(usage, stdout);
        exit(EXIT_SUCCESS);
    default:
        fputs("Try 'lbm --help'.\n", stderr);
        exit(EXIT_FAILURE);
    }
}

static void
parse_options(struct settings *s, int argc, char **argv)
{
    static const struct option names[] = {
        {"platform", required_argument, NULL, 'p'},
        {"devices", required_argument, NULL, 'd'},
        {"steps", required_argument, NULL, 's'},
        {"size", required_argument, NULL, 'S'},
        {"out", required_argument, NULL, 'o'},
        {"dump", required_argument, NULL, 'D'},
        {"compare", required_argument, NULL, 'c'},
        {"rtol", required_argument, NULL, 'r'},
        {"atol", required_argument, NULL, 'a'},
        {"json", no_argument, NULL, 'j'},
        {"label", required_argument, NULL, 'l'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    int option;

    while ((option = getopt_long(argc, argv, "h", names, NULL)) != -1) {
        set_option(s, option, optarg);
    }
    if (optind < argc) {
        lbm_fail("unexpected argument: ", argv[optind]);
    }
    place_cylinder(&s->run.flow);
}

static bool
compare_and_save(const struct settings *s, const struct lbm_field *field)
{
    bool good = true;

    if (s->out != NULL) {
        good = lbm_picture_save(field, &s->run.flow, s->out);
    }
    if (s->dump != NULL) {
        good = lbm_field_save(field, s->dump) && good;
    }
    if (s->compare != NULL) {
        good = lbm_field_compare(field, s->compare, s->relative, s->absolute) && good;
    }
    return good;
}

static void
show_figures(const struct settings *s, const struct lbm_figures *f)
{
    const struct lbm_flow *flow = &s->run.flow;

    printf("%d steps of %d x %d cells on %d device%s: %.2f s, %.1f MLUPS\n",
           s->run.steps, flow->width, flow->height, f->devices,
           f->devices == 1 ? "" : "s", f->seconds, f->mlups);
}

static void
print_row(const struct settings *s, const struct lbm_figures *f, bool good)
{
    printf("{\"example\": \"lbm\", \"label\": \"%s\", \"devices\": %d, \"width\": %d, "
           "\"height\": %d, \"steps\": %d, "
           "\"mlups\": %.2f, \"utilisation\": %.3f, \"right\": %s}\n",
           s->label, f->devices, s->run.flow.width, s->run.flow.height, s->run.steps,
           f->mlups, f->utilisation, good ? "true" : "false");
}

int
main(int argc, char **argv)
{
    const struct lbm_ranks ranks = lbm_ranks_start(&argc, &argv);
    struct settings s = {
        .run = {.flow = {.width = 640, .height = 192, .reynolds = 160.0f},
                .platform = "0",
                .steps = 10000,
                .rank = ranks.rank,
                .ranks = ranks.count},
        .relative = 1e-3f,
        .absolute = 1e-5f,
        .label = "",
    };
    struct lbm_figures figures;
    struct lbm_field field;
    bool good = true;

    setvbuf(stdout, NULL, _IOLBF, 0); /* in order with the progress, also into a pipe */
    parse_options(&s, argc, argv);
    field = lbm_run(&s.run, &figures);
    if (ranks.rank == 0) {
        if (!s.run.profile) {
            show_figures(&s, &figures);
        }
        good = compare_and_save(&s, &field);
        if (s.run.profile) {
            print_row(&s, &figures, good);
        }
    }
    free(field.u);
    lbm_ranks_stop();
    return good ? EXIT_SUCCESS : EXIT_FAILURE;
}

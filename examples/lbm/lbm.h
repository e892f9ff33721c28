/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the parts of the flow example: the flow (lbm.c), use of its result (field.c:
 * files, comparison, picture), and the command line (main.c). */
#ifndef LBM_H
#define LBM_H

#include <stdbool.h>
#include <stddef.h>

enum { LBM_MAX_DEVICES = 64 };

/** The channel and the cylinder in it; lengths in cells, velocities in cells a step. */
struct lbm_flow {
    int width;
    int height;
    float speed; /**< of the undisturbed stream, along x */
    float centre_x; /**< of the cylinder */
    float centre_y;
    float radius;
    float reynolds; /**< speed * diameter / viscosity */
};

/** Velocities: u[2 * (x * height + y)] along x, the next float along y. */
struct lbm_field {
    int width;
    int height;
    float *u;
};

/** The flow and the devices that run it. */
struct lbm_options {
    struct lbm_flow flow;
    const char *platform; /**< its index, or a part of its name */
    int steps;
    int devices; /**< the first so many of the platform; 0: all */
    bool profile; /**< have the devices measure */
    int rank, ranks; /**< processes that share the channel (ranks.h) */
};

/** Prints both to stderr and ends the program. */
_Noreturn void lbm_fail(const char *message, const char *detail);

/** Duration of a run; the mean of all devices. */
struct lbm_figures {
    int devices;
    double seconds;
    double mlups; /**< million updates of a cell in a second */
    double utilisation; /**< part of the time in which a device runs a kernel */
};

/** Runs the flow and gives its last velocities (free field.u). Any error ends the
 * program, having said why. */
struct lbm_field lbm_run(const struct lbm_options *options,
                         struct lbm_figures *ret_figures);

/** Is cell (x, y) inside the cylinder? */
static inline bool
lbm_is_solid(const struct lbm_flow *flow, int x, int y)
{
    const float dx = (float)x - flow->centre_x;
    const float dy = (float)y - flow->centre_y;

    return dx * dx + dy * dy < flow->radius * flow->radius;
}

/** Writes @p field to @p path. Returns false, having said why, if that failed. */
bool lbm_field_save(const struct lbm_field *field, const char *path);

/** Compares with the file @p path, prints the largest difference, and tells whether
 * |a - b| <= absolute + relative * |b| holds everywhere. */
bool lbm_field_compare(const struct lbm_field *field, const char *path, float relative,
                       float absolute);

/** Writes the vorticity as PNG, each cell two pixels wide. */
bool lbm_picture_save(const struct lbm_field *field, const struct lbm_flow *flow,
                      const char *path);

#endif

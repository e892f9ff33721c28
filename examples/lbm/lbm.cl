/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lattice-Boltzmann (D2Q9, BGK) for one strip of the domain.
 *
 * A strip has `width` columns of `pitch` cells. Cell (x, y) of direction q lies at
 * q * width * pitch + x * pitch + y, so that neighbouring work items (y) read
 * neighbouring floats. Rows 0 and pitch - 1 hold the undisturbed stream: they are
 * read, never written. Every step *pulls*: the new state of a cell is collected from
 * its neighbours' old state, and then relaxed towards equilibrium.
 *
 * Directions are ordered so that those that cross a strip's border lie together:
 *     8 2 5        q = 0 rests, 1 2 3 4 = right, up, left, down; 5 6 7 8 = diagonals:
 *     3 0 1            see CX and CY; RIGHT and LEFT name the three that cross.
 *     7 4 6
 * A bit q of `walls` says that the cell which direction q comes from is solid: then the
 * cell gets its own population of the opposite direction back (half-way bounce-back).
 */
#pragma OPENCL FP_CONTRACT OFF /* the same bits whatever the work-group size */

__constant int RIGHT[3] = {1, 5, 6}; /* CX = +1 */
__constant int LEFT[3] = {3, 8, 7};  /* CX = -1 */

/* Relaxes the nine populations p towards equilibrium and stores them at out[at]. */
static void
collide_and_store(float p[9], float omega, __global float *out, int plane, int at)
{
    const float rho = p[0] + p[1] + p[2] + p[3] + p[4] + p[5] + p[6] + p[7] + p[8];
    const float ux = (p[1] + p[5] + p[6] - p[3] - p[7] - p[8]) / rho;
    const float uy = (p[2] + p[5] + p[8] - p[4] - p[6] - p[7]) / rho;
    const float base = 1.0f - 1.5f * (ux * ux + uy * uy);
    const float straight = omega * rho * (1.0f / 9.0f);
    const float diagonal = omega * rho * (1.0f / 36.0f);
    const float keep = 1.0f - omega;
    const float d1 = ux + uy;
    const float d2 = ux - uy;

    out[at] = keep * p[0] + omega * rho * (4.0f / 9.0f) * base;
    out[at + plane] = keep * p[1] + straight * (base + 3.0f * ux + 4.5f * ux * ux);
    out[at + 2 * plane] = keep * p[2] + straight * (base + 3.0f * uy + 4.5f * uy * uy);
    out[at + 3 * plane] = keep * p[3] + straight * (base - 3.0f * ux + 4.5f * ux * ux);
    out[at + 4 * plane] = keep * p[4] + straight * (base - 3.0f * uy + 4.5f * uy * uy);
    out[at + 5 * plane] = keep * p[5] + diagonal * (base + 3.0f * d1 + 4.5f * d1 * d1);
    out[at + 6 * plane] = keep * p[6] + diagonal * (base + 3.0f * d2 + 4.5f * d2 * d2);
    out[at + 7 * plane] = keep * p[7] + diagonal * (base - 3.0f * d1 + 4.5f * d1 * d1);
    out[at + 8 * plane] = keep * p[8] + diagonal * (base - 3.0f * d2 + 4.5f * d2 * d2);
}

/* Columns 1 .. width - 2: needs nothing from the neighbours, so it runs while the
 * borders travel. Global size (height, width - 2), global offset (1, 1). */
__kernel void
step_inner(__global const float *in, __global float *out, __global const ushort *walls,
           int width, int pitch, float omega)
{
    const int at = (int)get_global_id(1) * pitch + (int)get_global_id(0);
    const int n = width * pitch;
    const int wall = walls[at];
    float p[9];

    p[0] = in[at];
    p[1] = wall & 2 ? in[at + 3 * n] : in[at + n - pitch];
    p[2] = wall & 4 ? in[at + 4 * n] : in[at + 2 * n - 1];
    p[3] = wall & 8 ? in[at + n] : in[at + 3 * n + pitch];
    p[4] = wall & 16 ? in[at + 2 * n] : in[at + 4 * n + 1];
    p[5] = wall & 32 ? in[at + 7 * n] : in[at + 5 * n - pitch - 1];
    p[6] = wall & 64 ? in[at + 8 * n] : in[at + 6 * n - pitch + 1];
    p[7] = wall & 128 ? in[at + 5 * n] : in[at + 7 * n + pitch + 1];
    p[8] = wall & 256 ? in[at + 6 * n] : in[at + 8 * n + pitch - 1];
    collide_and_store(p, omega, out, n, at);
}

/* The first and the last column. Populations that enter the strip are read from two
 * halos (three directions of `pitch` cells each), and those that leave are written to
 * two others. With `outlet` the last column is the end of the channel: nothing changes
 * beyond it (zero gradient). Global size (height, 2), global offset (1, 0). */
__kernel void
step_edges(__global const float *in, __global float *out, __global const ushort *walls,
           int width, int pitch, float omega, __global const float *from_left,
           __global const float *from_right, __global float *to_left,
           __global float *to_right, int outlet)
{
    const int CX[9] = {0, 1, 0, -1, 0, 1, 1, -1, -1};
    const int CY[9] = {0, 0, 1, 0, -1, 1, -1, -1, 1};
    const int OPPOSITE[9] = {0, 3, 4, 1, 2, 7, 8, 5, 6};
    const int HALO[9] = {0, 0, 0, 0, 0, 1, 2, 2, 1}; /* where q lies in a halo */
    const int y = (int)get_global_id(0);
    const int x = get_global_id(1) == 0 ? 0 : width - 1;
    const int n = width * pitch;
    const int at = x * pitch + y;
    const int wall = walls[at];
    float p[9];

    for (int q = 0; q < 9; q++) {
        const int from = x - CX[q];
        const int row = y - CY[q];

        if (wall & (1 << q)) {
            p[q] = in[OPPOSITE[q] * n + at];
        } else if (from < 0) {
            p[q] = from_left[HALO[q] * pitch + row];
        } else if (from < width) {
            p[q] = in[q * n + from * pitch + row];
        } else {
            p[q] = outlet ? in[q * n + x * pitch + row]
                          : from_right[HALO[q] * pitch + row];
        }
    }
    collide_and_store(p, omega, out, n, at);
    for (int k = 0; k < 3; k++) {
        if (x == 0) {
            to_left[k * pitch + y] = out[LEFT[k] * n + at];
        } else {
            to_right[k * pitch + y] = out[RIGHT[k] * n + at];
        }
    }
}

/* Velocity of every cell, for the picture. Global size (height, width), offset (1, 0). */
__kernel void
velocity(__global const float *f, __global float2 *u, int width, int pitch,
         __global const ushort *walls)
{
    const int y = (int)get_global_id(0);
    const int x = (int)get_global_id(1);
    const int n = width * pitch;
    float p[9];
    float rho = 0.0f;

    for (int q = 0; q < 9; q++) {
        p[q] = f[q * n + x * pitch + y];
        rho += p[q];
    }
    if (walls[x * pitch + y] == 0x1fe) {
        rho = INFINITY; /* solid: no velocity */
    }
    u[x * (pitch - 2) + y - 1] =
        (float2)((p[1] + p[5] + p[6] - p[3] - p[7] - p[8]) / rho,
                 (p[2] + p[5] + p[8] - p[4] - p[6] - p[7]) / rho);
}

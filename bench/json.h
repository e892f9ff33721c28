/* SPDX-License-Identifier: Apache-2.0 */
/* Writes JSON, one call a value; commas and indentation take care of themselves. */
#ifndef BENCH_JSON_H
#define BENCH_JSON_H

#include <stdbool.h>
#include <stdio.h>

struct bench_json {
    FILE *file; /**< borrowed */
    int depth; /**< of open objects and arrays */
    bool filled; /**< does the innermost one have a member? */
    int flat; /**< depth from which on all stays on one line; 0: none */
};

/** In an object every value has a key; in an array, key is NULL. */
void bench_json_open(struct bench_json *json, const char *key, char bracket);
/** As bench_json_open(), but with all its members on one line. */
void bench_json_open_flat(struct bench_json *json, const char *key, char bracket);
void bench_json_close(struct bench_json *json, char bracket);
void bench_json_text(struct bench_json *json, const char *key, const char *value);
void bench_json_number(struct bench_json *json, const char *key, double value);
void bench_json_bool(struct bench_json *json, const char *key, bool value);

#endif

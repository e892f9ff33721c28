/* SPDX-License-Identifier: Apache-2.0 */
/* Refuses build options by which a compiler would write, load or, without a guard, read files
 * of this machine. */
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/text/text.h"
#include "daemon/executor/program/build.h"

static bool
begins_with(const char *word, const char *const *begins, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strncmp(word, begins[i], strlen(begins[i])) == 0) {
            return true;
        }
    }
    return false;
}

/* True for options by which compilers write or load files. */
static bool
writes_files(const char *word)
{
    static const char *const begins[] = {"-F", "-B", "-L",       "-X",
                                         "-o", "-M", "-load",    "-fplugin",
                                         "@",  "--", "-fmodule", "-save-temps"};

    return begins_with(word, begins, TP_ARRAY_LEN(begins));
}

/* True for options by which compilers read files, which a guarded build may do. */
static bool
reads_files(const char *word)
{
    static const char *const begins[] = {"-I", "-i"};

    return begins_with(word, begins, TP_ARRAY_LEN(begins));
}

static bool
names_files(const char *options, bool guarded, bool quoted, char *word)
{
    bool value = false; /* of a -D that stands alone */

    for (const char *at = tp_text_option(options, quoted, word);
         *at != '\0' || *word != '\0'; at = tp_text_option(at, quoted, word)) {
        bool defines = strncmp(word, "-D", 2) == 0 || strncmp(word, "-U", 2) == 0;

        if (writes_files(word) || (!guarded && reads_files(word)) ||
            (!guarded && quoted && !value && !defines &&
             strpbrk(word, "/\\") != NULL)) {
            return true;
        }
        value = defines && word[2] == '\0';
    }
    return false;
}

bool
tp_exec_options_refused(const char *options, bool guarded)
{
    char *word = tp_malloc(strlen(options) + 1, "build options");
    bool bad = word == NULL || names_files(options, guarded, true, word) ||
               names_files(options, guarded, false, word);

    tp_free(word);
    return bad;
}

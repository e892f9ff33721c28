/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the folders and files that build options name, and all files of these folders. */
#include <dirent.h>
#include <string.h>

#include "base/alloc.h"
#include "base/compiler.h"
#include "base/text/include.h"
#include "base/text/text.h"
#include "icd/program/include_int.h"

enum { DEPTH_MAX = 32 }; /* of folders, against links that lead back */

static void
add_folder(struct tp_icd_includes *s, const char *name)
{
    char **more = tp_realloc_array(s->folders, s->folder_count + 1, sizeof(more[0]),
                                   "include folders");
    char *folder = tp_strdup(name, "include folders");

    s->folders = more != NULL ? more : s->folders;
    if (more == NULL || folder == NULL) {
        tp_free(folder);
        s->failed = true;
        return;
    }
    tp_include_clean(folder);
    s->folders[s->folder_count++] = folder;
    if (*folder != '\0') {
        (void)tp_icd_includes_look(s, folder);
    }
}

/** @return the value of an option that names a folder or file, NULL: another option */
static const char *
value_of(const char *word, bool *ret_folder)
{
    static const struct {
        const char *name;
        bool folder;
    } options[] = {{"-isystem", true}, {"-iquote", true},   {"-idirafter", true},
                   {"-I", true},       {"-include", false}, {"-imacros", false}};

    for (size_t i = 0; i < TP_ARRAY_LEN(options); i++) {
        size_t len = strlen(options[i].name);

        if (strncmp(word, options[i].name, len) == 0) {
            *ret_folder = options[i].folder;
            return word + len;
        }
    }
    return NULL;
}

static void
take_options(struct tp_icd_includes *s, char *word)
{
    const char *at = tp_text_option(s->options, true, word);

    while (*word != '\0' && !s->failed) {
        bool folder;
        const char *value = value_of(word, &folder);

        if (value != NULL && *value == '\0') {
            at = tp_text_option(at, true, word);
            value = word;
        }
        if (value != NULL && *value != '\0') {
            if (folder) {
                add_folder(s, value);
            } else {
                (void)tp_icd_includes_look(s, value);
            }
        }
        at = tp_text_option(at, true, word);
    }
}

void
tp_icd_includes_options(struct tp_icd_includes *s)
{
    char *word = tp_malloc(strlen(s->options) + 1, "build options");

    s->failed = s->failed || word == NULL;
    if (word != NULL) {
        take_options(s, word);
        tp_free(word);
    }
    s->option_folders = s->folder_count;
    add_folder(s, "include"); /* PoCL's default */
}

/* Names of the files and folders in a folder. */
static void
look_into(struct tp_icd_includes *s, const char *folder, int depth)
{
    DIR *dir = opendir(folder);
    struct dirent *e;

    while (dir != NULL && !s->failed && !s->full && (e = readdir(dir)) != NULL) {
        const struct tp_icd_named *n = NULL;
        char *name;

        if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) {
            continue;
        }
        name = tp_asprintf("includes", "%s/%s", folder, e->d_name);
        s->failed = name == NULL;
        if (name != NULL) {
            tp_include_clean(name);
            n = tp_icd_includes_look(s, name);
        }
        if (n != NULL && n->kind == TP_WIRE_FILE_FOLDER && depth < DEPTH_MAX) {
            look_into(s, name, depth + 1);
        }
        tp_free(name);
    }
    if (dir != NULL) {
        (void)closedir(dir);
    }
}

void
tp_icd_includes_folders(struct tp_icd_includes *s)
{
    for (size_t i = 0; i < s->option_folders; i++) {
        look_into(s, *s->folders[i] == '\0' ? "." : s->folders[i], 0);
    }
}

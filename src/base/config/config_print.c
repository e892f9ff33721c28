/* SPDX-License-Identifier: Apache-2.0 */
/* Settings for people: as a list with values, and as the text of docs/config.md. */
#include <string.h>

#include "base/compiler.h"
#include "base/config/config_int.h"

static size_t
widest_name(const struct tp_config *config)
{
    size_t widest = 0;

    for (size_t i = 0; i < config->setting_count; i++) {
        widest = TP_MAX(widest, strlen(config->settings[i].entry->name));
    }
    return widest;
}

void
tp_config_print(const struct tp_config *config, FILE *out)
{
    int width = (int)widest_name(config);

    for (size_t i = 0; i < config->setting_count; i++) {
        const struct tp_config_setting *setting = &config->settings[i];

        fprintf(out, "TELPHER_%-*s = %-16s  (%s)  %s\n", width, setting->entry->name,
                setting->text[0] != '\0' ? setting->text : "\"\"", setting->origin,
                setting->entry->help);
    }
}

/* A cell of a Markdown table must not contain a bar. */
static void
print_cell(FILE *out, const char *text)
{
    for (; *text != '\0'; text++) {
        fputs(*text == '|' ? "\\" : "", out);
        putc(*text, out);
    }
}

static void
print_type(FILE *out, const struct tp_config_entry *entry)
{
    if (entry->choices == NULL) {
        fputs(entry->parser->type, out);
        return;
    }
    for (int i = 0; entry->choices[i] != NULL; i++) {
        fprintf(out, "%s`%s`", i > 0 ? ", " : "", entry->choices[i]);
    }
}

static void
print_row(FILE *out, const struct tp_config_entry *entry)
{
    fprintf(out, "| `TELPHER_%s` | ", entry->name);
    print_type(out, entry);
    fprintf(out, " | `%s` | ",
            entry->default_text[0] != '\0' ? entry->default_text : "\"\"");
    print_cell(out, entry->help);
    fputs(" |\n", out);
}

void
tp_config_print_markdown(const struct tp_config *config, FILE *out)
{
    for (size_t i = 0; i < config->room_count; i++) {
        const struct tp_config_room *room = &config->rooms[i];

        fprintf(out, "%s## %s\n\n", i > 0 ? "\n" : "", room->name);
        fputs("| Variable | Type | Default | Meaning |\n|---|---|---|---|\n", out);
        for (size_t j = 0; j < room->entry_count; j++) {
            print_row(out, &room->entries[j]);
        }
    }
}

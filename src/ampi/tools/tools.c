/* SPDX-License-Identifier: Apache-2.0 */
/* Start and end of the tools interface, enumerations, categories. */
#include "ampi/tools/tools.h"

#include <string.h>

#include "ampi/process.h"

/* The calls may come before MPI_Init() and after MPI_Finalize(), from any thread. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned started;

int
tp_ampi_tools_check(void)
{
    unsigned now;

    (void)pthread_mutex_lock(&lock);
    now = started;
    (void)pthread_mutex_unlock(&lock);
    return now != 0 ? MPI_SUCCESS : MPI_T_ERR_NOT_INITIALIZED;
}

/* Sessions and handles have no locks: threads take turns. */
int
PMPI_T_init_thread(int required, int *provided)
{
    bool loaded;

    (void)pthread_mutex_lock(&lock);
    loaded = tp_ampi_settings_load(&tp_ampi.settings);
    started += loaded;
    (void)pthread_mutex_unlock(&lock);
    tp_ampi_tools_give(provided, TP_MIN(required, MPI_THREAD_SERIALIZED));
    return loaded ? MPI_SUCCESS : MPI_T_ERR_CANNOT_INIT;
}
TP_MPI_NAME(T_init_thread);

int
PMPI_T_finalize(void)
{
    bool was_started;

    (void)pthread_mutex_lock(&lock);
    was_started = started != 0;
    started -= was_started;
    (void)pthread_mutex_unlock(&lock);
    return was_started ? MPI_SUCCESS : MPI_T_ERR_NOT_INITIALIZED;
}
TP_MPI_NAME(T_finalize);

void
tp_ampi_tools_text(const char *text, char *to, int *length)
{
    int needed = (int)strlen(text) + 1;

    if (length == NULL) {
        return;
    }
    if (to != NULL && *length > 0) {
        int part = TP_MIN(needed, *length);

        memcpy(to, text, (size_t)part);
        to[part - 1] = '\0';
    }
    *length = needed;
}

/* ---- enumerations ---- */

struct telpher_mpi_t_enum {
    const char *name;
    int count;
    const char *const *items;
};

MPI_T_enum
tp_ampi_tools_switch(void)
{
    static const char *const items[] = {"no", "yes"};
    static struct telpher_mpi_t_enum yes_no = {"switch", 2, items};

    return &yes_no;
}

int
PMPI_T_enum_get_info(MPI_T_enum enumtype, int *count, char *name, int *name_length)
{
    int error = tp_ampi_tools_check();

    if (error != MPI_SUCCESS) {
        return error;
    }
    if (enumtype == MPI_T_ENUM_NULL) {
        return MPI_T_ERR_INVALID_HANDLE;
    }
    tp_ampi_tools_give(count, enumtype->count);
    tp_ampi_tools_text(enumtype->name, name, name_length);
    return MPI_SUCCESS;
}
TP_MPI_NAME(T_enum_get_info);

int
PMPI_T_enum_get_item(MPI_T_enum enumtype, int index, int *value, char *name,
                     int *name_length)
{
    int error = tp_ampi_tools_check();

    if (error != MPI_SUCCESS) {
        return error;
    }
    if (enumtype == MPI_T_ENUM_NULL) {
        return MPI_T_ERR_INVALID_HANDLE;
    }
    if (index < 0 || index >= enumtype->count) {
        return MPI_T_ERR_INVALID_INDEX;
    }
    tp_ampi_tools_give(value, index);
    tp_ampi_tools_text(enumtype->items[index], name, name_length);
    return MPI_SUCCESS;
}
TP_MPI_NAME(T_enum_get_item);

/* ---- categories: the first has all control variables, the second all performance variables ---- */

static const struct {
    const char *name, *about;
} categories[] = {
    {"settings", "what TELPHER_AMPI_ variables and telpher's file of settings say"},
    {"activity", "messages, waiting operations and queues of this process"},
};
enum { SETTINGS, ACTIVITY };

static int
check_category(int index)
{
    int error = tp_ampi_tools_check();

    return error != MPI_SUCCESS ? error
           : index < 0 || index >= (int)TP_ARRAY_LEN(categories)
               ? MPI_T_ERR_INVALID_INDEX
               : MPI_SUCCESS;
}

int
PMPI_T_category_get_num(int *count)
{
    tp_ampi_tools_give(count, (int)TP_ARRAY_LEN(categories));
    return tp_ampi_tools_check();
}
TP_MPI_NAME(T_category_get_num);

int
PMPI_T_category_get_info(int index, char *name, int *name_length, char *about,
                         int *about_length, int *cvars, int *pvars, int *inner)
{
    int error = check_category(index);

    if (error == MPI_SUCCESS) {
        tp_ampi_tools_text(categories[index].name, name, name_length);
        tp_ampi_tools_text(categories[index].about, about, about_length);
        tp_ampi_tools_give(cvars, index == SETTINGS ? tp_ampi_cvar_count() : 0);
        tp_ampi_tools_give(pvars, index == ACTIVITY ? tp_ampi_pvar_count() : 0);
        tp_ampi_tools_give(inner, 0);
    }
    return error;
}
TP_MPI_NAME(T_category_get_info);

int
PMPI_T_category_get_index(const char *name, int *index)
{
    int error = tp_ampi_tools_check();

    for (int i = 0; error == MPI_SUCCESS && i < (int)TP_ARRAY_LEN(categories); i++) {
        if (strcmp(name, categories[i].name) == 0) {
            tp_ampi_tools_give(index, i);
            return MPI_SUCCESS;
        }
    }
    return error != MPI_SUCCESS ? error : MPI_T_ERR_INVALID_NAME;
}
TP_MPI_NAME(T_category_get_index);

static int
list(int index, int count, int length, int numbers[])
{
    int error = check_category(index);

    for (int i = 0; error == MPI_SUCCESS && i < TP_MIN(count, length); i++) {
        numbers[i] = i;
    }
    return error;
}

int
PMPI_T_category_get_cvars(int index, int length, int cvars[])
{
    return list(index, index == SETTINGS ? tp_ampi_cvar_count() : 0, length, cvars);
}
TP_MPI_NAME(T_category_get_cvars);

int
PMPI_T_category_get_pvars(int index, int length, int pvars[])
{
    return list(index, index == ACTIVITY ? tp_ampi_pvar_count() : 0, length, pvars);
}
TP_MPI_NAME(T_category_get_pvars);

int
PMPI_T_category_get_categories(int index, int length, int inner[])
{
    return list(index, 0, length, inner);
}
TP_MPI_NAME(T_category_get_categories);

int
PMPI_T_category_changed(int *stamp)
{
    tp_ampi_tools_give(stamp, 0);
    return tp_ampi_tools_check();
}
TP_MPI_NAME(T_category_changed);

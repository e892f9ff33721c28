/* SPDX-License-Identifier: Apache-2.0 */
/* Where and when; see launch_machine.h. */
#include "bench/launch/launch_machine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static void
read_cpu(char *cpu, size_t size)
{
    FILE *file = fopen("/proc/cpuinfo", "r");
    char line[256];

    snprintf(cpu, size, "unknown");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL) {
        char *value = strchr(line, ':');

        if (strncmp(line, "model name", 10) == 0 && value != NULL) {
            value[strcspn(value, "\n")] = '\0';
            snprintf(cpu, size, "%s", value + 2);
            break;
        }
    }
    if (file != NULL) {
        fclose(file);
    }
}

void
launch_machine_fill(struct launch_machine *machine)
{
    const time_t now = time(NULL);
    struct utsname name;
    struct tm utc;

    machine->kernel[0] = '\0';
    if (uname(&name) == 0) {
        snprintf(machine->kernel, sizeof(machine->kernel), "%.20s %.60s %.40s",
                 name.sysname, name.release, name.machine);
    }
    gmtime_r(&now, &utc);
    strftime(machine->date, sizeof(machine->date), "%Y-%m-%dT%H:%M:%SZ", &utc);
    read_cpu(machine->cpu, sizeof(machine->cpu));
    machine->processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (getloadavg(&machine->load, 1) != 1) {
        machine->load = -1;
    }
}

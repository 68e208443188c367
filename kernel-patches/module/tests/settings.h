/* SPDX-License-Identifier: GPL-2.0 */
/* Settings of the machine, for tests that root runs; by the harness put back to what they were before the test. */
#ifndef SETTINGS_H
#define SETTINGS_H

#include <stdbool.h>

/* Writes a file; a failure fails the test. The first change of a file is made by one process of the test alone. */
void change_setting(const char *path, const char *value);
/* A CPU, numbered as for pin(). */
void set_online(int cpu, bool online);

/* The harness's: once, before any test; and after each. The latter gives a path that could not be restored. */
void prepare_settings(void);
const char *restore_settings(void);

#endif

// SPDX-License-Identifier: GPL-2.0
/*
 * Settings of the machine that tests change. What they were is kept in memory shared with the harness's process, which writes
 * them back when the test has ended: passed, failed, killed or out of time.
 */
#include "harness.h"
#include "settings.h"

#include <fcntl.h>

enum { SETTINGS = 8 };

static struct settings {
	int count;
	struct {
		char path[96], value[160];
	} changed[SETTINGS];
} *settings;

void prepare_settings(void)
{
	settings = shared_memory(sizeof(*settings));
}

/* The value alone: of a list of choices, the one in brackets. */
static bool read_setting(const char *path, char *value, size_t size)
{
	int fd = open(path, O_RDONLY);
	ssize_t length;
	char *choice;

	if (fd < 0)
		return false;
	length = read(fd, value, size - 1);
	close(fd);
	if (length < 0)
		return false;
	value[length] = 0;
	choice = strpbrk(value, "([");
	if (choice)
		memmove(value, choice + 1, strlen(choice));
	value[strcspn(value, ")]\n")] = 0;
	return true;
}

static bool write_setting(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY);
	bool done;

	if (fd < 0)
		return false;
	done = write(fd, value, strlen(value)) == (ssize_t)strlen(value);
	close(fd);
	return done;
}

static void note_setting(const char *path)
{
	int count = settings->count;

	for (int i = 0; i < count; i++)
		if (!strcmp(settings->changed[i].path, path))
			return;
	CHECK(count < SETTINGS && strlen(path) < sizeof(settings->changed[count].path));
	CHECK(read_setting(path, settings->changed[count].value, sizeof(settings->changed[count].value)), "%s: %s", path,
	      strerror(errno));
	strcpy(settings->changed[count].path, path);
	/* Last: a test can be killed at any moment. */
	STORE(settings->count, count + 1);
}

void change_setting(const char *path, const char *value)
{
	note_setting(path);
	CHECK(write_setting(path, value), "%s of %s: %s", value, path, strerror(errno));
}

void set_online(int cpu, bool online)
{
	char path[96];

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/online", cpu_number(cpu));
	change_setting(path, online ? "1" : "0");
}

const char *restore_settings(void)
{
	const char *failed = NULL;

	while (settings->count > 0) {
		int i = --settings->count;

		if (!write_setting(settings->changed[i].path, settings->changed[i].value))
			failed = settings->changed[i].path;
	}
	return failed;
}

// SPDX-License-Identifier: GPL-2.0
#include "touch.h"

#include "harness.h"

__thread sigjmp_buf here;

static void leave(int number)
{
	siglongjmp(here, number);
}

void catch_signals(void)
{
	struct sigaction action = { .sa_handler = leave, .sa_flags = SA_NODEFER };

	CHECK(!sigaction(SIGBUS, &action, NULL) && !sigaction(SIGSEGV, &action, NULL));
}

int reads(const char *at, char *value)
{
	int number = sigsetjmp(here, 0);

	if (!number)
		*value = *(volatile const char *)at;
	return number;
}

int writes(char *at, char value)
{
	int number = sigsetjmp(here, 0);

	if (!number)
		*(volatile char *)at = value;
	return number;
}

void expect_value(const char *at, char value, int line)
{
	char found = 0;
	int number = reads(at, &found);

	CHECK(!number && found == value, "from line %d: signal %d, %#x instead of %#x", line, number, found, value);
}

void expect_signal(char *at, int signal, int line)
{
	char value;
	int read = reads(at, &value), written = writes(at, 1);

	CHECK(read == signal && written == signal, "from line %d: %d when read, %d when written", line, read, written);
}

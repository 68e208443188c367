// SPDX-License-Identifier: GPL-2.0
/*
 * Loading where it must be refused: MODULE=path of uintr.ko, BECAUSE=a part of the kernel's message, ERRNO=number.
 * (Boot with pti=on, or on a machine without user interrupts.)
 */
#include "harness.h"

#include <fcntl.h>
#include <sys/klog.h>
#include <sys/syscall.h>

TEST(loading_is_refused)
{
	enum { READ_ALL = 3, SIZE = 1 << 20 };
	const char *because = text_argument("BECAUSE", "page-table isolation");
	char *log = malloc(SIZE), *message, *next;
	bool found = false;
	int file = open(text_argument("MODULE", "uintr.ko"), O_RDONLY), length;

	CHECK(file >= 0, "%s", strerror(errno));
	REFUSED(syscall(SYS_finit_module, file, "", 0), argument("ERRNO", EOPNOTSUPP));
	CHECK(open("/dev/uintr", O_RDWR) == -1 && errno == ENOENT);
	length = klogctl(READ_ALL, log, SIZE - 1);
	CHECK(length > 0);
	log[length] = 0;
	for (message = log; (next = strstr(message, "uintr: ")); message = next + 1) {
		char *end = strchr(next, '\n'), *here = strstr(next, because);

		if (here && (!end || here < end))
			found = true;
	}
	CHECK(found, "the kernel does not say why");
}

// SPDX-License-Identifier: MIT OR Apache-2.0
/* quantum N: the emulator's processors run N instructions a turn from now on. It listens at a port (bochs-uintr.patch). */
#include <stdio.h>
#include <stdlib.h>
#include <sys/io.h>

#define PORT 0x8902

int main(int argc, char **argv)
{
	long quantum = argc == 2 ? strtol(argv[1], NULL, 10) : 0;

	if (quantum < 1 || quantum > 32) {
		fprintf(stderr, "usage: quantum N, from 1 to 32\n");
		return 2;
	}
	if (ioperm(PORT, 1, 1)) {
		perror("ioperm");
		return 1;
	}
	outb(quantum, PORT);
	if (inb(PORT) != quantum) {
		fprintf(stderr, "nothing at port %#x takes a quantum of %ld\n", PORT, quantum);
		return 1;
	}
	return 0;
}

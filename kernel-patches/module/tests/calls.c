// SPDX-License-Identifier: GPL-2.0
/* Every errno that uintr_uapi.h names, but those of exhaustion: no memory, no files; a full table is in table.c. */
#include "harness.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

/* The first address that no program has: the kernel names the flag only if it uses the five levels. */
static uint64_t beyond_user(void)
{
	static uint64_t beyond;
	char line[8192];
	FILE *info;

	if (beyond)
		return beyond;
	beyond = 1ull << 47;
	info = fopen("/proc/cpuinfo", "r");
	while (info && fgets(line, sizeof(line), info))
		if (!strncmp(line, "flags", 5) && strstr(line, " la57"))
			beyond = 1ull << 56;
	if (info)
		fclose(info);
	return beyond;
}

HANDLER static void handler(frame *at, vector number)
{
}

TEST(info)
{
	struct uintr_info info = read_info();

	CHECK(info.abi == UINTR_ABI, "%u", info.abi);
	CHECK(info.notification_vector == 0xf0, "%#x", info.notification_vector);
	CHECK(info.reserved == 0);
	/* Who booted the machine knows in which mode. */
	CHECK(info.x2apic == argument("X2APIC", info.x2apic), "%u", info.x2apic);
}

TEST(unknown_call)
{
	REFUSED(ioctl(device, _IO('u', 0x19), 0), ENOTTY);
	REFUSED(ioctl(device, _IO('v', 0x12), 0), ENOTTY);
	/* The right number with another size is another call. */
	REFUSED(ioctl(device, _IOW('u', 0x11, char), 0), ENOTTY);
}

/* A 32-bit call of a 64-bit program goes the way of a 32-bit program's. */
TEST(call_of_32_bit_program)
{
	long result, ioctl_32 = 54;
	pid_t child = fork();
	int status;

	if (!child) {
		asm volatile("int $0x80"
			     : "=a"(result)
			     : "a"(ioctl_32), "b"((long)device), "c"(UINTR_IOC_UNREGISTER_HANDLER), "d"(0)
			     : "memory", "r8", "r9", "r10", "r11");
		_exit((int)result == -ENOTTY ? 0 : 1);
	}
	waitpid(child, &status, 0);
	/* A kernel without 32-bit calls kills it: no call, either. */
	CHECK(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV), "status %#x", status);
}

TEST(bad_pointers)
{
	void *nowhere = (void *)16;

	REFUSED(ioctl(device, UINTR_IOC_INFO, nowhere), EFAULT);
	REFUSED(ioctl(device, UINTR_IOC_REGISTER_HANDLER, nowhere), EFAULT);
	REFUSED(ioctl(device, UINTR_IOC_ALT_STACK, nowhere), EFAULT);
	REFUSED(ioctl(device, UINTR_IOC_VECTOR_FD, nowhere), EFAULT);
	REFUSED(ioctl(device, UINTR_IOC_REGISTER_SENDER, nowhere), EFAULT);
	REFUSED(ioctl(device, UINTR_IOC_UNREGISTER_SENDER, nowhere), EFAULT);
	REFUSED(ioctl(device, UINTR_IOC_REGISTER_SELF, nowhere), EFAULT);
	become_receiver(handler);
	REFUSED(ioctl(device, UINTR_IOC_STATS, nowhere), EFAULT);
}

TEST(bad_flags)
{
	struct uintr_handler register_call = { .handler = (uint64_t)handler };
	struct uintr_stack stack_call = { 0 };
	struct uintr_vector vector_call = { 0 };
	struct uintr_sender sender_call = { 0 };
	struct uintr_index index_call = { 0 };

	register_call.flags = 1;
	REFUSED(ioctl(device, UINTR_IOC_REGISTER_HANDLER, &register_call), EINVAL);
	register_call.flags = 0;
	register_call.reserved = 1;
	REFUSED(ioctl(device, UINTR_IOC_REGISTER_HANDLER, &register_call), EINVAL);
	become_receiver(handler);
	stack_call.flags = 0x80000000;
	REFUSED(ioctl(device, UINTR_IOC_ALT_STACK, &stack_call), EINVAL);
	stack_call.flags = 0;
	stack_call.reserved = 1;
	REFUSED(ioctl(device, UINTR_IOC_ALT_STACK, &stack_call), EINVAL);
	vector_call.flags = 1;
	REFUSED(ioctl(device, UINTR_IOC_VECTOR_FD, &vector_call), EINVAL);
	REFUSED(ioctl(device, UINTR_IOC_REGISTER_SELF, &vector_call), EINVAL);
	sender_call.fd = own_vector(0);
	sender_call.flags = 1;
	REFUSED(ioctl(device, UINTR_IOC_REGISTER_SENDER, &sender_call), EINVAL);
	index_call.index = sender_of(sender_call.fd);
	index_call.flags = 1;
	REFUSED(ioctl(device, UINTR_IOC_UNREGISTER_SENDER, &index_call), EINVAL);
}

TEST(bad_handler)
{
	REFUSED(register_handler(NULL, NULL, 0), EINVAL);
	REFUSED(register_handler((void *)beyond_user(), NULL, 0), EINVAL);
	REFUSED(register_handler((void *)0xffffffff81000000, NULL, 0), EINVAL);
	REFUSED(register_handler((void *)0x0100000000000000, NULL, 0), EINVAL);
}

TEST(bad_stack)
{
	void *stack = (void *)0x10000;

	REFUSED(register_handler(handler, stack, 0), EINVAL);
	REFUSED(register_handler(handler, stack, UINTR_MIN_STACK - 1), EINVAL);
	REFUSED(register_handler(handler, NULL, UINTR_MIN_STACK), EINVAL);
	REFUSED(register_handler(handler, (void *)beyond_user(), UINTR_MIN_STACK), EINVAL);
	REFUSED(register_handler(handler, stack, beyond_user()), EINVAL);
	REFUSED(register_handler(handler, stack, -0x10000ul), EINVAL);
	REFUSED(register_handler(handler, stack, -1ul), EINVAL);
	become_receiver(handler);
	REFUSED(set_stack(stack, 0), EINVAL);
	REFUSED(set_stack(stack, UINTR_MIN_STACK - 1), EINVAL);
	REFUSED(set_stack(NULL, UINTR_MIN_STACK), EINVAL);
	REFUSED(set_stack((void *)beyond_user(), UINTR_MIN_STACK), EINVAL);
	REFUSED(set_stack(stack, -1ul), EINVAL);
	CHECK(!set_stack(stack, UINTR_MIN_STACK));
	CHECK(!set_stack(NULL, 0));
}

TEST(registered_twice)
{
	become_receiver(handler);
	REFUSED(register_handler(handler, NULL, 0), EBUSY);
	CHECK(!unregister_handler());
	become_receiver(handler);
}

TEST(not_registered)
{
	struct uintr_stats stats;

	REFUSED(unregister_handler(), EINVAL);
	REFUSED(set_stack(NULL, 0), EOPNOTSUPP);
	REFUSED(vector_fd(0), EOPNOTSUPP);
	REFUSED(register_self(0), EOPNOTSUPP);
	REFUSED(ioctl(device, UINTR_IOC_STATS, &stats), EOPNOTSUPP);
	become_receiver(handler);
	CHECK(!unregister_handler());
	REFUSED(unregister_handler(), EINVAL);
	REFUSED(vector_fd(0), EOPNOTSUPP);
}

/* The same, with what a sender leaves behind. */
TEST(not_registered_but_sender)
{
	struct uintr_stats stats;
	int fd;

	become_receiver(handler);
	fd = own_vector(3);
	sender_of(fd);
	CHECK(!unregister_handler());
	REFUSED(unregister_handler(), EINVAL);
	REFUSED(set_stack(NULL, 0), EOPNOTSUPP);
	REFUSED(vector_fd(0), EOPNOTSUPP);
	REFUSED(register_self(0), EOPNOTSUPP);
	REFUSED(ioctl(device, UINTR_IOC_STATS, &stats), EOPNOTSUPP);
	REFUSED(register_sender(fd), ESHUTDOWN);
	become_receiver(handler);
	/* A descriptor of the earlier registration does not stand for the later one. */
	REFUSED(register_sender(fd), ESHUTDOWN);
}

TEST(bad_vector)
{
	become_receiver(handler);
	REFUSED(vector_fd(UINTR_VECTORS), ENOSPC);
	REFUSED(vector_fd(-1), ENOSPC);
	REFUSED(register_self(UINTR_VECTORS), ENOSPC);
	own_vector(UINTR_VECTORS - 1);
}

TEST(bad_descriptor)
{
	int path = open("/", O_PATH);

	REFUSED(register_sender(-1), EBADF);
	REFUSED(register_sender(1000), EBADF);
	CHECK(path >= 0);
	REFUSED(register_sender(path), EBADF);
	REFUSED(register_sender(device), EOPNOTSUPP);
	REFUSED(register_sender(0), EOPNOTSUPP);
}

TEST(no_descriptors_left)
{
	struct rlimit none = { 3, 3 };

	become_receiver(handler);
	CHECK(!setrlimit(RLIMIT_NOFILE, &none));
	REFUSED(vector_fd(0), EMFILE);
}

TEST(bad_index)
{
	int fd, index;

	REFUSED(unregister_sender(0), EINVAL);
	become_receiver(handler);
	fd = own_vector(0);
	index = sender_of(fd);
	CHECK(index >= 0 && index < UINTR_SENDERS, "%d", index);
	REFUSED(unregister_sender(index + 1), EINVAL);
	REFUSED(unregister_sender(UINTR_SENDERS), EINVAL);
	REFUSED(unregister_sender(-1), EINVAL);
	CHECK(!unregister_sender(index));
	REFUSED(unregister_sender(index), EINVAL);
}

/* Nothing else works on a vector's descriptor. */
TEST(descriptor_is_only_that)
{
	char byte;
	int fd;

	become_receiver(handler);
	fd = own_vector(0);
	CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC);
	REFUSED(read(fd, &byte, 1), EINVAL);
	REFUSED(write(fd, &byte, 1), EBADF);
	REFUSED(ioctl(fd, UINTR_IOC_INFO, &byte), ENOTTY);
	CHECK(mmap(NULL, 4096, PROT_READ, MAP_SHARED, fd, 0) == MAP_FAILED && errno == ENODEV, "errno %d", errno);
}

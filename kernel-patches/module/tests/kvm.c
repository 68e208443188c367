// SPDX-License-Identifier: GPL-2.0
/*
 * The module beside KVM's: whichever comes first and whichever goes first, with a virtual machine running or none.
 * As root, where KVM is not loaded: KVM=directory of its modules, MODULE=path of uintr.ko.
 */
#include "harness.h"

#include <fcntl.h>
#include <linux/kvm.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

static uint64_t *runs;

HANDLER static void note(frame *at, vector number)
{
	ADD(*runs, 1);
}

UINTR static void unmask(void)
{
	_stui();
}

UINTR static void ring(uint64_t index)
{
	_senduipi(index);
}

static void load(const char *path)
{
	int file = open(path, O_RDONLY | O_CLOEXEC);

	CHECK(file >= 0 && !syscall(SYS_finit_module, file, "", 0), "%s: %s", path, strerror(errno));
	close(file);
}

/* What its users have left is freed a little later. */
static void unload(const char *name)
{
	while (syscall(SYS_delete_module, name, O_NONBLOCK))
		CHECK(errno == EAGAIN || errno == EBUSY, "%s: %s", name, strerror(errno));
}

static void kvm_comes(void)
{
	static const char *const names[] = { "irqbypass", "kvm", "kvm-intel" };

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		char path[256];

		snprintf(path, sizeof(path), "%s/%s.ko", text_argument("KVM", "/k"), names[i]);
		load(path);
	}
}

static void kvm_goes(void)
{
	unload("kvm_intel");
	unload("kvm");
	unload("irqbypass");
}

static void module_comes(void)
{
	load(text_argument("MODULE", "uintr.ko"));
	device = open_device();
	CHECK(device >= 0, "%s", strerror(errno));
}

static void module_goes(void)
{
	close(device);
	unload("uintr");
}

struct machine {
	int kvm, vm, vcpu;
	struct kvm_run *run;
	size_t size;
	void *memory;
};

/* One that halts, and when it goes on jumps back to its halt. */
static struct machine make_machine(void)
{
	static const unsigned char code[] = { 0xf4, 0xeb, 0xfd };
	struct machine machine = { .kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC) };
	struct kvm_userspace_memory_region region = { .memory_size = 4096 };
	struct kvm_regs registers = { .rflags = 2 };
	struct kvm_sregs segments;

	CHECK(machine.kvm >= 0, "%s", strerror(errno));
	machine.vm = ioctl(machine.kvm, KVM_CREATE_VM, 0);
	CHECK(machine.vm >= 0, "%s", strerror(errno));
	machine.memory = shared_memory(region.memory_size);
	memcpy(machine.memory, code, sizeof(code));
	region.userspace_addr = (uint64_t)machine.memory;
	CHECK(!ioctl(machine.vm, KVM_SET_USER_MEMORY_REGION, &region), "%s", strerror(errno));
	machine.vcpu = ioctl(machine.vm, KVM_CREATE_VCPU, 0);
	CHECK(machine.vcpu >= 0, "%s", strerror(errno));
	machine.size = ioctl(machine.kvm, KVM_GET_VCPU_MMAP_SIZE, 0);
	machine.run = mmap(NULL, machine.size, PROT_READ | PROT_WRITE, MAP_SHARED, machine.vcpu, 0);
	CHECK(machine.run != MAP_FAILED, "%s", strerror(errno));
	CHECK(!ioctl(machine.vcpu, KVM_GET_SREGS, &segments), "%s", strerror(errno));
	segments.cs.base = segments.cs.selector = 0;
	CHECK(!ioctl(machine.vcpu, KVM_SET_SREGS, &segments), "%s", strerror(errno));
	CHECK(!ioctl(machine.vcpu, KVM_SET_REGS, &registers), "%s", strerror(errno));
	return machine;
}

static void run_machine(struct machine *machine)
{
	CHECK(!ioctl(machine->vcpu, KVM_RUN, 0), "%s", strerror(errno));
	CHECK(machine->run->exit_reason == KVM_EXIT_HLT, "exit %u", machine->run->exit_reason);
}

static void end_machine(struct machine *machine)
{
	munmap(machine->run, machine->size);
	close(machine->vcpu);
	close(machine->vm);
	close(machine->kvm);
	munmap(machine->memory, 4096);
}

/* A receiver, rung by itself and from another CPU; between the rings the machine runs, if there is one. */
static void receives(struct machine *machine)
{
	int fd, mine;
	pid_t pid;

	pin(0);
	become_receiver(note);
	unmask();
	fd = own_vector(1);
	mine = sender_of(fd);
	for (uint64_t i = 1; i <= 20; i++) {
		ring(mine);
		AWAIT(LOAD(*runs) == i);
		if (machine)
			run_machine(machine);
	}
	pid = fork();
	if (!pid) {
		int index;

		pin(1);
		index = sender_of(fd);
		for (uint64_t i = 21; i <= 40; i++) {
			ring(index);
			AWAIT(LOAD(*runs) == i);
		}
		_exit(0);
	}
	while (LOAD(*runs) < 40) {
		struct timespec pause = { .tv_nsec = 1000 };

		if (!machine)
			continue;
		run_machine(machine);
		/* What came while the machine ran is seen when the thread has been switched out and in. */
		nanosleep(&pause, NULL);
	}
	expect_end(pid, 0);
}

/* In a process of its own, with or without a virtual machine: nothing of it holds the module afterwards. */
static void rings_arrive(bool beside_a_machine)
{
	pid_t pid;

	STORE(*runs, 0);
	pid = fork();
	if (!pid) {
		struct machine machine;

		if (beside_a_machine)
			machine = make_machine();
		receives(beside_a_machine ? &machine : NULL);
		_exit(0);
	}
	expect_end(pid, 0);
}

TEST(kvm_comes_later)
{
	struct machine machine;

	runs = shared_memory(sizeof(*runs));
	kvm_comes();
	rings_arrive(false);
	machine = make_machine();
	run_machine(&machine);
	rings_arrive(false);
	rings_arrive(true);
	end_machine(&machine);
	kvm_goes();
	rings_arrive(false);
}

TEST(kvm_is_there_before)
{
	struct machine machine;

	runs = shared_memory(sizeof(*runs));
	CHECK(access("/sys/module/kvm", F_OK), "KVM is loaded: unload it first (rmmod kvm_intel kvm irqbypass)");
	module_goes();
	kvm_comes();
	module_comes();
	rings_arrive(false);
	module_goes();
	/* With the processors in VMX operation. */
	machine = make_machine();
	run_machine(&machine);
	module_comes();
	rings_arrive(true);
	module_goes();
	run_machine(&machine);
	end_machine(&machine);
	kvm_goes();
	module_comes();
	rings_arrive(false);
}

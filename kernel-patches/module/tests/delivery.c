// SPDX-License-Identifier: GPL-2.0
/* Delivery within one process: to oneself, between threads, in every state that the receiver can be in. */
#include "harness.h"

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#define MANY 64

static uint64_t runs, order[2 * MANY], stack_seen, red_zone_broken;

HANDLER static void note(frame *at, vector number)
{
	uint64_t run = runs;

	if (run < 2 * MANY)
		order[run] = number;
	stack_seen = (uint64_t)__builtin_frame_address(0);
	STORE(runs, run + 1);
}

UINTR static void mask(void)
{
	_clui();
}

UINTR static void unmask(void)
{
	_stui();
}

UINTR static void ring(uint64_t index)
{
	_senduipi(index);
}

UINTR static bool masked(void)
{
	return !_testui();
}

UINTR TEST(to_oneself)
{
	int index;

	become_receiver(note);
	CHECK(masked(), "a new receiver's flag is 0");
	index = register_self(7);
	CHECK(index >= 0, "%s", strerror(errno));
	unmask();
	ring(index);
	AWAIT(LOAD(runs) == 1);
	CHECK(order[0] == 7, "vector %lu", order[0]);
	CHECK(!masked(), "UIRET sets the flag");
	mask();
	ring(index);
	ring(index);
	for (volatile int i = 0; i < 1000; i++)
		;
	CHECK(LOAD(runs) == 1, "masked, but the handler ran");
	unmask();
	AWAIT(LOAD(runs) == 2);
	for (volatile int i = 0; i < 1000; i++)
		;
	CHECK(LOAD(runs) == 2, "two rings of a masked vector give one run");
}

/* The ring comes from the thread that holds the CPU next, so the bits go through the descriptor, not the register. */
UINTR TEST(sixty_four_vectors_highest_first)
{
	int index[MANY];

	become_receiver(note);
	for (int i = 0; i < MANY; i++) {
		/* Mixed, so that order of registration and of ringing differ from that of delivery. */
		index[i] = register_self(i * 37 % MANY);
		CHECK(index[i] >= 0, "%s", strerror(errno));
	}
	for (int i = 0; i < MANY; i++)
		ring(index[i]);
	CHECK(LOAD(runs) == 0, "masked, but the handler ran");
	unmask();
	AWAIT(LOAD(runs) == MANY);
	for (int i = 0; i < MANY; i++)
		CHECK(order[i] == (uint64_t)(MANY - 1 - i), "run %d was vector %lu", i, order[i]);
}

struct peer {
	int fd;
	int cpu;
	bool ready, go;
	uint64_t rings;	/* made */
};

/* Registers as sender, then rings once for each go. */
UINTR static void *ringer(void *argument)
{
	struct peer *peer = argument;
	int index;

	if (peer->cpu >= 0)
		pin(peer->cpu);
	index = sender_of(peer->fd);
	STORE(peer->ready, true);
	for (;;) {
		AWAIT(LOAD(peer->go));
		STORE(peer->go, false);
		ring(index);
		ADD(peer->rings, 1);
	}
	return NULL;
}

static void start_ringer(struct peer *peer, unsigned int number, int cpu)
{
	pthread_t thread;

	*peer = (struct peer){ .fd = own_vector(number), .cpu = cpu };
	CHECK(!pthread_create(&thread, NULL, ringer, peer));
	AWAIT(LOAD(peer->ready));
}

static void ring_once(struct peer *peer)
{
	uint64_t rings = LOAD(peer->rings);

	STORE(peer->go, true);
	AWAIT(LOAD(peer->rings) == rings + 1);
}

TEST(between_threads)
{
	struct peer peer;

	pin(0);
	become_receiver(note);
	start_ringer(&peer, 5, 1);
	unmask();
	for (unsigned int i = 1; i <= 1000; i++) {
		ring_once(&peer);
		AWAIT(LOAD(runs) == i);
		CHECK(i > 2 * MANY || order[i - 1] == 5, "vector %lu", order[i - 1]);
	}
}

/* Both on one CPU: the receiver is never running when it is rung. */
TEST(between_threads_on_one_cpu)
{
	struct peer peer;

	pin(0);
	become_receiver(note);
	start_ringer(&peer, 6, 0);
	unmask();
	for (unsigned int i = 1; i <= 50; i++) {
		ring_once(&peer);
		AWAIT(LOAD(runs) == i);
	}
	CHECK(read_stats().merged >= 50, "%llu merged", read_stats().merged);
}

TEST(while_blocked_in_a_system_call)
{
	struct peer peer;
	int pipes[2];
	char byte;

	become_receiver(note);
	start_ringer(&peer, 0, 1);
	unmask();
	CHECK(!pipe(pipes));
	if (!fork()) {
		struct timespec pause = { .tv_nsec = 50000000 };

		/* The child has no part in this but to end the parent's wait, later than the ring. */
		nanosleep(&pause, NULL);
		CHECK(write(pipes[1], "x", 1) == 1);
		_exit(0);
	}
	STORE(peer.go, true);
	CHECK(read(pipes[0], &byte, 1) == 1);
	AWAIT(LOAD(peer.rings) == 1);
	AWAIT(LOAD(runs) == 1);
}

static void *hog(void *unused)
{
	pin(0);
	for (;;)
		__builtin_ia32_pause();
	return unused;
}

TEST(while_preempted_by_hogs)
{
	struct peer peer;
	pthread_t thread;

	pin(0);
	become_receiver(note);
	start_ringer(&peer, 9, 1);
	unmask();
	for (int i = 0; i < 3; i++)
		CHECK(!pthread_create(&thread, NULL, hog, NULL));
	for (unsigned int i = 1; i <= 30; i++) {
		ring_once(&peer);
		AWAIT(LOAD(runs) == i);
	}
	CHECK(read_stats().switched_out > 0);
}

/* The flag is the thread's own, on whatever CPU and after whomever it runs. */
TEST(flag_survives_switches)
{
	struct peer peer;
	pthread_t thread;

	pin(0);
	become_receiver(note);
	start_ringer(&peer, 1, 1);
	CHECK(!pthread_create(&thread, NULL, hog, NULL));
	for (int round = 0; round < 10; round++) {
		uint64_t out = read_stats().switched_out;

		unmask();
		AWAIT(read_stats().switched_out > out + 2);
		CHECK(!masked(), "the flag was lost");
		mask();
		out = read_stats().switched_out;
		AWAIT(read_stats().switched_out > out + 2);
		CHECK(masked(), "the flag appeared");
	}
	ring_once(&peer);
	CHECK(LOAD(runs) == 0);
	unmask();
	AWAIT(LOAD(runs) == 1);
}

/* Canaries on both sides; a run must stay inside, and start at the top. */
UINTR TEST(alternate_stack)
{
	enum { SIZE = 16384, GUARD = 4096 };
	unsigned char *memory = mmap(NULL, SIZE + 2 * GUARD, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	unsigned char *stack = memory + GUARD;
	uint64_t on_thread_stack;
	int index;

	CHECK(memory != MAP_FAILED);
	memset(memory, 0xa5, GUARD);
	memset(stack + SIZE, 0xa5, GUARD);
	CHECK(!register_handler(note, stack, SIZE), "%s", strerror(errno));
	index = register_self(2);
	unmask();
	ring(index);
	AWAIT(LOAD(runs) == 1);
	CHECK(stack_seen < (uint64_t)(stack + SIZE) && stack_seen >= (uint64_t)(stack + SIZE - 256),
	      "frame at %#lx, the stack's top is %p", stack_seen, stack + SIZE);
	CHECK(!set_stack(NULL, 0));
	ring(index);
	AWAIT(LOAD(runs) == 2);
	on_thread_stack = (uint64_t)__builtin_frame_address(0);
	CHECK(stack_seen < on_thread_stack && on_thread_stack - stack_seen < 4096, "frame at %#lx, thread's at %#lx",
	      stack_seen, on_thread_stack);
	/* An odd size: the top is rounded down, never up. */
	CHECK(!set_stack(stack, SIZE - 3));
	ring(index);
	AWAIT(LOAD(runs) == 3);
	CHECK(stack_seen < (uint64_t)(stack + SIZE - 3) && stack_seen >= (uint64_t)(stack + SIZE - 256), "%#lx", stack_seen);
	for (int i = 0; i < GUARD; i++)
		CHECK(memory[i] == 0xa5 && stack[SIZE + i] == 0xa5, "canary at %d", i);
}

/* A leaf function's data below its stack pointer is skipped. */
UINTR TEST(red_zone)
{
	struct peer peer;
	uint64_t end;

	pin(0);
	become_receiver(note);
	start_ringer(&peer, 4, 1);
	unmask();
	for (int round = 0; round < 200; round++) {
		uint64_t seen = runs, now = 0, broken = 0;

		end = seen + 1;
		STORE(peer.go, true);
		asm volatile("movq $0x1234567, -128(%%rsp)\n"
			     "movq $0x89abcde, -8(%%rsp)\n"
			     "1: movq %2, %0\n"
			     "cmpq $0x1234567, -128(%%rsp)\n"
			     "jne 2f\n"
			     "cmpq $0x89abcde, -8(%%rsp)\n"
			     "jne 2f\n"
			     "cmpq %3, %0\n"
			     "jb 1b\n"
			     "jmp 3f\n"
			     "2: movq $1, %1\n"
			     "3:\n"
			     : "=&r"(now), "+r"(broken)
			     : "m"(runs), "r"(end)
			     : "cc", "memory");
		red_zone_broken += broken;
	}
	CHECK(!red_zone_broken, "%lu times", red_zone_broken);
}

static int depth, deepest, inner;

UINTR __attribute__((interrupt, target("general-regs-only"))) static void nesting(frame *at, vector number)
{
	depth++;
	if (depth > deepest)
		deepest = depth;
	if (depth == 1) {
		_stui();
		_senduipi(inner);
		/* Delivered before this loop ends, or never. */
		for (volatile int i = 0; i < 1000 && deepest < 2; i++)
			;
		_clui();
	}
	depth--;
	STORE(runs, runs + 1);
}

UINTR TEST(unmasking_inside_a_handler)
{
	become_receiver(nesting);
	inner = register_self(1);
	unmask();
	ring(inner);
	AWAIT(LOAD(runs) == 2);
	CHECK(deepest == 2, "%d", deepest);
}

struct receiver {
	void (*handler)(frame *, vector);
	uint64_t runs;
	int fd;
	bool stop;
};

static struct receiver first, second;

HANDLER static void first_handler(frame *at, vector number)
{
	STORE(first.runs, first.runs + number);
}

HANDLER static void second_handler(frame *at, vector number)
{
	STORE(second.runs, second.runs + number);
}

static void *receive(void *argument)
{
	struct receiver *receiver = argument;

	become_receiver(receiver->handler);
	unmask();
	STORE(receiver->fd, own_vector(1));
	AWAIT(LOAD(receiver->stop));
	return NULL;
}

TEST(different_handlers_in_different_threads)
{
	pthread_t threads[2];

	first = (struct receiver){ .handler = first_handler, .fd = -1 };
	second = (struct receiver){ .handler = second_handler, .fd = -1 };
	CHECK(!pthread_create(&threads[0], NULL, receive, &first));
	CHECK(!pthread_create(&threads[1], NULL, receive, &second));
	AWAIT(LOAD(first.fd) >= 0 && LOAD(second.fd) >= 0);
	for (unsigned int i = 1; i <= 100; i++) {
		ring(sender_of(first.fd));
		AWAIT(LOAD(first.runs) == i);
		CHECK(LOAD(second.runs) == i - 1);
		ring(sender_of(second.fd));
		AWAIT(LOAD(second.runs) == i);
	}
	STORE(first.stop, true);
	STORE(second.stop, true);
	for (int i = 0; i < 2; i++)
		CHECK(!pthread_join(threads[i], NULL));
}

static int shared_index = -1;
static bool rung;

static void *rings_unasked(void *unused)
{
	AWAIT(LOAD(shared_index) >= 0);
	ring(shared_index);
	STORE(rung, true);
	return unused;
}

/* Any thread may use an index: older than the table, or younger. */
TEST(threads_that_did_not_register)
{
	pthread_t thread;

	become_receiver(note);
	unmask();
	CHECK(!pthread_create(&thread, NULL, rings_unasked, NULL));
	STORE(shared_index, sender_of(own_vector(3)));
	AWAIT(LOAD(rung) && LOAD(runs) == 1);
	CHECK(!pthread_join(thread, NULL));
	rung = false;
	CHECK(!pthread_create(&thread, NULL, rings_unasked, NULL));
	AWAIT(LOAD(rung) && LOAD(runs) == 2);
	CHECK(!pthread_join(thread, NULL));
}

static volatile sig_atomic_t illegal;
static void *illegal_address;

static void on_illegal(int signal, siginfo_t *info, void *context)
{
	ucontext_t *interrupted = context;

	illegal++;
	illegal_address = info->si_addr;
	interrupted->uc_mcontext.gregs[REG_RIP] += 2;
}

/* Another undefined instruction still is one, once, also as the first that a sender's thread executes. */
static void *undefined(void *unused)
{
	asm volatile("ud2");
	CHECK(illegal == 1 && *(uint16_t *)illegal_address == 0x0b0f, "%d signals", illegal);
	ring(shared_index);
	asm volatile("ud2");
	CHECK(illegal == 2, "%d signals", illegal);
	return unused;
}

TEST(other_undefined_instructions)
{
	struct sigaction action = { .sa_sigaction = on_illegal, .sa_flags = SA_SIGINFO };
	pthread_t thread;

	CHECK(!sigaction(SIGILL, &action, NULL));
	become_receiver(note);
	unmask();
	shared_index = sender_of(own_vector(3));
	CHECK(!pthread_create(&thread, NULL, undefined, NULL));
	CHECK(!pthread_join(thread, NULL));
	AWAIT(LOAD(runs) == 1);
}

/* What was posted to an earlier registration is not delivered to a later one. */
TEST(stale_posts_are_dropped)
{
	int fd, index;

	become_receiver(note);
	fd = own_vector(1);
	index = sender_of(fd);
	ring(index);
	CHECK(!unregister_handler());
	ring(index);
	become_receiver(note);
	CHECK(masked(), "a new receiver's flag is 0");
	ring(index);
	unmask();
	ring(index);
	for (volatile int i = 0; i < 10000; i++)
		;
	CHECK(!syscall(SYS_sched_yield));
	CHECK(LOAD(runs) == 0);
	index = register_self(1);
	ring(index);
	AWAIT(LOAD(runs) == 1);
}

/* A thread that receives keeps what is pending when it becomes a sender, too. */
TEST(becoming_a_sender_keeps_what_is_pending)
{
	struct peer peer;

	become_receiver(note);
	start_ringer(&peer, 11, 1);
	ring_once(&peer);
	CHECK(LOAD(runs) == 0);
	CHECK(register_self(12) >= 0);
	unmask();
	AWAIT(LOAD(runs) == 1);
	CHECK(order[0] == 11, "vector %lu", order[0]);
}

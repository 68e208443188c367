// SPDX-License-Identifier: GPL-2.0
/*
 * What the processor wants: registers, CR4, and the formats of descriptors and table entries.
 *
 * XSS[14] stays 0: no XSAVE of the kernel touches this state, it is saved and loaded here, by hand, and only for
 * threads that use it.
 */
#include "private.h"

#include <linux/bits.h>
#include <linux/hardirq.h>
#include <linux/percpu.h>
#include <linux/printk.h>
#include <linux/smp.h>
#include <asm/apic.h>
#include <asm/cpufeature.h>
#include <asm/irq_vectors.h>
#include <asm/msr.h>
#include <asm/processor.h>
#include <asm/smp.h>
#include <asm/tlbflush.h>

/*
 * The notification vector. A notification that finds its receiver running never reaches the kernel: the processor
 * takes it. One that comes too late, when the receiver has been switched out, is an ordinary interrupt, and its
 * handler only has to acknowledge and count it: the posted bits stay in the descriptor until the receiver is switched
 * in.
 *
 * A kernel of which the core is a part has a vector for it. The module takes one whose stock handler does just that.
 * KVM sends this vector as well, to a CPU that runs a nested guest; if it arrives while a receiver runs there, the
 * processor looks into the receiver's descriptor and finds, at worst, nothing, and KVM loses nothing, for outside of a
 * guest its handler does nothing either.
 */
#ifdef MODULE
#if !IS_ENABLED(CONFIG_KVM) && !IS_ENABLED(CONFIG_HAVE_KVM)
#error "this kernel has no handler for POSTED_INTR_NESTED_VECTOR; it needs CONFIG_KVM (y or m)"
#endif
#define NOTIFICATION_VECTOR	POSTED_INTR_NESTED_VECTOR
#define NOTIFICATION_COUNT	kvm_posted_intr_nested_ipis
#else
#define NOTIFICATION_VECTOR	UINTR_NOTIFICATION_VECTOR
#define NOTIFICATION_COUNT	uintr_notifications
#endif

#define UINTR_RR		0x985
#define UINTR_HANDLER		0x986
#define UINTR_STACKADJUST	0x987
#define UINTR_MISC		0x988
#define UINTR_PD		0x989
#define UINTR_TT		0x98a

#define MISC_LAST_ENTRY		(UINTR_SENDERS - 1)
#define MISC_NOTIFICATION	((u64)NOTIFICATION_VECTOR << 32)
#define TT_ENABLED		BIT_ULL(0)

#define CR4_UINTR		BIT(25)
#define XSS_UINTR		BIT_ULL(14)
#define CPUID_7_EDX_UINTR	BIT(5)

#define UPID_SUPPRESS_BIT	1
#define UPID_VECTOR_SHIFT	16
#define UPID_DESTINATION_SHIFT	32

/* The instructions by their bytes: assemblers of stock kernels' time do not all know them. */
static bool testui(void)
{
	bool enabled;

	asm volatile(".byte 0xf3,0x0f,0x01,0xed" : "=@ccc" (enabled) : : "memory");
	return enabled;
}

static void clui(void)
{
	asm volatile(".byte 0xf3,0x0f,0x01,0xee" : : : "memory");
}

static void stui(void)
{
	asm volatile(".byte 0xf3,0x0f,0x01,0xef" : : : "memory");
}

/* By halves, for the names of the whole-register macros have changed. */
static void write_register(u32 msr, u64 value)
{
	wrmsr(msr, (u32)value, (u32)(value >> 32));
}

static u64 read_register(u32 msr)
{
	u32 low, high;

	rdmsr(msr, low, high);
	return (u64)high << 32 | low;
}

u32 uintr_notification_vector(void)
{
	return NOTIFICATION_VECTOR;
}

bool uintr_x2apic(void)
{
	return x2apic_mode;
}

/* The calling CPU, as the destination field of a descriptor has it. */
static u64 destination(void)
{
	u32 id = per_cpu(x86_cpu_to_apicid, smp_processor_id());

	if (!x2apic_mode)
		id = (id & 0xff) << 8;
	return (u64)id << UPID_DESTINATION_SHIFT;
}

/* A receiver that does not run: posted to, never notified. */
void uintr_upid_init(struct uintr_upid *upid)
{
	upid->pir = 0;
	upid->status = (u64)NOTIFICATION_VECTOR << UPID_VECTOR_SHIFT | BIT_ULL(UPID_SUPPRESS_BIT);
}

/*
 * Puts a thread's state on the calling CPU.
 *
 * Order. The one exchange of the status word names this CPU and clears "outstanding" and "suppressed"; from then on a
 * sender that posts also notifies. Only then are the posted bits taken, so a bit is either in what is taken here, or
 * was posted after the exchange and comes with a notification, or both, which costs a notification that finds
 * nothing. The processor cannot take a notification meanwhile and change UIRR under our feet: interrupts are off.
 */
void uintr_state_load(struct uintr_state *state, bool *merged)
{
	u64 misc = 0;

	*merged = false;
	if (state->entries) {
		misc = MISC_LAST_ENTRY;
		write_register(UINTR_TT, (u64)state->entries | TT_ENABLED);
	}
	if (state->upid) {
		u64 posted;

		misc |= MISC_NOTIFICATION;
		write_register(UINTR_HANDLER, state->handler);
		write_register(UINTR_STACKADJUST, state->stack_adjust);
		write_register(UINTR_PD, (u64)state->upid);
		xchg(&state->upid->status, (u64)NOTIFICATION_VECTOR << UPID_VECTOR_SHIFT | destination());
		posted = xchg(&state->upid->pir, 0);
		*merged = posted != 0;
		write_register(UINTR_RR, state->pending | posted);
	}
	write_register(UINTR_MISC, misc);
	if (state->upid) {
		if (state->enabled)
			stui();
		else
			clui();
	}
}

/*
 * Takes a thread's state off the calling CPU. Senders are told to stop notifying first; a notification already under
 * way meets a CPU without UINV and is acknowledged by the kernel, or with another receiver's UINV and finds nothing.
 *
 * The next thread must not be interrupted (UIRR, UIF), must not take notifications (MISC) and must not send (TT).
 * Handler, stack and descriptor address mean nothing without those, and no instruction shows them.
 */
void uintr_state_save(struct uintr_state *state)
{
	if (state->upid) {
		set_bit(UPID_SUPPRESS_BIT, (unsigned long *)&state->upid->status);
		state->enabled = testui();
		clui();
		state->pending = read_register(UINTR_RR);
		write_register(UINTR_RR, 0);
	}
	write_register(UINTR_MISC, 0);
	if (state->entries)
		write_register(UINTR_TT, 0);
}

static void clear_registers(void)
{
	clui();
	write_register(UINTR_MISC, 0);
	write_register(UINTR_TT, 0);
	write_register(UINTR_RR, 0);
	write_register(UINTR_PD, 0);
	write_register(UINTR_HANDLER, 0);
	write_register(UINTR_STACKADJUST, 0);
}

/* Takes the state off for good: nothing in a register points to what is about to be freed. */
void uintr_state_clear(struct uintr_state *state)
{
	if (state->upid)
		set_bit(UPID_SUPPRESS_BIT, (unsigned long *)&state->upid->status);
	clear_registers();
}

void uintr_state_set_stack(struct uintr_state *state, u64 adjust)
{
	state->stack_adjust = adjust;
	write_register(UINTR_STACKADJUST, adjust);
}

void uintr_cpu_enable(void)
{
	unsigned long flags;

	local_irq_save(flags);
	cr4_update_irqsoff(CR4_UINTR, 0);
	clear_registers();
	local_irq_restore(flags);
}

void uintr_cpu_disable(void *unused)
{
	unsigned long flags;

	local_irq_save(flags);
	clear_registers();
	cr4_update_irqsoff(0, CR4_UINTR);
	local_irq_restore(flags);
}

/* Notifications that reached the kernel, since boot. */
u64 uintr_stray_notifications(void)
{
	u64 sum = 0;
	int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu(irq_stat.NOTIFICATION_COUNT, cpu));
	return sum;
}

struct in_use {
	atomic_t cr4;
	atomic_t xss;
};

static void look_whether_in_use(void *data)
{
	struct in_use *in_use = data;

	if (__read_cr4() & CR4_UINTR)
		atomic_set(&in_use->cr4, 1);
	if (boot_cpu_has(X86_FEATURE_XSAVES) && read_register(MSR_IA32_XSS) & XSS_UINTR)
		atomic_set(&in_use->xss, 1);
}

int uintr_hardware_check(void)
{
	struct in_use in_use = { ATOMIC_INIT(0), ATOMIC_INIT(0) };

	if (boot_cpu_data.cpuid_level < 7 || !(cpuid_edx(7) & CPUID_7_EDX_UINTR)) {
		pr_err("this processor has no user interrupts (CPUID leaf 7, EDX bit 5)\n");
		return -ENODEV;
	}
	/*
	 * The processor reads descriptors and tables at kernel addresses while it runs user code; with page-table
	 * isolation those are not mapped then.
	 */
	if (boot_cpu_has(X86_FEATURE_PTI)) {
		pr_err("page-table isolation is active: user interrupts cannot reach their descriptors; boot without pti=on\n");
		return -EOPNOTSUPP;
	}
	on_each_cpu(look_whether_in_use, &in_use, 1);
	if (atomic_read(&in_use.cr4)) {
		pr_err("CR4.UINTR is set already: this kernel, or another module, uses user interrupts itself\n");
		return -EBUSY;
	}
	if (atomic_read(&in_use.xss)) {
		pr_err("XSS bit 14 is set: this kernel saves the user-interrupt state itself\n");
		return -EBUSY;
	}
	return 0;
}

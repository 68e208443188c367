// SPDX-License-Identifier: GPL-2.0
/*
 * The events of the kernel by which the core learns what it is not called for.
 *
 * exec         the tracepoint sched_process_exec, which runs in the thread that execs, after the new address space is
 *              in place, before it returns to user code; an exec that fails after the point of no return kills the
 *              thread instead. It is the only such event that also covers a thread that shares its address space
 *              (vfork, CLONE_VM): the release of the old address space does not come then. A kernel of which the core
 *              is a part calls uintr_flush_thread instead, at the same stage and with the same reach.
 * first send   the trap of an undefined instruction, by the chain of "die" notifiers.
 * hotplug      a state of the CPU hotplug machine.
 * suspend      system core operations: they run last and first, interrupts off, on the one CPU left.
 */
#include "private.h"

#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/kdebug.h>
#include <linux/preempt.h>
#include <linux/ptrace.h>
#include <linux/sched.h>
#include <linux/string.h>
#include <linux/syscore_ops.h>
#include <linux/tracepoint.h>
#include <asm/trapnr.h>
#ifdef MODULE
#include <trace/events/sched.h>
#else
#include <asm/uintr.h>
#endif

/* ---- exec ---------------------------------------------------------------------------------------------------- */

#ifdef MODULE
static struct tracepoint *exec_event;

static void after_exec(void *unused, struct task_struct *task, pid_t old_pid, struct linux_binprm *binary)
{
	uintr_thread_forget();
}

static void find_exec_event(struct tracepoint *event, void *unused)
{
	if (!strcmp(event->name, "sched_process_exec"))
		exec_event = event;
}

static int exec_init(void)
{
	/* Does not build if the event's arguments are others. */
	check_trace_callback_type_sched_process_exec(after_exec);

	for_each_kernel_tracepoint(find_exec_event, NULL);
	if (!exec_event) {
		pr_err("this kernel has no event sched_process_exec\n");
		return -EOPNOTSUPP;
	}
	return tracepoint_probe_register(exec_event, after_exec, NULL);
}

static void exec_exit(void)
{
	tracepoint_probe_unregister(exec_event, after_exec, NULL);
	tracepoint_synchronize_unregister();
}
#else
void uintr_flush_thread(void)
{
	uintr_thread_forget();
}

static int exec_init(void)
{
	return 0;
}

static void exec_exit(void)
{
}
#endif

/* ---- a thread's first SENDUIPI --------------------------------------------------------------------------------- */

/*
 * Any thread may use its address space's table, also one that existed before the table, or was made by clone since
 * then; neither is seen by us. Its first SENDUIPI is undefined, for its register is not set. So: an undefined
 * instruction, in user code, of a thread whose address space has a table that the thread does not use yet. We let it
 * use the table and have the instruction executed again. Which instruction it was does not matter, and is not looked
 * at, for the code may not be readable (execute-only) or, with interrupts off as here, not present: the thread is
 * entitled to its table anyway, and if it was another instruction it traps once more, finds the table set, and gets
 * its signal. No instruction is retried twice, so nothing loops; only when there is no memory now is the instruction
 * retried until there is, with interrupts on and the thread preemptible between two tries.
 */
#ifdef CONFIG_PREEMPT_RT
#error "not for PREEMPT_RT: there nothing can be allocated in the trap of an undefined instruction"
#endif

static int undefined_instruction(struct notifier_block *block, unsigned long what, void *data)
{
	struct die_args *args = data;
	struct uintr_table *table;

	if (what != DIE_TRAP || args->trapnr != X86_TRAP_UD || !user_mode(args->regs))
		return NOTIFY_DONE;
	table = uintr_table_current();
	if (!table || uintr_thread_send(table, GFP_ATOMIC | __GFP_ACCOUNT | __GFP_NOWARN) == -EALREADY)
		return NOTIFY_DONE;
	return NOTIFY_STOP;
}

static struct notifier_block undefined_instruction_block = {
	.notifier_call = undefined_instruction,
};

/* ---- CPU hotplug ----------------------------------------------------------------------------------------------- */

static enum cpuhp_state hotplug_state;

/* In the CPU's own hotplug thread, before the scheduler gives the CPU user threads. */
static int enable_cpu(unsigned int cpu)
{
	uintr_cpu_enable();
	return 0;
}

/*
 * There is no counterpart when a CPU goes: at that point of its way down, user threads may still be switched in on it
 * for a moment, and their SENDUIPI would be undefined. A thread that leaves takes its state off, as at every switch;
 * the CPU itself loses CR4, and enable_cpu clears its registers when it comes back.
 */
static int hotplug_init(void)
{
	int state = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "x86/uintr:online", enable_cpu, NULL);

	if (state < 0)
		return state;
	hotplug_state = state;
	return 0;
}

/*
 * The lock over both: a CPU that came up in between would be without CR4.UINTR, and to clear what it does not have is an
 * undefined instruction. One that comes up afterwards is not enabled; one that is down has nothing to disable.
 */
static void hotplug_exit(void)
{
	cpus_read_lock();
	cpuhp_remove_state_nocalls_cpuslocked(hotplug_state);
	on_each_cpu(uintr_cpu_disable, NULL, 1);
	cpus_read_unlock();
}

/* ---- suspend --------------------------------------------------------------------------------------------------- */

/* The thread that writes to /sys/power/state may be a receiver itself. */
static int before_suspend(void)
{
	uintr_thread_suspend();
	return 0;
}

/* Other CPUs come back by hotplug. */
static void after_suspend(void)
{
	uintr_cpu_enable();
	uintr_thread_resume();
}

/* Kbuild looks into the header, for stable kernels have taken the newer form, too: versions do not tell. */
#ifdef UINTR_SYSCORE_WITH_DATA
static int suspend_with_data(void *unused)
{
	return before_suspend();
}

static void resume_with_data(void *unused)
{
	after_suspend();
}

static const struct syscore_ops suspend_ops = {
	.suspend = suspend_with_data,
	.resume = resume_with_data,
};

static struct syscore suspend_block = { .ops = &suspend_ops };

static void suspend_init(void)
{
	register_syscore(&suspend_block);
}

static void suspend_exit(void)
{
	unregister_syscore(&suspend_block);
}
#else
static struct syscore_ops suspend_ops = {
	.suspend = before_suspend,
	.resume = after_suspend,
};

static void suspend_init(void)
{
	register_syscore_ops(&suspend_ops);
}

static void suspend_exit(void)
{
	unregister_syscore_ops(&suspend_ops);
}
#endif

/* ---------------------------------------------------------------------------------------------------------------- */

int uintr_hooks_init(void)
{
	int error;

	preempt_notifier_inc();
	error = exec_init();
	if (error)
		goto no_exec;
	error = register_die_notifier(&undefined_instruction_block);
	if (error)
		goto no_trap;
	error = hotplug_init();
	if (error)
		goto no_hotplug;
	suspend_init();
	return 0;

no_hotplug:
	unregister_die_notifier(&undefined_instruction_block);
no_trap:
	exec_exit();
no_exec:
	preempt_notifier_dec();
	return error;
}

/* After this no code of ours runs but what the caller calls. */
void uintr_hooks_exit(void)
{
	suspend_exit();
	hotplug_exit();
	unregister_die_notifier(&undefined_instruction_block);
	exec_exit();
	preempt_notifier_dec();
}

// SPDX-License-Identifier: GPL-2.0
/* What a front end may ask, and when it may not: every errno of uintr_uapi.h but those of copying arguments. */
#include "private.h"
#include "uintr_core.h"

#include <linux/err.h>
#include <linux/file.h>
#include <linux/processor.h>
#include <linux/sched.h>

/* Skips what the ABI lets a leaf function keep below its stack pointer. */
#define RED_ZONE	128
/* In the register for the stack: load the rest of it into RSP, rather than subtract it. */
#define STACK_LOAD	1

static u64 notifications_at_load;

/* What the register for the stack has to hold. */
static int stack_register(u64 stack, u64 size, u64 *value)
{
	if (!stack && !size) {
		*value = RED_ZONE;
		return 0;
	}
	if (!stack || size < UINTR_MIN_STACK || stack >= TASK_SIZE_MAX || size > TASK_SIZE_MAX - stack)
		return -EINVAL;
	/* The top: the processor rounds it down to 16 and pushes from there. */
	*value = (stack + size) | STACK_LOAD;
	return 0;
}

int uintr_register_handler(u64 handler, u64 stack, u64 stack_size)
{
	struct uintr_receiver *receiver;
	u64 value;
	int error;

	if (!handler || handler >= TASK_SIZE_MAX)
		return -EINVAL;
	error = stack_register(stack, stack_size, &value);
	if (error)
		return error;
	if (uintr_thread_receiver())
		return -EBUSY;
	receiver = uintr_receiver_new();
	if (!receiver)
		return -ENOMEM;
	error = uintr_thread_receive(receiver, handler, value);
	if (error)
		uintr_receiver_retire(receiver);
	uintr_receiver_put(receiver);
	return error;
}

int uintr_unregister_handler(void)
{
	return uintr_thread_stop_receiving();
}

int uintr_set_stack(u64 stack, u64 stack_size)
{
	u64 value;
	int error = stack_register(stack, stack_size, &value);

	return error ? error : uintr_thread_set_stack(value);
}

int uintr_vector_fd(unsigned int vector)
{
	struct uintr_receiver *receiver = uintr_thread_receiver();

	if (!receiver)
		return -EOPNOTSUPP;
	if (vector >= UINTR_VECTORS)
		return -ENOSPC;
	return uintr_vector_fd_new(receiver, vector);
}

/* A new registration in the current address space's table, which the calling thread can use from now on. */
static int register_sender(struct uintr_receiver *receiver, unsigned int vector)
{
	struct uintr_table *table = uintr_table_make();
	int error;

	if (IS_ERR(table))
		return PTR_ERR(table);
	error = uintr_thread_send(table, GFP_KERNEL_ACCOUNT);
	if (error && error != -EALREADY)
		return error;
	return uintr_table_add(table, receiver, vector);
}

int uintr_register_sender(int fd)
{
	struct file *file = fget(fd);
	struct uintr_receiver *receiver;
	unsigned int vector;
	int result;

	if (!file)
		return -EBADF;
	receiver = uintr_vector_of(file, &vector);
	if (!receiver)
		result = -EOPNOTSUPP;
	else if (!READ_ONCE(receiver->active))
		result = -ESHUTDOWN;
	else
		result = register_sender(receiver, vector);
	fput(file);
	return result;
}

int uintr_register_self(unsigned int vector)
{
	struct uintr_receiver *receiver = uintr_thread_receiver();

	if (!receiver)
		return -EOPNOTSUPP;
	if (vector >= UINTR_VECTORS)
		return -ENOSPC;
	return register_sender(receiver, vector);
}

int uintr_unregister_sender(unsigned int index)
{
	struct uintr_table *table = uintr_table_current();

	return table ? uintr_table_remove(table, index) : -EINVAL;
}

void uintr_read_info(struct uintr_info *info)
{
	*info = (struct uintr_info) {
		.abi = UINTR_ABI,
		.notification_vector = uintr_notification_vector(),
		.x2apic = uintr_x2apic(),
		.receivers = uintr_receivers_active(),
		.upids = uintr_receivers_existing(),
		.tables = uintr_tables_existing(),
		.notifications = uintr_stray_notifications() - notifications_at_load,
	};
}

int uintr_read_stats(struct uintr_stats *stats)
{
	const struct uintr_stats *counted = uintr_thread_stats();

	if (!counted)
		return -EOPNOTSUPP;
	*stats = *counted;
	return 0;
}

int uintr_core_init(void)
{
	int error = uintr_hardware_check();

	if (error)
		return error;
	error = uintr_receivers_init();
	if (error)
		return error;
	uintr_tables_init();
	notifications_at_load = uintr_stray_notifications();
	error = uintr_hooks_init();
	if (error)
		uintr_receivers_exit();
	return error;
}

void uintr_core_exit(void)
{
	uintr_hooks_exit();
	uintr_tables_exit();
	uintr_burial_drain();
	uintr_receivers_exit();
}

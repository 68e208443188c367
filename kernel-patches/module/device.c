// SPDX-License-Identifier: GPL-2.0
/*
 * /dev/uintr: the core's calls as ioctls. Its descriptor stands for nothing; every call acts on the calling thread, so
 * everybody may open it. A 32-bit program has no calls (its compat_ioctl is missing: ENOTTY), as it has no user
 * interrupts.
 */
#include <linux/fs.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/uaccess.h>
#include <uintr_uapi.h>

#include "core/uintr_core.h"
#include "device.h"

static long info(void __user *argument)
{
	struct uintr_info info;

	uintr_read_info(&info);
	return copy_to_user(argument, &info, sizeof(info)) ? -EFAULT : 0;
}

static long stats(void __user *argument)
{
	struct uintr_stats stats;
	int error = uintr_read_stats(&stats);

	if (error)
		return error;
	return copy_to_user(argument, &stats, sizeof(stats)) ? -EFAULT : 0;
}

static long register_handler(void __user *argument)
{
	struct uintr_handler handler;

	if (copy_from_user(&handler, argument, sizeof(handler)))
		return -EFAULT;
	if (handler.flags || handler.reserved)
		return -EINVAL;
	return uintr_register_handler(handler.handler, handler.stack, handler.stack_size);
}

static long set_stack(void __user *argument)
{
	struct uintr_stack stack;

	if (copy_from_user(&stack, argument, sizeof(stack)))
		return -EFAULT;
	if (stack.flags || stack.reserved)
		return -EINVAL;
	return uintr_set_stack(stack.stack, stack.stack_size);
}

static long with_vector(void __user *argument, int (*call)(unsigned int))
{
	struct uintr_vector vector;

	if (copy_from_user(&vector, argument, sizeof(vector)))
		return -EFAULT;
	if (vector.flags)
		return -EINVAL;
	return call(vector.vector);
}

static long register_sender(void __user *argument)
{
	struct uintr_sender sender;

	if (copy_from_user(&sender, argument, sizeof(sender)))
		return -EFAULT;
	if (sender.flags)
		return -EINVAL;
	return uintr_register_sender(sender.fd);
}

static long unregister_sender(void __user *argument)
{
	struct uintr_index index;

	if (copy_from_user(&index, argument, sizeof(index)))
		return -EFAULT;
	if (index.flags)
		return -EINVAL;
	return uintr_unregister_sender(index.index);
}

static long device_ioctl(struct file *file, unsigned int call, unsigned long value)
{
	void __user *argument = (void __user *)value;

	switch (call) {
	case UINTR_IOC_INFO:
		return info(argument);
	case UINTR_IOC_REGISTER_HANDLER:
		return register_handler(argument);
	case UINTR_IOC_UNREGISTER_HANDLER:
		return uintr_unregister_handler();
	case UINTR_IOC_ALT_STACK:
		return set_stack(argument);
	case UINTR_IOC_VECTOR_FD:
		return with_vector(argument, uintr_vector_fd);
	case UINTR_IOC_REGISTER_SENDER:
		return register_sender(argument);
	case UINTR_IOC_UNREGISTER_SENDER:
		return unregister_sender(argument);
	case UINTR_IOC_REGISTER_SELF:
		return with_vector(argument, uintr_register_self);
	case UINTR_IOC_STATS:
		return stats(argument);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations device_operations = {
	.owner = THIS_MODULE,
	.unlocked_ioctl = device_ioctl,
	.llseek = noop_llseek,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "uintr",
	.mode = 0666,
	.fops = &device_operations,
};

int uintr_device_init(void)
{
	return misc_register(&device);
}

void uintr_device_exit(void)
{
	misc_deregister(&device);
}

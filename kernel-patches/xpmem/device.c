// SPDX-License-Identifier: GPL-2.0
/* /dev/xpmem: its calls. */
#include "private.h"

#include <linux/miscdevice.h>
#include <linux/module.h>

static long device_ioctl(struct file *file, unsigned int call, unsigned long value)
{
	void __user *argument = (void __user *)value;

	switch (call) {
	case XPMEM_CMD_VERSION:
		return XPMEM_VERSION;
	case XPMEM_CMD_MAKE:
		return xpmem_make(argument);
	case XPMEM_CMD_REMOVE:
		return xpmem_remove(argument);
	case XPMEM_CMD_GET:
		return xpmem_get(argument);
	case XPMEM_CMD_RELEASE:
		return xpmem_release(argument);
	case XPMEM_CMD_ATTACH:
		return xpmem_attach(file, argument);
	case XPMEM_CMD_DETACH:
		return xpmem_detach(argument);
	default:
		return -ENOTTY;
	}
}

static const struct file_operations device_operations = {
	.owner = THIS_MODULE,
	.open = xpmem_open,
	.flush = xpmem_flush,
	.release = xpmem_release_file,
	.mmap = xpmem_mmap,
	.unlocked_ioctl = device_ioctl,
	.llseek = noop_llseek,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "xpmem",
	.mode = 0666,
	.fops = &device_operations,
};

module_misc_device(device);

MODULE_DESCRIPTION("A stand-in for XPMEM, for tests");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");

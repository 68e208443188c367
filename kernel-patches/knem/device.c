// SPDX-License-Identifier: GPL-2.0
/* /dev/knem: its calls. */
#include "private.h"

#include <linux/cred.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

static long get_info(void __user *argument)
{
	struct knem_cmd_info info = { .abi = KNEM_ABI_VERSION };

	return copy_to_user(argument, &info, sizeof(info)) ? -EFAULT : 0;
}

static int device_open(struct inode *inode, struct file *file)
{
	struct opener *opener = NULL;

	/* Who only reads has no regions. */
	if (file->f_mode & FMODE_WRITE) {
		opener = kmalloc(sizeof(*opener), GFP_KERNEL);
		if (!opener)
			return -ENOMEM;
		opener->uid = current_uid();
	}
	file->private_data = opener;
	return 0;
}

/* The last descriptor is closed, in whichever process. */
static int device_release(struct inode *inode, struct file *file)
{
	struct opener *opener = file->private_data;

	if (opener)
		knem_unlist_all(opener);
	kfree(opener);
	return 0;
}

static long device_ioctl(struct file *file, unsigned int call, unsigned long value)
{
	void __user *argument = (void __user *)value;
	struct opener *opener = file->private_data;

	if (!opener)
		return -EBADF;
	switch (call) {
	case KNEM_CMD_GET_INFO:
		return get_info(argument);
	case KNEM_CMD_CREATE_REGION:
		return knem_create(opener, argument);
	case KNEM_CMD_DESTROY_REGION:
		return knem_destroy(opener, argument);
	case KNEM_CMD_INLINE_COPY:
		return knem_inline_copy(argument);
	default:
		return -ENOSYS;
	}
}

static const struct file_operations device_operations = {
	.owner = THIS_MODULE,
	.open = device_open,
	.release = device_release,
	.unlocked_ioctl = device_ioctl,
	.llseek = noop_llseek,
};

static struct miscdevice device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "knem",
	.mode = 0666,
	.fops = &device_operations,
};

module_misc_device(device);

MODULE_DESCRIPTION("A stand-in for KNEM, for tests");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");

// SPDX-License-Identifier: GPL-2.0
/*
 * The module: core, then device.
 *
 * Unloading is refused while anything is in use, by the module's reference count: an open device or vector
 * descriptor, a thread that receives or has sent, an address space with a table of senders each hold one.
 */
#include <linux/module.h>

#include "core/uintr_core.h"
#include "device.h"

static int __init uintr_init(void)
{
	int error = uintr_core_init();

	if (error)
		return error;
	error = uintr_device_init();
	if (error)
		uintr_core_exit();
	return error;
}

static void __exit uintr_exit(void)
{
	uintr_device_exit();
	uintr_core_exit();
}

module_init(uintr_init);
module_exit(uintr_exit);

MODULE_DESCRIPTION("User interrupts for unmodified programs' threads, by /dev/uintr");
MODULE_LICENSE("GPL");
MODULE_VERSION("0.1.0");

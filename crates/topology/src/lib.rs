//! Cores, caches and NUMA nodes from /sys or a synthetic description; placement policies.

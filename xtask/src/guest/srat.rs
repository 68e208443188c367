//! A machine of several NUMA nodes, as far as its kernel can tell: the emulator has none, but a kernel takes tables of the firmware out of
//! its initramfs (CONFIG_ACPI_TABLE_UPGRADE, which Debian's have), and one of them says to which node processors and memory belong
//! (ACPI 6.5, 5.2.16).

/// Where the kernel looks for tables, each directory before what is in it.
pub const DIRECTORIES: [&str; 3] = ["kernel", "kernel/firmware", "kernel/firmware/acpi"];
pub const FILE: &str = "kernel/firmware/acpi/srat.aml";

/// Processors and memory in shares as equal as can be, the first to the first node.
pub fn table(nodes: u32, cpus: u32, memory_mib: u32) -> Vec<u8> {
    let mut entries = Vec::new();
    for cpu in 0..cpus {
        let node = u64::from(cpu) * u64::from(nodes) / u64::from(cpus);
        // Type, length, node, number of the APIC, enabled; the rest is 0.
        entries.extend([0, 16, node as u8, cpu as u8, 1]);
        entries.extend([0; 11]);
    }
    let share = |node: u32| (u64::from(node) * u64::from(memory_mib) / u64::from(nodes)) << 20;
    for node in 0..nodes {
        entries.extend([1, 40]);
        entries.extend(node.to_le_bytes());
        entries.extend([0; 2]);
        entries.extend(share(node).to_le_bytes());
        entries.extend((share(node + 1) - share(node)).to_le_bytes());
        entries.extend([0; 4]);
        entries.extend(1u32.to_le_bytes());
        entries.extend([0; 8]);
    }
    let mut table = Vec::from(*b"SRAT");
    table.extend((48 + entries.len() as u32).to_le_bytes());
    // Revision; the sum, for now; whose table it is, and of which version.
    table.extend([3, 0]);
    table.extend(*b"TOCSINGUEST   \x01\0\0\0TCSN\x01\0\0\0");
    table.extend(1u32.to_le_bytes());
    table.extend([0; 8]);
    table.extend(entries);
    table[SUM] = table.iter().fold(0u8, |sum, byte| sum.wrapping_sub(*byte));
    table
}

/// Where the byte is that makes the sum of all bytes 0.
const SUM: usize = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_as_the_specification_says() {
        let table = table(2, 4, 512);
        assert_eq!(table.len(), 48 + 4 * 16 + 2 * 40);
        assert_eq!(table[4..8], (table.len() as u32).to_le_bytes());
        assert_eq!(table.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)), 0);
        let cpu = |n: usize| &table[48 + 16 * n..][..16];
        for (n, node) in [0, 0, 1, 1].into_iter().enumerate() {
            assert_eq!(cpu(n)[..8], [0, 16, node, n as u8, 1, 0, 0, 0]);
        }
        let word = |at: usize| u64::from_le_bytes(table[at..at + 8].try_into().expect("8 bytes"));
        for node in 0..2 {
            let at = 48 + 4 * 16 + 40 * node;
            assert_eq!(table[at..at + 8], [1, 40, node as u8, 0, 0, 0, 0, 0]);
            assert_eq!((word(at + 8), word(at + 16)), ((node as u64) << 28, 1 << 28));
            assert_eq!(table[at + 28..at + 32], [1, 0, 0, 0]);
        }
    }
}
